"""`labkit data make photos --count 2000`: a larger set, by seeded crops of the shipped photos."""

from pathlib import Path

from labkit.cli.flags import add_json, parser
from labkit.cli.main import OK
from labkit.cli.words import print_json, progress_bar
from labkit.data.locate import datasets_root
from labkit.data.make import default_made_photos, make_photos
from labkit.units import format_bytes


def main(arguments: list[str]) -> int:
    """Exit code 0 once the set is whole; nothing is left of one that was not finished."""
    flags = parser("data", "Make a larger set of photos by seeded crops, mirroring and re-encoding of the shipped ones.")
    flags.add_argument("action", choices=["make"])
    flags.add_argument("what", choices=["photos"])
    flags.add_argument("--count", type=int, default=2000, help="how many (default: 2000)")
    flags.add_argument("--seed", type=int, default=0, help="the same seed gives the same files (default: 0)")
    flags.add_argument("--to", metavar="DIR", help="a folder that is not there yet (default: in the user's cache)")
    add_json(flags)
    given = flags.parse_args(arguments)
    target = Path(given.to) if given.to else default_made_photos(given.count, given.seed)
    with progress_bar("photos") as move:
        written = make_photos(
            datasets_root() / "photos", target, given.count, given.seed, lambda done, total: move(done / total)
        )
    if given.json:
        print_json({"path": str(target), "count": given.count, "bytes": written})
    else:
        print(f"wrote {given.count} photos, {format_bytes(written)}, to {target}; use them with --data {target}")
    return OK
