"""Try to break runs, loading and serving for an hour, and count what survives.

    python scripts/lab/soak.py                                      # all parts, an hour together
    python scripts/lab/soak.py --parts kills fuzz --minutes 10
    python scripts/lab/soak.py --record model_cards/records/soak.json

    kills       kill -9 at any moment of train.py (three sets of flags, and two processes) and
                embed.py, and the same command again until it ends; survived if the files are those
                of an unbroken run
    configs     config.json, tokenizer.json and tokenizer_config.json with a hostile value, a torn
                end or another byte; survived if it loads or is refused, in 10 seconds and 4 GiB,
                without a connection, a process or code of the checkpoint
    fuzz        texts of any characters through the stock pipeline; survived if each has a finite
                score
    requests    threads that ask the handler of Inference Endpoints; survived if each gets its own
                answer
    loads       8 or 32 processes that load a checkpoint with its code at nearly the same time,
                with nothing in the cache; survived if each loads

A part ends when it has tried enough or its share of the minutes is over; what it leaves goes to the
next. Each draws its cases by the same seed. The status is 1 if anything did not survive.
"""

import itertools
import json
import math
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from transformers import pipeline

from sase_hf.evaluation.records import describe_environment, write_record
from sase_hf.serving.endpoint_handler import EndpointHandler
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int

sys.path.append(str(Path(__file__).resolve().parents[1]))  # of the scripts that are killed

import embed
import train
from synthetic import write_corpus

TINY = "--embedding_size=16 --lstm_hidden_size=8 --attention_size=8 --num_hops=4 --use_cpu "
TINY += "--classifier_hidden_size=16 --bf16=false --disable_tqdm=true --report_to=none"
SIZES = {"train": 400, "validation": 100}
EVALUATED = "--do_train --do_eval --eval_strategy=epoch --load_best_model_at_end=true "
GROUPED = "--do_train --train_sampling_strategy=group_by_length --max_batch_tokens=400 "
FLAGS = {
    "train.py with evaluations": f"{EVALUATED} --num_train_epochs=3 --early_stopping_patience=2",
    "train.py in parts": f"{GROUPED} --gradient_accumulation_steps=2 --max_steps=40 --save_steps=6",
    "train.py by epochs": "--do_train --num_train_epochs=3 --save_total_limit=1",
}
TEXTS_AT_ONCE = 512
HOSTILE: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**12, 2**27, 1e308, math.nan, "", "x" * 10**6, [], {}, [[None]]),
    *("/etc/passwd", "../../etc/passwd", "http://127.0.0.1:9/x", "evil/repo--module.Class"),
    *({"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}, {"0": {"0": {"0": []}}}),
)
COPIED_CODE = "transformers_modules"
FORBIDDEN = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
COLD_LOADS = """
import os, random, sys, time
import torch
from transformers import AutoModelForSequenceClassification
rng, children = random.Random(int(sys.argv[2])), []
for _ in range(int(sys.argv[3])):
    wait = rng.uniform(0, 0.1)
    children.append(os.fork())
    if children[-1] == 0:
        time.sleep(wait)
        try:
            AutoModelForSequenceClassification.from_pretrained(sys.argv[1], trust_remote_code=True)
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
print(sum(os.waitpid(child, 0)[1] == 0 for child in children))
"""

# What a part tried, and what went wrong, None where it survived.
Outcome = tuple[int, str | None]


def in_child(work: Callable[[], object], log: Path, kill_after: float = math.inf) -> int:
    """Do something in a process of its own, killed after so many seconds; return its status."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            os.setpgid(0, 0)  # before it starts others, which are killed with it
            sys.stdout = sys.stderr = log.open("a", buffering=1)
            os.dup2(sys.stderr.fileno(), 1)
            os.dup2(sys.stderr.fileno(), 2)
            work()
            status = 0
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
            print(stop.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    with suppress(PermissionError):
        os.setpgid(child, child)  # before it is killed
    end = time.monotonic() + kill_after
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.01)
    with suppress(ProcessLookupError):  # a second one that waits for the first
        os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(found[1])


def last_line(log: Path) -> str:
    """Return what a process said at its end."""
    return (log.read_text(errors="replace").strip().splitlines() or ["nothing"])[-1][:300]


def in_two_processes(work: Callable[[], object]) -> None:
    """Do something in this process and another, which train together as torchrun's do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sizes = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= sizes | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    other = os.fork()
    os.environ |= dict.fromkeys(("RANK", "LOCAL_RANK"), "1" if other == 0 else "0")
    work()
    if other and os.waitpid(other, 0)[1]:
        raise RuntimeError("the second process failed")


def kills(folder: Path, rng: random.Random) -> Iterator[Outcome]:
    """Kill runs and continue them, set of flags by set of flags."""
    rows, model = folder / "rows", str(folder / "model")

    def training(words: str, output: Path) -> Callable[[], object]:
        flags = f"--train_file={rows}/reviews.train.jsonl --logging_steps=5 "
        flags += f"--validation_file={rows}/reviews.validation.jsonl "
        flags += f"--resume_from_checkpoint=auto {TINY} {words}"
        return lambda: train.main([*flags.split(), f"--output_dir={output}"])

    def together(words: str, output: Path) -> Callable[[], object]:
        return lambda: in_two_processes(training(words, output))

    def embedding(_: str, output: Path) -> Callable[[], object]:
        flags = [model, f"{rows}/reviews.train.jsonl", "--output", str(output)]
        return lambda: embed.main([*flags, "--rows_per_shard", "40"])

    cases: list[tuple[str, Any, str, Sequence[str]]] = [
        *((name, training, words, ["model.safetensors"]) for name, words in FLAGS.items()),
        ("train.py in two processes", together, FLAGS["train.py in parts"], ["model.safetensors"]),
        ("embed.py", embedding, "", ["*.parquet", "manifest.json"]),
    ]

    def content(output: Path, patterns: Sequence[str]) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for pattern in patterns for p in output.glob(pattern)}

    whole, seconds = {}, {}
    for name, make, words, patterns in cases:
        start, output, log = time.monotonic(), folder / name, folder / f"{name}.log"
        if in_child(make(words, output), log):
            raise RuntimeError(f"{name} does not run: {last_line(log)}")
        whole[name], seconds[name] = content(output, patterns), time.monotonic() - start
    while True:
        for name, make, words, patterns in cases:
            output, log, killed, status = folder / "killed", folder / "killed.log", 0, -1
            while status == -signal.SIGKILL or status == -1:
                wait = rng.uniform(0, seconds[name]) if killed < 10 else math.inf
                status = in_child(make(words, output), log, wait)
                killed += status == -signal.SIGKILL
            fault = None
            if status:
                fault = f"{name}, killed {killed} times: {last_line(log)}"
            elif content(output, patterns) != whole[name]:
                fault = f"{name}, killed {killed} times: other files than those of an unbroken run"
            if killed or fault:
                yield max(killed, 1), fault
            shutil.rmtree(output)
            log.unlink()


