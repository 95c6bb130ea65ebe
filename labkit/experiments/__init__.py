"""The catalogue of experiments. A new one is one file here and one line below."""

from importlib import import_module

from labkit.errors import ExperimentError
from labkit.experiments.experiment import Experiment

_CATALOGUE = {
    "pipeline": "labkit.experiments.pipeline",
    "batching": "labkit.experiments.batching",
    "continuous": "labkit.experiments.continuous",
    "tenants": "labkit.experiments.tenants",
    "offload": "labkit.experiments.offload",
    "tiers": "labkit.experiments.tiers",
}

__all__ = ["Experiment", "experiment", "experiments"]


def experiments() -> list[str]:
    """The names of the experiments."""
    return list(_CATALOGUE)


def experiment(name: str | Experiment) -> Experiment:
    """The experiment of this name, or the one that is given. Raises ExperimentError with the names that there are."""
    if isinstance(name, Experiment):
        return name
    if not isinstance(name, str):
        raise ExperimentError(f"an experiment's name is needed, or what labkit.workload(…) gives, not a {type(name).__name__}")
    if name not in _CATALOGUE:
        raise ExperimentError(f"there is no experiment {name!r}; there are: {', '.join(_CATALOGUE)}")
    return import_module(_CATALOGUE[name]).EXPERIMENT
