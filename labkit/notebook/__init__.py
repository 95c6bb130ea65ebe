"""The notebook front end, headless: a notebook's parameters cell comes from the knob model, and papermill runs it.

Names are loaded when first used, so that importing this package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.notebook.execute import execute_notebook
    from labkit.notebook.parameters import (
        check_parameters,
        parameters_source,
        run_parameters,
        write_parameters,
    )

__all__ = ["check_parameters", "execute_notebook", "parameters_source", "run_parameters", "write_parameters"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'labkit.notebook' has no attribute {name!r}; it has: {', '.join(__all__)}")
    place = "execute" if name == "execute_notebook" else "parameters"
    return getattr(import_module(f"labkit.notebook.{place}"), name)
