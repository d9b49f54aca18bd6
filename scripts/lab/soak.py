"""Try to break runs and loading for an hour, and count the survivors.

    python scripts/lab/soak.py --parts kills configs --minutes 10 --record soak.json

kills      train.py (three sets of flags) and embed.py die by kill -9 and start again until they
           end; survived if the files are those of an unbroken run
configs    a file of a checkpoint has a hostile value, a torn end or another byte; survived if it
           loads or is refused, in 10 seconds and 4 GiB, without a connection, process or its code

A part ends when it has tried enough or its share of the minutes is over; the next part gets the
rest. Each draws its cases by the same seed. The status is 1 if anything did not survive.
"""

import itertools
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from records import write_rows
from transformers import pipeline
from variants import read_variant

from sase_hf.commands import embed, train
from sase_hf.commands.quickstart import CORPUS
from sase_hf.data.table import table
from sase_hf.evaluation.records import describe_environment, write_record
from sase_hf.utils.cli import errors_in_one_line, flag_words, make_parser
from sase_hf.utils.files import check_output

KILLED = ("with evaluations", "in parts", "by epochs")  # variants of soak.yaml
RESULTS = ("model.safetensors", "*.parquet")  # that a kill must not change
HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    2**27,
    1e308,
    float("nan"),
    "",
    "x" * 10**6,
    [],
    {},
    [[None]],
    "/etc/passwd",
    "../../etc/passwd",
    "http://127.0.0.1:9/x",
    "evil/repo--mod.Class",
    {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"},
    {"0": {"0": {"0": []}}},
)
COPIED_CODE = "transformers_modules"  # transformers copies the code of a checkpoint there
FORBIDDEN = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
Outcome = tuple[int, str | None]  # the number of cases, and the problem if not all survived


def in_child(work: Callable[[], object], log: Path, kill_after: float | None = None) -> int:
    """Run `work` in a process of its own, killed after some seconds; return its status."""

    def run() -> None:
        os.setpgid(0, 0)  # before it starts others, which are killed with it
        sys.stdout = sys.stderr = log.open("a", buffering=1)
        os.dup2(sys.stderr.fileno(), 1)
        os.dup2(sys.stderr.fileno(), 2)
        work()

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    child.join(kill_after)
    child.kill()  # if it has not ended
    assert child.pid
    with suppress(ProcessLookupError):  # the processes that it started
        os.killpg(child.pid, signal.SIGKILL)
    child.join()
    return child.exitcode or 0


def last_line(log: Path) -> str:
    """Return the last line of a log."""
    lines = log.read_text(errors="replace").strip().splitlines()
    if not lines:
        return "nothing"
    return lines[-1][:300]


def train_variant(variant: str, folder: Path, output: Path) -> None:
    """Train by a variant of soak.yaml on the rows in a folder."""
    settings = read_variant(f"{Path(__file__).with_name('soak.yaml')}#{variant}")
    rows = folder / "rows"
    train.main(
        [
            *flag_words(settings),
            f"--train_file={rows}/reviews.train.jsonl",
            f"--validation_file={rows}/reviews.validation.jsonl",
            f"--output_dir={output}",
        ]
    )


def kills(folder: Path, rng: random.Random) -> Iterator[Outcome]:
    """Kill runs and continue them, one set of flags after the other."""

    def embedding(output: Path) -> None:
        rows = f"{folder}/rows/reviews.train.jsonl"
        embed.main([f"{folder}/model", rows, f"--output={output}/rows.parquet"])

    cases: dict[str, Callable[[Path], None]] = {}
    for variant in KILLED:
        cases[f"train.py {variant}"] = partial(train_variant, variant, folder)
    cases["embed.py"] = embedding
    unbroken = {}
    seconds = {}
    for name, train_or_embed in cases.items():
        start = time.monotonic()
        output = folder / name
        log = folder / f"{name}.log"
        if in_child(partial(train_or_embed, output), log):
            raise RuntimeError(f"{name} does not run: {last_line(log)}")
        unbroken[name] = results_in(output)
        seconds[name] = time.monotonic() - start
    for name in itertools.cycle(cases):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            output = Path(scratch, "killed")
            log = Path(scratch, "killed.log")
            run = partial(cases[name], output)
            killed, status = kill_until_it_ends(run, log, seconds[name], rng)
            problem = None
            if status:
                problem = last_line(log)
            elif results_in(output) != unbroken[name]:
                problem = "other files than those of an unbroken run"
            if problem:
                yield max(killed, 1), f"{name}, killed {killed} times: {problem}"
            elif killed:
                yield killed, None


def results_in(folder: Path) -> dict[str, bytes]:
    """Return the files that a kill must not change, by their names."""
    content = {}
    for pattern in RESULTS:
        for path in folder.glob(pattern):
            content[path.name] = path.read_bytes()
    return content


