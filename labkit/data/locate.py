"""Where the shipped data sets are. The first stage of every run on real data.

A folder of data sets is known by its `catalog.toml`, so a package or folder that happens to be called
`datasets` is never taken for ours.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from labkit.errors import DataError

VARIABLE = "LABKIT_DATASETS"
CATALOG = "catalog.toml"


def datasets_root() -> Path:
    """The folder of the shipped data sets: `$LABKIT_DATASETS`, else the checkout's, else one found upwards.

    A `$LABKIT_DATASETS` that is set but wrong is an error: nothing else is taken in its place.
    Raises DataError that names every place looked at.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return _chosen_root(Path(chosen).expanduser())
    looked_at = []
    for place in dict.fromkeys((_checkout_root(), *_upwards())):
        if _is_root(place):
            return place
        looked_at.append(place)
    places = "\n".join(f"  - {place}" for place in looked_at)
    raise DataError(
        f"the labkit data sets were not found. A folder with a {CATALOG} was looked for at:\n{places}\n"
        f"${VARIABLE} is not set. Work inside a checkout of labkit, or set {VARIABLE} to its datasets folder."
    )


def _chosen_root(place: Path) -> Path:
    if not _is_root(place):
        raise DataError(
            f"{VARIABLE} is set to {place}, which holds no {CATALOG}. "
            f"Set it to the datasets folder of a labkit checkout, or unset it to have the folder found."
        )
    return place.resolve()


def _checkout_root() -> Path:
    return Path(__file__).resolve().parents[2] / "datasets"


def _upwards() -> Iterator[Path]:
    """`datasets` in the working folder and in every folder above it."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the working folder was deleted under us
        return
    for folder in (here, *here.parents):
        yield folder / "datasets"


def _is_root(place: Path) -> bool:
    try:
        return (place / CATALOG).is_file()
    except OSError:  # a folder on the way that may not be entered
        return False
