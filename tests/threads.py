"""The lab's threads that are alive, for tests that want none left."""

import threading

# It lives as long as its process: the parent-death signal of every worker hangs on the thread that spawned it.
STAYS = "labkit-spawner"


def labkit_threads() -> list[str]:
    """Names of the lab's live threads, but the spawner's."""
    names = (thread.name for thread in threading.enumerate())
    return [name for name in names if name.startswith("labkit-") and name != STAYS]
