"""Running kernels: in this process or in a worker, once, in interleaved rounds, or over a grid."""
