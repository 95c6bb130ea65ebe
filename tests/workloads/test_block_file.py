"""The table's file: what was written is read, around the system's cache or with it; what is wrong is said with the block and its bytes."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from labkit.errors import DataError
from labkit.workloads import block_file
from labkit.workloads.block_file import BlockFile


def bytes_of(block: int) -> np.ndarray:
    return np.full(5000, block + 1, np.uint8)


def first_byte(file: BlockFile, block: int, cached: bool = True) -> int:
    into = np.zeros(5000, np.uint8)
    file.read(block, memoryview(into), cached)
    assert (into == into[0]).all()
    return int(into[0])


@pytest.mark.parametrize("cached", [True, False])
def test_what_was_written_is_read_and_nothing_is_left_behind(tmp_path: Path, cached: bool):
    file = BlockFile(5, 5000, bytes_of, str(tmp_path))
    assert [first_byte(file, block, cached) for block in (3, 0, 4, 3)] == [4, 1, 5, 4]
    assert list(tmp_path.iterdir()) == [], "the file has no name"
    assert file.size == 5 * 8192, "each block begins at a page"
    file.close()


def test_several_threads_may_read_at_once(tmp_path: Path):
    file = BlockFile(50, 5000, bytes_of, str(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda block: first_byte(file, block, False), range(50))) == list(range(1, 51))


def test_a_file_that_was_changed_or_cut_off_is_refused_with_the_block_and_its_bytes(tmp_path: Path):
    file = BlockFile(3, 5000, bytes_of, str(tmp_path))
    os.pwrite(file._file.fileno(), b"x", 8192 + 7)
    with pytest.raises(DataError, match="block 1 is not what was written: its checksum differs"):
        first_byte(file, 1)
    os.ftruncate(file._file.fileno(), 2 * 8192 + 400)
    with pytest.raises(DataError, match=r"block 2 is cut off: 400 B of 4.88 KiB are there"):
        first_byte(file, 2)
    assert first_byte(file, 0) == 1, "the others are as they were"
    file.close()
    with pytest.raises(ValueError, match="closed"):
        first_byte(file, 0)


def test_a_new_run_looks_at_everything_again(tmp_path: Path):
    file = BlockFile(2, 5000, bytes_of, str(tmp_path))
    first_byte(file, 0)
    os.pwrite(file._file.fileno(), b"\x01\x02", 0)
    with pytest.raises(AssertionError):
        first_byte(file, 0)
    file.begin()
    with pytest.raises(DataError, match="checksum"):
        first_byte(file, 0)


def test_a_folder_that_is_not_there_is_refused_with_what_was_to_be_written():
    with pytest.raises(DataError, match=r"block 0 of 5 \(4.88 KiB; 40 KiB in all\) cannot be written to /dev/nowhere: No such file"):
        BlockFile(5, 5000, bytes_of, "/dev/nowhere")


def test_a_table_larger_than_the_disk_is_refused_before_it_is_written(tmp_path: Path):
    with pytest.raises(DataError, match=r"1000000000 blocks of 4.88 KiB need 7.45 TiB; .* has .* free: use fewer or smaller blocks, or another folder"):
        BlockFile(10**9, 5000, bytes_of, str(tmp_path))


def test_a_disk_that_fills_up_meanwhile_is_said_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(self: BlockFile, data: memoryview, at: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(BlockFile, "_write", full)
    with pytest.raises(DataError, match=r"cannot be written to .*: No space left on device"):
        BlockFile(5, 5000, bytes_of, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_in_memory_is_known_by_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = BlockFile(1, 5000, bytes_of, str(tmp_path))
    device = os.fstat(file._file.fileno()).st_dev
    mounts = tmp_path / "mountinfo"
    line = f"31 1 {os.major(device)}:{os.minor(device)} / /somewhere rw shared:1 - KIND none rw\n"
    monkeypatch.setattr(block_file, "MOUNTS", mounts)
    for kind, in_memory in (("tmpfs", True), ("ramfs", True), ("ext4", False)):
        mounts.write_text(f"22 1 0:21 / /proc rw - proc proc rw\n{line.replace('KIND', kind)}")
        assert file.in_memory() is in_memory
    mounts.unlink()
    assert file.in_memory() is False, "where nothing is known, nothing is claimed"
