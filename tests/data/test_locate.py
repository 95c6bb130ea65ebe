"""The data sets are found in three places, in order, and a failure names each of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from labkit.data import datasets_root, locate
from labkit.errors import DataError


def a_root(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "catalog.toml").touch()
    return folder


@pytest.fixture
def no_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As if labkit were installed elsewhere, with the working folder in an empty place."""
    monkeypatch.delenv("LABKIT_DATASETS", raising=False)
    monkeypatch.setattr(locate, "_checkout_root", lambda: tmp_path / "site-packages" / "datasets")
    working = tmp_path / "work" / "inner"
    working.mkdir(parents=True)
    monkeypatch.chdir(working)
    return working


def test_the_variable_wins_over_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("LABKIT_DATASETS", str(a_root(tmp_path / "mine")))
    assert datasets_root() == tmp_path / "mine"


def test_a_wrong_variable_is_an_error_and_nothing_is_taken_in_its_place(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("LABKIT_DATASETS", str(tmp_path))
    with pytest.raises(DataError, match=r"LABKIT_DATASETS is set to .* holds no catalog\.toml"):
        datasets_root()


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LABKIT_DATASETS", "")
    assert datasets_root() == Path(__file__).parents[2] / "datasets"


def test_the_checkout_of_the_package_wins_over_the_working_folder(monkeypatch, tmp_path: Path):
    monkeypatch.delenv("LABKIT_DATASETS", raising=False)
    a_root(tmp_path / "datasets")
    monkeypatch.chdir(tmp_path)
    assert datasets_root() == Path(__file__).parents[2] / "datasets"


def test_the_folders_above_the_working_folder_are_searched_last(no_checkout: Path):
    expected = a_root(no_checkout.parents[1] / "datasets")
    assert datasets_root() == expected


def test_a_package_that_is_called_datasets_is_not_taken_for_ours(no_checkout: Path):
    (no_checkout / "datasets").mkdir()
    (no_checkout / "datasets" / "__init__.py").touch()
    with pytest.raises(DataError):
        datasets_root()


def test_a_failure_names_every_place_and_says_what_to_do(no_checkout: Path):
    with pytest.raises(DataError) as failure:
        datasets_root()
    message = str(failure.value)
    assert str(no_checkout.parents[1] / "site-packages" / "datasets") in message
    for folder in (no_checkout, *no_checkout.parents):
        assert f"- {folder / 'datasets'}\n" in message
    assert "set LABKIT_DATASETS to its datasets folder" in message


def test_importing_the_package_loads_neither_pillow_nor_torch_nor_pandas():
    script = "import sys, labkit.data; print(sorted({'PIL', 'torch', 'pandas', 'plotly'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
