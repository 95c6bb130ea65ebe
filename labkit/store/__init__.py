"""What a run leaves on disk: one folder a run, written whole or not at all, and read back by id, prefix or "last"."""

from labkit.store.lookup import find_run, new_run_id
from labkit.store.run_store import BrokenRun, StoredRun, list_runs, load_run, save_run
from labkit.store.table import runs

__all__ = ["BrokenRun", "StoredRun", "find_run", "list_runs", "load_run", "new_run_id", "runs", "save_run"]
