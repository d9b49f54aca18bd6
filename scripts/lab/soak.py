"""Try to break runs, loading and serving for an hour, and count the survivors.

    python scripts/lab/soak.py --parts kills configs --minutes 10 --record soak.json

kills      train.py (three sets of flags, and two processes) and embed.py die by kill -9 and start
           again until they end; survived if the files are those of an unbroken run
configs    a file of a checkpoint has a hostile value, a torn end or another byte; survived if it
           loads or is refused, in 10 seconds and 4 GiB, without a connection, process or its code
requests   threads send random texts to the handler of Inference Endpoints; survived if each gets
           its own answer, with a finite score

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
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import pipeline

from sase_hf.commands import embed, train
from sase_hf.commands.synthetic import write_corpus
from sase_hf.evaluation.records import describe_environment, write_record
from sase_hf.serving.endpoint_handler import EndpointHandler
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import check_output

KILLED = ("with evaluations", "in parts", "by epochs")  # variants of soak.yaml
RESULTS = ("model.safetensors", "*.parquet", "manifest.json")  # that a kill must not change
WORDS = ["the", "room", "was", "not", "good", "[PAD]", "[UNK]", "\ud800", "", "\u202e", "'t"]
HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**12, 2**27, 1e308, float("nan"), "", "x" * 10**6, [], {}),
    *([[None]], "/etc/passwd", "../../etc/passwd", "http://127.0.0.1:9/x", "evil/repo--mod.Class"),
    *({"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}, {"0": {"0": {"0": []}}}),
)
COPIED_CODE = "transformers_modules"  # transformers copies the code of a checkpoint there
FORBIDDEN = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
Outcome = tuple[int, str | None]  # the number of cases, and the fault if not all survived


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
    return (log.read_text(errors="replace").strip().splitlines() or ["nothing"])[-1][:300]


def train_variant(variant: str, folder: Path, output: Path) -> None:
    """Train by a variant of soak.yaml on the rows in a folder."""
    recipe, rows = Path(__file__).with_name("soak.yaml"), folder / "rows"
    files = [f"--{name}_file={rows}/reviews.{name}.jsonl" for name in ("train", "validation")]
    train.main([f"{recipe}#{variant}", *files, f"--output_dir={output}"])


def in_two_processes(run: Callable[[Path], None], output: Path) -> None:
    """Train in this process and another, as torchrun's do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    other = os.fork()
    os.environ |= dict.fromkeys(("RANK", "LOCAL_RANK"), "1" if other == 0 else "0")
    run(output)
    if other and os.waitpid(other, 0)[1]:
        raise RuntimeError("the second process failed")


def kills(folder: Path, rng: random.Random) -> Iterator[Outcome]:
    """Kill runs and continue them, one set of flags after the other."""

    def embedding(output: Path) -> None:
        words = [f"{folder}/model", f"{folder}/rows/reviews.train.jsonl", "--rows_per_shard=40"]
        embed.main([*words, f"--output={output}"])

    def content(output: Path) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for one in RESULTS for p in output.glob(one)}

    cases: Any = {f"train.py {name}": partial(train_variant, name, folder) for name in KILLED}
    cases["train.py in two processes"] = partial(in_two_processes, cases["train.py in parts"])
    cases["embed.py"] = embedding
    whole, seconds = {}, {}
    for name, run in cases.items():
        start, output, log = time.monotonic(), folder / name, folder / f"{name}.log"
        if in_child(partial(run, output), log):
            raise RuntimeError(f"{name} does not run: {last_line(log)}")
        whole[name], seconds[name] = content(output), time.monotonic() - start
    for name in itertools.cycle(cases):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            output, log = Path(scratch, "killed"), Path(scratch, "killed.log")
            killed, status = 0, -signal.SIGKILL
            while status == -signal.SIGKILL:
                wait = rng.uniform(0, seconds[name]) if killed < 10 else None
                status = in_child(partial(cases[name], output), log, wait)
                killed += status == -signal.SIGKILL
            fault = last_line(log) if status else None
            if not status and content(output) != whole[name]:
                fault = "other files than those of an unbroken run"
            if killed or fault:
                yield max(killed, 1), fault and f"{name}, killed {killed} times: {fault}"


def random_text(rng: random.Random) -> str:
    """Return a text of words, any characters of Unicode, lone surrogates and special tokens."""
    kind = rng.random()
    length = rng.randrange(2_000) if kind < 0.002 else rng.randrange(40)
    if kind < 0.3:
        return " ".join(rng.choices(WORDS, k=length))
    return "".join(chr(rng.randint(0, 0x80 if kind < 0.4 else 0x10FFFF)) for _ in range(length))


