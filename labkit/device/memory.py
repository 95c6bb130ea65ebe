"""What memory is free, in words: for whoever tells of a process that was killed."""

from labkit.units import format_bytes

SCARCE_SHARE = 0.1


def free_memory_words() -> str:
    """`1.2 GiB of 31 GiB of memory are free now`; with little left, that this is perhaps why."""
    import psutil

    memory = psutil.virtual_memory()
    free = f"{format_bytes(memory.available)} of {format_bytes(memory.total)} of memory are free now"
    return f"perhaps out of memory: {free}" if memory.available < SCARCE_SHARE * memory.total else free