def kill_until_it_ends(
    run: Callable[[], object], log: Path, seconds: float, rng: random.Random
) -> tuple[int, int]:
    """Kill a run within its `seconds`, at most ten times; return the number and the status."""
    killed = 0
    while True:
        kill_after = None
        if killed < 10:
            kill_after = rng.uniform(0, seconds)
        status = in_child(run, log, kill_after)
        if status != -signal.SIGKILL:
            return killed, status
        killed += 1


def spoil(path: Path, rng: random.Random) -> str:
    """Change a JSON file in one place; return a description of the change."""
    content = path.read_bytes()
    draw = rng.random()
    if draw < 0.2:
        place = rng.randrange(len(content))
        if draw < 0.1:
            path.write_bytes(content[:place])
            return f"{path.name}, torn before byte {place}"
        path.write_bytes(content[:place] + rng.randbytes(1) + content[place + 1 :])
        return f"{path.name}, another byte {place}"
    settings = json.loads(content)
    container = settings
    names = []
    while True:
        if isinstance(container, dict):
            key = rng.choice([*container, "auto_map"])
            inner = container.get(key)
        else:
            key = rng.randrange(len(container))
            inner = container[key]
        names.append(str(key))
        if not inner or not isinstance(inner, dict | list) or rng.random() < 0.3:
            break
        container = inner
    container[key] = rng.choice(HOSTILE)
    path.write_text(json.dumps(settings))
    return f"{path.name}, {'.'.join(names)} = {container[key]!r:.60}"


def forbid(event: str, arguments: tuple[Any, ...]) -> None:
    """End this process where it connects, starts another or runs the code of a checkpoint."""
    is_code = event == "exec" and COPIED_CODE in getattr(arguments[0], "co_filename", "")
    if event in FORBIDDEN or is_code:
        print(f"forbidden: {event} {arguments!r:.200}", file=sys.stderr)
        os._exit(90)


def configs(folder: Path, rng: random.Random) -> Iterator[Outcome]:
    """Load checkpoints with a spoilt file."""

    def load() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
        sys.addaudithook(forbid)
        try:
            pipeline("text-classification", model=str(spoilt))("the room was not good")
        except Exception as error:  # refused; others, such as a panic of tokenizers, are not
            if isinstance(error, MemoryError) or "allocate memory" in str(error):
                raise
            print(f"{type(error).__name__}: {error!s:.200}", file=sys.stderr)

    spoilt = folder / "spoilt"
    log = folder / "spoilt.log"
    pipeline("text-classification", model=str(folder / "model"))  # imports once for all children
    while True:
        shutil.copytree(folder / "model", spoilt)
        names = ("config.json", "config.json", "tokenizer.json", "tokenizer_config.json")
        change = spoil(spoilt / rng.choice(names), rng)
        status = in_child(load, log, kill_after=10)
        problem = None
        if status:
            problem = f"{change}: status {status}, {last_line(log)}"
        yield 1, problem
        shutil.rmtree(spoilt)
        log.unlink()


# The parts in their order, with the number of cases that is enough.
PARTS = {"kills": (kills, 300), "configs": (configs, 10_000)}


def soak(parts: Sequence[str], minutes: float) -> dict[str, Any]:
    """Run parts, each for its share of the minutes; return the numbers of each."""
    results: dict[str, Any] = {}
    torch.set_num_threads(1)  # a process that is forked has none of the threads of this one
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for split, size in (("train", 400), ("validation", 100)):
            rows = itertools.islice(table(CORPUS / f"reviews.{split}.jsonl.gz"), size)
            write_rows(folder / f"rows/reviews.{split}.jsonl", rows)
        training = partial(train_variant, "model", folder, folder / "model")
        if in_child(training, folder / "model.log"):
            raise RuntimeError(f"train.py does not run: {last_line(folder / 'model.log')}")
        begin = time.monotonic()
        chosen = [name for name in PARTS if name in parts]
        for rank, name in enumerate(chosen, 1):
            start = time.monotonic()
            end = begin + 60 * minutes * rank / len(chosen)
            tried = 0
            survived = 0
            problems = []
            part, enough = PARTS[name]
            for number, problem in part(folder, random.Random(0)):
                tried += number
                if problem is None:
                    survived += number
                else:
                    problems.append(problem)
                    print(f"  {problem}", flush=True)
                if tried >= enough or time.monotonic() > end:
                    break
            results[name] = {
                "tried": tried,
                "survived": survived,
                "faults": problems[:20],
                "seconds": round(time.monotonic() - start),
            }
            print(f"{name:<12}tried {tried:>9,}   survived {survived:>9,}", flush=True)
    return results


def main(argv: Sequence[str] | None = None) -> None:
    """Run the parts and write the record."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="(default: all)")
    add("--minutes", type=int, default=60, help="of all parts (default: %(default)s)")
    add("--record", help="a JSON file for the results")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.record)  # now, and not after an hour
        results = soak(flags.parts, flags.minutes)
        if flags.record:
            record = {"name": "soak", "minutes": flags.minutes}
            write_record(record | {"parts": results} | describe_environment(), flags.record)
    if any(part["survived"] < part["tried"] for part in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