def random_text(rng: random.Random) -> str:
    """Return a text of words, any characters of Unicode, lone surrogates and special tokens."""
    kind = rng.random()
    length = rng.randrange(2_000) if kind < 0.002 else rng.randrange(40)
    if kind < 0.3:
        words = (
            "the",
            "room",
            "was",
            "not",
            "good",
            "[PAD]",
            "[UNK]",
            "\ud800",
            "",
            "\u202e",
            "'t",
        )
        return " ".join(rng.choices(words, k=length))
    top = 0x80 if kind < 0.4 else 0x10FFFF
    return "".join(chr(rng.randint(0, top)) for _ in range(length))


def fuzz(folder: Path, rng: random.Random) -> Iterator[Outcome]:
    """Classify random texts."""
    classify = pipeline("text-classification", model=str(folder / "model"))
    while True:
        texts = [random_text(rng) for _ in range(TEXTS_AT_ONCE)]
        try:
            answers = classify(texts, batch_size=64, truncation=True)
        except Exception as error:
            yield len(texts), f"{type(error).__name__}: {error!s:.200}"
            continue
        bad = [t for t, answer in zip(texts, answers, strict=True) if not 0 <= answer["score"] <= 1]
        yield len(texts), f"no score for {bad[0]!r:.200}" if bad else None


def spoil(path: Path, rng: random.Random) -> str:
    """Change a JSON file in one place; return how."""
    content, kind = path.read_bytes(), rng.random()
    if kind < 0.1:
        path.write_bytes(content[: rng.randrange(len(content))])
        return f"{path.name} cut"
    if kind < 0.2:
        place = rng.randrange(len(content))
        path.write_bytes(content[:place] + rng.randbytes(1) + content[place + 1 :])
        return f"{path.name}, byte {place} changed"
    settings = json.loads(content)
    part, names = settings, []
    while True:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        key = rng.choice([*keys, "auto_map"]) if isinstance(part, dict) else rng.choice(keys)
        names.append(str(key))
        inner = part[key] if key in keys else None
        if not inner or not isinstance(inner, dict | list) or rng.random() < 0.3:
            break
        part = inner
    part[key] = rng.choice(HOSTILE)
    path.write_text(json.dumps(settings))
    return f"{path.name}, {'.'.join(names)} = {part[key]!r:.60}"


