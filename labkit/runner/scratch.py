"""The folder of one worker, for its log and the traces on their way, in the system's temporary folder.

It goes when it is closed. A program that is killed cannot close it; so whoever makes the next one looks for those whose owner is gone:
the owner holds a lock on a file in the folder, which ends with the owner however that ends.
"""

import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import BinaryIO

PREFIX = "labkit-worker-"
_OWNER = "owner"


class Scratch:
    """A folder that is there until it is closed, or its owner was killed and another one is made.

    path  the folder
    """

    def __init__(self) -> None:
        _sweep()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        coming = self.path / "coming"
        lock = coming.open("wb")
        fcntl.flock(lock, fcntl.LOCK_EX)
        coming.rename(self.path / _OWNER)  # with its lock: nobody finds it without
        self._end = weakref.finalize(self, _take_away, self.path, lock)

    def close(self) -> None:
        """Take the folder away. May be called again."""
        self._end()


def _take_away(path: Path, lock: BinaryIO) -> None:
    shutil.rmtree(path, ignore_errors=True)
    lock.close()


def _sweep() -> None:
    """Take away the folders whose owner is gone."""
    for owner in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{_OWNER}"):
        try:
            descriptor = os.open(owner, os.O_RDWR)
        except OSError:
            continue  # another user's, or closed just now
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(owner.parent, ignore_errors=True)
        except OSError:
            pass  # its owner lives
        finally:
            os.close(descriptor)
