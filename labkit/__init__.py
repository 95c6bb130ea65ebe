"""labkit: a CPU-GPU performance lab.

One experiment kernel, three devices (cuda, cpu, simulated), one trace, one set of metrics and figures.
The public names are loaded when first used, so that `import labkit` costs next to nothing and brings in
neither torch nor plotly nor ipywidgets.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "run": "labkit.lab",
    "compare": "labkit.lab",
    "predict": "labkit.lab",
    "sweep": "labkit.lab",
    "peak": "labkit.peaks",
    "import_trace": "labkit.lab",
    "calibrate": "labkit.lab",
    "Panel": "labkit.panel.panel",
    "WhatIf": "labkit.panel.whatif",
    "runs": "labkit.store",
    "load_run": "labkit.store",
    "experiment": "labkit.experiments",
    "workload": "labkit.experiments.user",
    "open_device": "labkit.device",
    "LabkitError": "labkit.errors",
}
__all__ = [*_PUBLIC, "__version__"]

if TYPE_CHECKING:
    from labkit.device import open_device
    from labkit.errors import LabkitError
    from labkit.experiments import experiment
    from labkit.experiments.user import workload
    from labkit.lab import calibrate, compare, import_trace, predict, run, sweep
    from labkit.panel.panel import Panel
    from labkit.panel.whatif import WhatIf
    from labkit.peaks import peak
    from labkit.store import load_run, runs


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}; it has: {', '.join(_PUBLIC)}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
