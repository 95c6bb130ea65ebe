"""Files in the working folder that are imported instead of the module that was meant: random.py, torch.py, queue.py …

The worker is started with `python -m`, and a notebook with its folder on the path: what lies there comes first.
"""

import sys
from importlib.machinery import EXTENSION_SUFFIXES, BuiltinImporter, FrozenImporter
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

SOURCES = (".py", *EXTENSION_SUFFIXES)
HARMLESS = frozenset({"test", "this", "antigravity", "__main__", "example"})
"""Names that are installed and that no library imports."""
OURS = frozenset({"labkit"})


def shadowing_files(folder: Path) -> list[Path]:
    """What in `folder` hides a module of the standard library or of a dependency, sorted by name. Raises OSError."""
    names = importable_names()
    return sorted(entry for entry in folder.iterdir() if (name := _module_name(entry)) in names and not _wins(name))


def importable_names() -> frozenset[str]:
    """Names that labkit's own imports rely on: the standard library, and its dependencies where they are installed."""
    wanted = {"torch", "numpy", "pandas", "yaml", "PIL", "psutil", "pynvml"}
    try:
        declared = {_plain(line) for line in requires("labkit") or [] if "extra ==" not in line}
        wanted |= {
            name for name, packages in packages_distributions().items() if declared & {_plain(each) for each in packages}
        }
    except PackageNotFoundError:
        pass  # run from a checkout that is not installed: the names above remain
    return frozenset(sys.stdlib_module_names | wanted) - HARMLESS - OURS


def _module_name(entry: Path) -> str:
    """The module that a file or package would be imported as; "" for what is neither."""
    if entry.is_dir():
        return entry.name if (entry / "__init__.py").is_file() else ""
    suffix = next((suffix for suffix in SOURCES if entry.name.endswith(suffix)), None)
    return entry.name.removesuffix(suffix) if suffix else ""


def _wins(name: str) -> bool:
    """Whether Python takes this module from its own inside, whatever lies in the folder."""
    return BuiltinImporter.find_spec(name) is not None or FrozenImporter.find_spec(name) is not None


def _plain(requirement: str) -> str:
    """`nvidia-ml-py>=12.560` → `nvidia-ml-py`, compared without regard to case and separators."""
    end = next((place for place, letter in enumerate(requirement) if not (letter.isalnum() or letter in "-_.")), None)
    return requirement[:end].lower().replace("_", "-").replace(".", "-")
