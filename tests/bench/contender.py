"""A contender in a process of its own: it gets warm once, then works when it is its turn and is idle when it is not.

The protocol is lines of text. The child says "ready"; the parent sends "go N"; the child does N units of its work and
answers with one JSON number or object. End of file ends the child. What a library prints goes to stderr.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.measure import BenchError

ROOT = Path(__file__).resolve().parents[2]
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Contender:
    """The parent's side. Use as a context manager.

    python  the interpreter; module  the child's main module; arguments  what it gets on its command line
    """

    def __init__(self, python: Path | str, module: str, *arguments: str):
        self._module = module
        self._stderr = tempfile.TemporaryFile("w+", prefix="bench-")  # noqa: SIM115  (closed by close)
        self._process = subprocess.Popen(
            [str(python), "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            cwd=ROOT,
            env={**os.environ, **_ONE_THREAD},
        )
        self._expect("ready")

    def go(self, count: int) -> Any:
        """Have it do `count` units of work; its answer. Raises BenchError if it died."""
        try:
            self._process.stdin.write(f"go {count}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._died()
        return json.loads(self._line())

    def close(self) -> None:
        """Let it end, and make sure that it has."""
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stderr.close()

    def __enter__(self) -> "Contender":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _expect(self, word: str) -> None:
        if self._line() != word:
            self._died()

    def _line(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            self._died()
        return line.strip()

    def _died(self) -> None:
        self._process.kill()
        code = self._process.wait()
        self._stderr.seek(0)
        raise BenchError(f"{self._module} ended with {code}:\n{self._stderr.read()[-3000:]}")


def serve(work: Callable[[int], Any]) -> None:
    """The child's side: answer every "go N" with `work(N)` until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _say(answers, "ready")
    for line in sys.stdin:
        _say(answers, json.dumps(work(int(line.split()[1]))))


def _say(answers: Any, words: str) -> None:
    answers.write(words + "\n")
    answers.flush()
