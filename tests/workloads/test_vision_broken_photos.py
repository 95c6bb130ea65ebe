"""A photo that cannot be decoded is replaced, counted and named; when none can be, that is an error and the run ends."""

import numpy as np
import pytest

from labkit.data import Photos, decode_square
from labkit.device.cpu import CpuDevice
from labkit.errors import DataError
from labkit.kernels.pipeline import pipeline
from labkit.schedule import Step
from labkit.workloads.vision import VisionTraining

DECODED = 36  # the side of the square that a crop of 32 is cut from


def test_a_truncated_photo_is_replaced_by_the_next_counted_and_named_once(hand, few_photos):
    damaged = sorted((few_photos / "cat").iterdir())[-1]
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    data = Photos.open(few_photos)
    place = data.paths.index(damaged)
    workload = VisionTraining(data, hand.knobs(), "cpu")
    knobs = hand.knobs(batch_size=6, augment_on="gpu", normalise_on="gpu")
    for epoch in range(3):
        order = np.random.default_rng((0, epoch)).permutation(6)
        (batch, _crops) = workload.load(Step(epoch, knobs), 0).run()
        at = order.tolist().index(place)
        assert np.array_equal(batch.images[at].numpy(), decode_square(data.paths[place + 1], DECODED))
        assert batch.labels_B[at] == data.labels[place + 1] == 1
        assert batch.labels_B.sum() == 3 + 1
    assert list(workload.skipped) == [str(damaged)]
    (note,) = workload.notes()
    assert note.startswith("1 images could not be decoded and were replaced by the next: ")
    assert note.count(str(damaged)) == 1 and "truncated" in note


def test_a_new_run_counts_broken_photos_anew(hand, few_photos):
    damaged = sorted((few_photos / "cat").iterdir())[0]
    damaged.write_bytes(damaged.read_bytes()[:2000])
    workload = VisionTraining(Photos.open(few_photos), hand.knobs(), "cpu")
    workload.load(Step(0, hand.knobs(batch_size=6)), 0).run()
    assert len(workload.notes()) == 1
    workload.begin()
    assert workload.notes() == []


def test_a_file_that_is_no_photo_at_all_is_left_out_and_named(hand, few_photos):
    (few_photos / "cat" / "a.jpg").write_bytes(b"not a photo")
    workload = VisionTraining(Photos.open(few_photos), hand.knobs(), "cpu")
    hand.losses(workload, 2, hand.knobs())
    (note,) = workload.notes()
    assert note.startswith("1 unreadable files were left out: ") and "a.jpg" in note


def test_without_a_broken_photo_there_is_nothing_to_note(hand, make):
    workload = make()
    hand.losses(workload, 1, hand.knobs())
    assert workload.notes() == []


def test_when_every_photo_is_broken_that_is_an_error_which_counts_and_names_them(hand, few_photos):
    for path in few_photos.rglob("*.jpg"):
        path.write_bytes(path.read_bytes()[:2000])
    workload = VisionTraining(Photos.open(few_photos), hand.knobs(), "cpu")
    with pytest.raises(DataError, match=r"none of the 6 photos in .*few can be decoded") as failure:
        workload.load(Step(0, hand.knobs()), 0).run()
    assert ".jpg" in str(failure.value)


def test_a_run_over_broken_photos_alone_ends_and_reports_it(hand, few_photos):
    for path in few_photos.rglob("*.jpg"):
        path.write_bytes(path.read_bytes()[:2000])
    workload = VisionTraining(Photos.open(few_photos), hand.knobs(), "cpu")
    device = CpuDevice()
    pipeline(device, workload, [Step(index, hand.knobs(log_every=0)) for index in range(3)])
    failures = device.close()
    assert {failure.name for failure in failures} == {"decode+augment+normalise"}
    assert all(isinstance(failure.error, DataError) for failure in failures)
