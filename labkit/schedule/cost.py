"""What an op asks of the hardware, so that the simulator and the roofline need no second description."""

from typing import NamedTuple


class Cost(NamedTuple):
    """What one op asks of the hardware, independent of the machine it runs on.

    flop         floating-point operations (a multiply-add counts as two)
    bytes        bytes moved: over the link for a copy, to and from memory for compute
    jpeg_pixels  pixels of JPEG source that are decoded
    fixed_ns     time that no hardware figure explains, in ns
    launches     kernels that the host enqueues one by one (an eager training step has hundreds)
    pageable     the copy starts or ends in host memory that is not pinned
    bits         width of the floating-point type it computes in
    resident     bytes that must lie in device memory at once while it runs
    """

    flop: int = 0
    bytes: int = 0
    jpeg_pixels: int = 0
    fixed_ns: int = 0
    launches: int = 1
    pageable: bool = False
    bits: int = 32
    resident: int = 0


FREE = Cost()
