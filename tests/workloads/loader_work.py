"""What the loader processes of the tests are asked to do. They import this module themselves."""

import os
import sys
import threading
import time
from typing import Any

import torch


class Unpicklable(Exception):
    """Its journey ends in an error."""

    def __init__(self, one: str, two: str):
        super().__init__(f"{one} {two}")


def work(request: tuple[str, Any]) -> Any:
    """Do what the request names."""
    kind, value = request
    if kind == "double":
        return 2 * value
    if kind == "tensor":
        return {"images": torch.full((3, 4), float(value)), "labels": [torch.arange(value)]}
    if kind == "nap":
        time.sleep(value)
        return None
    if kind == "who":
        return os.getpid(), torch.get_num_threads(), list(sys.path)
    if kind == "cores":
        return [os.sched_getaffinity(int(thread)) for thread in os.listdir("/proc/self/task")]
    if kind == "raise":
        raise value
    if kind == "raise unpicklable":
        raise Unpicklable("two", "words")
    if kind == "lock":
        return threading.Lock()
    if kind == "exit":
        sys.exit(value)
    raise AssertionError(kind)


class Refusing:
    """Work that cannot be had in another process."""

    def __reduce__(self) -> Any:
        return refuse, ()


def refuse() -> None:
    raise LookupError("not on this side")
