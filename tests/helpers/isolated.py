"""Python processes that see neither this package nor the caches of the user.

To import torch and transformers takes seconds, so most are forks of a process that has done so:

    python -I isolated.py    # reads jobs, a line of JSON each, and prints their exit codes
"""

import atexit
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any


def run_isolated(words: Sequence[object], home: Path) -> str:
    """Run Python with these words in a folder, offline; return what it prints."""
    server = _server()
    with tempfile.TemporaryDirectory() as folder:
        printed, said = Path(folder, "printed.txt"), Path(folder, "said.txt")
        job = {"words": [*words], "home": home, "printed": printed, "said": said}
        server.stdin.write(f"{json.dumps(job, default=str)}\n")
        server.stdin.flush()
        assert server.stdout.readline() == "0\n", said.read_text()[-4000:]
        return printed.read_text()


def run_fresh(words: Sequence[str], home: Path, environment: Mapping[str, str]) -> str:
    """Run Python with nothing imported before, in an environment that is read at an import."""
    command = [sys.executable, "-I", *words]
    options: Any = {"cwd": home, "capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, env={**os.environ, **environment}, check=False, **options)
    assert done.returncode == 0, done.stderr[-4000:]
    return str(done.stdout)


@cache
def _server() -> Any:
    home = tempfile.TemporaryDirectory()
    environment = {**os.environ, "HF_HOME": home.name, "HF_HUB_OFFLINE": "1"}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen([sys.executable, "-I", __file__], env=environment, **pipes)

    def stop() -> None:
        server.communicate()
        home.cleanup()

    atexit.register(stop)
    return server


def _serve() -> None:
    """Fork for each job; a fork leaves the loop and runs it as Python does."""
    from transformers import AutoModel, AutoTokenizer, pipeline  # noqa: F401

    for line in sys.stdin:
        job = json.loads(line)
        process = os.fork()
        if process == 0:
            break
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
    else:
        return
    for stream, name in ((sys.stdout, "printed"), (sys.stderr, "said")):
        with open(job[name], "w") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.chdir(job["home"])
    sys.argv = job["words"]
    if sys.argv[0] == "-c":
        exec(sys.argv.pop(1), {"__name__": "__main__"})
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    _serve()
