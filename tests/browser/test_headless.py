"""Code in a cell can tell a notebook that someone reads from one that papermill runs, with each ipykernel. Needs no browser.

Who executes a cell says with it whether the kernel may ask questions (`allow_stdin`). JupyterLab may be asked
(`test_notebook.py`), papermill, nbclient and nbconvert may not.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat

from tests.browser.equipment import Ipykernel

MAY_ASK = """
import ipykernel, json
print(json.dumps([ipykernel.__version__, get_ipython().kernel.get_parent()["content"]["allow_stdin"]]))
"""


def test_a_cell_under_papermill_may_not_ask_questions(ipykernel: Ipykernel, tmp_path: Path) -> None:
    notebook, executed = tmp_path / "asked.ipynb", tmp_path / "executed.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(MAY_ASK)]), notebook)
    command = [sys.executable, "-m", "papermill", "--kernel=python3", "--language=python", str(notebook), str(executed)]
    environment = {**os.environ, "PYTHONPATH": str(ipykernel.folder or ""), "IPYTHONDIR": str(tmp_path)}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
    printed = nbformat.read(executed, as_version=4).cells[0].outputs[0].text
    assert json.loads(printed) == [ipykernel.version(), False]