def spoil(path: Path, rng: random.Random) -> str:
    """Change a JSON file in one place; return a description of the change."""
    content, kind = path.read_bytes(), rng.random()
    if kind < 0.2:
        place = rng.randrange(len(content))
        rest = b"" if kind < 0.1 else rng.randbytes(1) + content[place + 1 :]
        path.write_bytes(content[:place] + rest)
        return f"{path.name}, {'another' if rest else 'torn before'} byte {place}"
    settings = json.loads(content)
    part, names = settings, []
    while True:
        key = rng.choice([*part, "auto_map"] if isinstance(part, dict) else range(len(part)))
        names.append(str(key))
        inner = part.get(key) if isinstance(part, dict) else part[key]
        if not inner or not isinstance(inner, dict | list) or rng.random() < 0.3:
            break
        part = inner
    part[key] = rng.choice(HOSTILE)
    path.write_text(json.dumps(settings))
    return f"{path.name}, {'.'.join(names)} = {part[key]!r:.60}"


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

    spoilt, log = folder / "spoilt", folder / "spoilt.log"
    pipeline("text-classification", model=str(folder / "model"))  # imports once for all children
    while True:
        shutil.copytree(folder / "model", spoilt)
        names = ("config.json", "config.json", "tokenizer.json", "tokenizer_config.json")
        change = spoil(spoilt / rng.choice(names), rng)
        status = in_child(load, log, kill_after=10)
        yield 1, f"{change}: status {status}, {last_line(log)}" if status else None
        shutil.rmtree(spoilt)
        log.unlink()


def requests(folder: Path, rng: random.Random) -> Iterator[Outcome]:
    """Ask for 200 answers at once."""
    handler = EndpointHandler(str(folder / "model"))
    with ThreadPoolExecutor(50) as pool:
        while True:
            asked: list[dict[str, Any]] = [{"inputs": random_text(rng)} for _ in range(200)]
            try:
                right = list(pool.map(handler, asked)) == list(map(handler, asked))
                fault = None if right else "an answer is another's, or has no score"
            except Exception as error:
                fault = f"{type(error).__name__}: {error!s:.200}"
            yield len(asked), fault


# The parts in their order, with the number of cases that is enough. Parts that fork this process
# come before parts with threads, whose locks would stay locked in the child.
PARTS = {"kills": (kills, 300), "configs": (configs, 10_000), "requests": (requests, 100_000)}


def soak(parts: Sequence[str], minutes: float, seed: int) -> dict[str, Any]:
    """Run parts, each for its share of the minutes; return the numbers of each."""
    results: dict[str, Any] = {}
    torch.set_num_threads(1)  # a process that is forked has none of the threads of this one
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_corpus(folder / "rows", seed, {"train": 400, "validation": 100})
        training = partial(train_variant, "model", folder, folder / "model")
        if in_child(training, folder / "model.log"):
            raise RuntimeError(f"train.py does not run: {last_line(folder / 'model.log')}")
        begin = time.monotonic()
        chosen = [name for name in PARTS if name in parts]
        for rank, name in enumerate(chosen, 1):
            start, tried, survived, faults = time.monotonic(), 0, 0, []
            part, enough = PARTS[name]
            for number, fault in part(folder, random.Random(seed)):
                tried += number
                survived += 0 if fault else number
                if fault:
                    faults.append(fault)
                    print(f"  {fault}", flush=True)
                if tried >= enough or time.monotonic() - begin > 60 * minutes * rank / len(chosen):
                    break
            results[name] = {"tried": tried, "survived": survived, "faults": faults[:20]}
            results[name]["seconds"] = round(time.monotonic() - start)
            print(f"{name:<12}tried {tried:>9,}   survived {survived:>9,}", flush=True)
    return results


def main(argv: Sequence[str] | None = None) -> None:
    """Run the parts and write the record."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="(default: all)")
    add("--minutes", type=positive_int, default=60, help="of all parts (default: %(default)s)")
    add("--seed", type=int, default=0, help="(default: %(default)s)")
    add("--record", help="a JSON file for the results")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.record)  # now, and not after an hour
        results = soak(flags.parts, flags.minutes, flags.seed)
        if flags.record:
            record = {"name": "soak", "seed": flags.seed, "minutes": flags.minutes}
            write_record(record | {"parts": results} | describe_environment(), flags.record)
    if any(part["survived"] < part["tried"] for part in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
