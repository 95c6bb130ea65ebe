"""Whether anybody can click: under papermill and nbconvert a cell must run to its end instead of waiting for somebody."""

import os
from typing import Any

ENVIRONMENT = "LABKIT_HEADLESS"


class CellFailed(BaseException):
    """Ends the cell with what went wrong, as no Exception can: IPython shows one that is raised while something is displayed, and
    goes on, so nbconvert would take the notebook for a good one."""


def headless() -> bool:
    """Whether this runs without anybody who could click.

    A notebook front end with people before it tells the kernel that it may ask for input (`allow_stdin` in its request to execute a
    cell); nbclient, and so papermill and nbconvert, says that it may not. `$LABKIT_HEADLESS` (1 or 0) overrides what is found.
    """
    told = os.environ.get(ENVIRONMENT, "").strip()
    if told:
        return told.lower() not in ("0", "false", "no", "off")
    return not _may_ask()


def _may_ask() -> bool:
    return bool(_request().get("content", {}).get("allow_stdin", False))


def executing() -> tuple[str, str]:
    """The id of the cell that is being executed, where the front end tells it, and of the request to execute it; "" elsewhere."""
    request = _request()
    return str(request.get("metadata", {}).get("cellId", "")), str(request.get("header", {}).get("msg_id", ""))


def _request() -> dict[str, Any]:
    """The front end's request to execute what is being executed; empty outside a kernel."""
    try:
        from IPython import get_ipython
    except ImportError:
        return {}
    shell: Any = get_ipython()
    kernel = getattr(shell, "kernel", None)
    return {} if kernel is None else kernel.get_parent("shell")