def forbid(event: str, arguments: tuple[Any, ...]) -> None:
    """End this process where it connects, starts another or runs the code of a checkpoint."""
    # What runs of it is a copy, in transformers' folder of modules.
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
    pipeline("text-classification", model=str(folder / "model"))  # what is made once is made here
    while True:
        shutil.copytree(folder / "model", spoilt)
        names = ("config.json", "config.json", "tokenizer.json", "tokenizer_config.json")
        what = spoil(spoilt / rng.choice(names), rng)
        status = in_child(load, log, kill_after=10)
        yield 1, f"{what}: status {status}, {last_line(log)}" if status else None
        shutil.rmtree(spoilt)
        log.unlink()


def loads(folder: Path, rng: random.Random) -> Iterator[Outcome]:
    """Load a checkpoint with its own code, without this package."""
    words = [sys.executable, "-I", "-c", COLD_LOADS, str(folder / "model")]
    for processes in itertools.cycle((8, 32)):
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(
                [*words, str(rng.randrange(2**31)), str(processes)],
                env={**os.environ, "HF_HOME": home, "HF_HUB_OFFLINE": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
        loaded = int(done.stdout.split()[-1]) if done.returncode == 0 else 0
        if loaded:
            yield loaded, None
        if loaded < processes:
            yield processes - loaded, (done.stderr.strip().splitlines() or ["nothing"])[-1][:300]


def requests(folder: Path, rng: random.Random) -> Iterator[Outcome]:
    """Ask for 200 answers at once."""
    handler = EndpointHandler(str(folder / "model"))
    with ThreadPoolExecutor(50) as pool:
        while True:
            inputs = [random_text(rng) for _ in range(200)]
            asked: list[dict[str, Any]] = [{"inputs": text} for text in inputs]
            expected = [handler(request) for request in asked]
            try:
                wrong = sum(map(dict.__ne__, *map(_flat, (pool.map(handler, asked), expected))))
            except Exception as error:
                yield len(asked), f"{type(error).__name__}: {error!s:.200}"
                continue
            yield len(asked), f"{wrong} requests got another's answer" if wrong else None


def _flat(answers: Any) -> list[dict[str, Any]]:
    return [label for answer in answers for label in answer]


# The parts in their order, and how often is enough. Those that fork this process come before those
# with threads, whose locks would stay locked in the child.
PARTS: dict[str, tuple[Callable[[Path, random.Random], Iterator[Outcome]], int]] = {
    "kills": (kills, 300),
    "configs": (configs, 10_000),
    "fuzz": (fuzz, 1_000_000),
    "requests": (requests, 100_000),
    "loads": (loads, 800),
}


def soak(parts: Sequence[str], minutes: float, seed: int) -> dict[str, Any]:
    """Run parts, each for its share of the minutes; return what each tried and what survived."""
    results: dict[str, Any] = {}
    torch.set_num_threads(1)  # a process that is forked has none of the threads of this one
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_corpus(folder / "rows", seed, SIZES)
        words = f"--do_train --max_steps=20 --train_file={folder}/rows/reviews.train.jsonl {TINY}"
        model = f"--output_dir={folder}/model"
        if in_child(lambda: train.main([*words.split(), model]), folder / "model.log"):
            raise RuntimeError(f"train.py does not run: {last_line(folder / 'model.log')}")
        begin = time.monotonic()
        chosen = [name for name in PARTS if name in parts]
        for rank, name in enumerate(chosen, 1):
            start, tried, faults, lost = time.monotonic(), 0, [], 0
            part, enough = PARTS[name]
            for number, fault in part(folder, random.Random(seed)):
                tried += number
                if fault is not None:
                    lost += number
                    faults.append(fault)
                    print(f"  {fault}", flush=True)
                if tried >= enough or time.monotonic() - begin > 60 * minutes * rank / len(chosen):
                    break
            results[name] = {
                "tried": tried,
                "survived": tried - lost,
                "seconds": round(time.monotonic() - start),
                "faults": faults[:20],
            }
            print(f"{name:<12}tried {tried:>9,}   survived {tried - lost:>9,}", flush=True)
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
        results = soak(flags.parts, flags.minutes, flags.seed)
        if flags.record:
            record = {"name": "soak", "seed": flags.seed, "minutes": flags.minutes}
            write_record(record | {"parts": results} | describe_environment(), flags.record)
    if any(part["survived"] < part["tried"] for part in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
