"""Whether somebody asked this process to end. The exception that a signal raises may be swallowed, by an import or a callback that runs just then;
what goes on from one run to the next looks here as well."""

_ASKED: list[int] = []


def ask() -> None:
    """Note it. Safe in a signal handler."""
    _ASKED.append(1)


def give_up_if_asked() -> None:
    """Raises KeyboardInterrupt where somebody has asked."""
    if _ASKED:
        raise KeyboardInterrupt
