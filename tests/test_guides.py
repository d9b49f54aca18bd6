"""The code in the texts for readers: each command and each example runs, or says why not."""

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from checkpoints import TEXTS as SENTENCES
from checkpoints import assert_same_answers, save_publishable
from guides import ROOT, TEXTS, code_blocks, commands, read
from isolated import run_isolated
from loopback_hub import OWNER
from notebook import NOTEBOOK, new_cells
from rows import write_csv, write_jsonl
from runs import pair_rows, review_rows
from script_files import load_command, load_script
from tiny import BERT, save_both, tiny_model
from transformers import BertConfig, BertModel, pipeline

from sase_hf import SelfAttentiveForRetrieval, build_tokenizer
from sase_hf.data.columns import SPLITS
from sase_hf.training import command_line

# What a text writes for a name of the reader's own, and what stands there in a test.
PLACEHOLDERS = {
    "OWNER/NAME": f"{OWNER}/name",
    "RECIPE": f"{ROOT}/sase_hf/commands/synthetic/reviews.yaml",
}
# A command that a test does not run, and why.
THIS_SUITE = "it would run this test again"
LAB = "tests/lab runs its parts; the whole takes many minutes"
MACHINES = "it needs several machines; tests/training/test_distributed.py runs two processes"
IN_TRAIN = "scripts/guide/train.md has it, too"
ONNX = "tests/serving/test_onnx_export.py runs both, and has a slow export already"
NOT_RUN = {
    ".venv/bin/python scripts/train.py --train_file reviews.csv": IN_TRAIN,
    ".venv/bin/python scripts/train.py --model_name_or_path runs/reviews --test_file new.csv": (
        IN_TRAIN
    ),
    "python scripts/export.py runs/quickstart/model runs/exported": ONNX,
    'python runs/exported/predictor.py "The room was small, but not bad."': ONNX,
    "make quickstart": "it installs packages; tests/scripts/test_quickstart.py runs its script",
    "make test": THIS_SUITE,
    "make fast": THIS_SUITE,
    "make kernels": THIS_SUITE,
    "make lab-tests": THIS_SUITE,
    "make newest": "it installs packages, and runs this suite with them",
    "make lint": "it installs packages; it is a check of its own",
    ".ci/run": THIS_SUITE,
    "hf auth login": "it asks for the token of an account",
    "torchrun --standalone --nproc_per_node 2 scripts/train.py RECIPE": (
        "tests/training/test_distributed.py runs two processes"
    ),
    "accelerate launch --multi_gpu --num_processes 2 scripts/train.py RECIPE": (
        "it needs two GPUs; tests/training/test_distributed.py runs two processes"
    ),
    "accelerate launch --multi_gpu --num_machines 2 --num_processes 2 --main_process_ip ADDRESS "
    "--main_process_port 29500 --machine_rank 0 scripts/train.py RECIPE": MACHINES,
    "accelerate launch --multi_gpu --num_machines 2 --num_processes 2 --main_process_ip ADDRESS "
    "--main_process_port 29500 --machine_rank 1 scripts/train.py RECIPE": MACHINES,
    "python scripts/lab/benchmark.py --quick": LAB,
    "python scripts/lab/benchmark.py --only lengths --record lengths.json": LAB,
    "python scripts/lab/soak.py --minutes 10": LAB,
    "python scripts/lab/study.py run --seeds 42 43 44": LAB,
    'python scripts/lab/study.py run "scripts/lab/recipes/yelp5.yaml#cnn_max"': LAB,
    "python scripts/lab/study.py status": LAB,
    "python scripts/lab/study.py leaderboard data": LAB,
    "python scripts/lab/study.py render": LAB,
}
# Few rows and steps, where the files of a guide are large or a command trains for long.
SHORTER = {
    "train": ["--max_train_samples=60", "--max_eval_samples=20", "--num_train_epochs=2"],
}
# A line of an example that is only compiled, and why.
EXAMPLES_NOT_RUN = {
    "trainer = Trainer(": "tests/training/test_trainer.py trains with its loss",
    "import ray": "Ray is not among the packages of the tests",
}


def script_of(path: str) -> Any:
    name = path.removeprefix("scripts/").removesuffix(".py")
    return load_script(name) if name.startswith("lab/") else load_command(name)


def here(word: str) -> str:
    """Return a word of a command as a test in a folder of its own writes it."""
    word = re.sub("^(scripts|sase_hf/commands)/", rf"{ROOT}/\1/", word)
    return PLACEHOLDERS.get(word, word)


VECTORS = "room 0.1 0.2 0.3\nmeal 0.3 0.1 0.2\n"


def save_ranker(folder: Path) -> None:
    tokenizer = build_tokenizer(SENTENCES)
    model = tiny_model(SelfAttentiveForRetrieval, vocab_size=len(tokenizer))
    save_both(folder, model, tokenizer)


def write_reviews(folder: Path) -> None:
    """Write what the guides about single texts read."""
    rows = review_rows(40)
    corpus = folder / "runs/quickstart/corpus"
    corpus.mkdir()
    known = [{**row, "label": ("bad", "good")[i % 2]} for i, row in enumerate(rows)]
    for split in SPLITS:
        write_jsonl(corpus / f"reviews.{split}.jsonl", known)
    write_csv(folder / "reviews.csv", [{"text": r["text"], "stars": r["label"]} for r in rows])
    write_csv(folder / "new.csv", [{"text": row["text"]} for row in rows])
    (folder / "new.txt").write_text("\n".join(row["text"] for row in rows), encoding="utf-8")
    marks = {"rationale": "[[0, 3]]", "rationale_against": ""}
    write_csv(folder / "marked.csv", [{**row, **marks} for row in rows])
    write_jsonl(folder / "reviews.jsonl", rows)
    write_jsonl(folder / "corrections.jsonl", [{**rows[0], "rationale_against": [[0, 3]]}])
    marked = {"text": "The meal was good.", "rationale": [[13, 17]]}
    write_jsonl(folder / "marked.jsonl", [marked])
    (folder / "vectors.txt").write_text(VECTORS, encoding="utf-8")
    bert = folder / "google-bert/bert-base-uncased"
    tokenizer = build_tokenizer([row["text"] for row in rows])
    save_both(bert, BertModel(BertConfig(**{**BERT, "vocab_size": len(tokenizer)})), tokenizer)


def write_pairs(folder: Path) -> None:
    """Write what the guide about pairs reads."""
    rows = pair_rows(40)
    write_csv(folder / "pairs.csv", rows)
    texts = [{name: row[name] for name in ("premise", "hypothesis")} for row in rows]
    write_csv(folder / "new_pairs.csv", texts)


def write_translations(folder: Path) -> None:
    """Write what the guide about translation reads."""
    rows = [{"en": row["premise"], "fr": row["hypothesis"]} for row in pair_rows(40)]
    write_csv(folder / "pairs.csv", rows)
    write_csv(folder / "new.csv", rows[:4])


def write_documents(folder: Path) -> None:
    """Write what the guide about ranking reads."""
    data = folder / "data"
    (data / "vectors").mkdir(parents=True)
    sentences = [f"We say that the {row['text']}." for row in review_rows(800)]
    texts = [{"text": " ".join(sentences[k : k + 8])} for k in range(0, len(sentences), 8)]
    # Subjects are told by words that some of the texts share.
    subjects = [f"This is about subject{k % 9}." for k in range(len(texts))]
    texts = [{"text": f"{subjects[k]} {row['text']}"} for k, row in enumerate(texts)]
    for split in ("train", "dev"):
        write_jsonl(data / f"yelp5.{split}.jsonl.gz", texts)
    for name in ("words.100d", "potion.128d"):
        with gzip.open(data / f"vectors/{name}.txt.gz", "wt", encoding="utf-8") as file:
            file.write(VECTORS)
    write_jsonl(folder / "reviews.jsonl.gz", texts)
    write_csv(folder / "queries.csv", [{"text": sentence} for sentence in sentences[:3]])


FILES = {
    "scripts/guide/pairs.md": write_pairs,
    "scripts/guide/rank.md": write_documents,
    "scripts/guide/translate.md": write_translations,
}


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go into a folder with the models that a reader has by now."""
    monkeypatch.chdir(tmp_path)
    save_publishable(tmp_path / "runs/quickstart/model")
    for copy in ("runs/mine", PLACEHOLDERS["OWNER/NAME"]):
        shutil.copytree("runs/quickstart/model", copy)
    return tmp_path


def run(line: str, folder: Path) -> None:
    """Run a line as a shell does, but scripts in this process, and only briefly."""
    before, _, line = line.rpartition(" | ")
    line, _, output = line.partition(" > ")
    python, path, *words = shlex.split(line)
    assert python == "python", f"put {line!r} into NOT_RUN"
    words = list(map(here, words))
    if "--model_name_or_path" not in words:
        words += SHORTER.get(Path(path).stem, [])
    typed = subprocess.run(before or "true", shell=True, check=True, capture_output=True).stdout
    (folder / "typed").write_bytes(typed)
    keyboard = os.dup(0)
    with ExitStack() as stack:
        os.dup2(stack.enter_context(open(folder / "typed", "rb")).fileno(), 0)
        stack.callback(os.dup2, keyboard, 0)
        if output:
            stack.enter_context(redirect_stdout(stack.enter_context(open(output, "w"))))
        script_of(path).main(words)
    os.close(keyboard)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")  # the stock Trainer on a CPU
@pytest.mark.parametrize("name", [n for n in TEXTS if set(commands(n)) - NOT_RUN.keys()])
def test_commands_of_the_texts_run(name: str, reader: Path, request: Any) -> None:
    FILES.get(name, write_reviews)(reader)
    if "push.py" in read(name):
        request.getfixturevalue("hub")
    for line in commands(name):
        if line not in NOT_RUN:
            run(line, reader)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set")  # the stock Trainer on a CPU
@pytest.mark.parametrize("name", [name for name in TEXTS if code_blocks(name, "python")])
def test_examples_of_the_texts_run(
    name: str, reader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_line, "MOST_EPOCHS", 2)
    write_reviews(reader)
    save_ranker(reader / "runs/retrieval/yelp5")
    for block in code_blocks(name, "python"):
        code = compile(block, name, "exec")
        if not EXAMPLES_NOT_RUN.keys() & set(block.splitlines()):
            exec(code, {})


SERVE = """
import json, sys
sys.modules["sase_hf"] = None  # an import of it now fails
sys.path.insert(0, sys.argv[1])
from handler import EndpointHandler
request = {"inputs": sys.argv[2], "parameters": {"top_k": None}}
print(json.dumps(EndpointHandler(sys.argv[1])(request)))
"""


@pytest.mark.slow
def test_handler_of_the_guide_serves_without_the_package(folder: Path, tmp_path: Path) -> None:
    """The server calls the handler.py of the repository, and installs no sase_hf."""
    blocks = code_blocks("scripts/guide/publish.md", "python")
    [handler] = [block for block in blocks if "class EndpointHandler" in block]
    (folder / "handler.py").write_text(handler, encoding="utf-8")
    printed = run_isolated(["-c", SERVE, folder, SENTENCES[0]], tmp_path)
    classify = pipeline("text-classification", str(folder))
    assert_same_answers(json.loads(printed), classify(SENTENCES[0], top_k=None))


def test_notebook_is_made_of_blocks_of_the_texts_and_stores_pictures() -> None:
    """The blocks are run as examples of the texts."""
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    hint = "run tests/helpers/notebook.py"
    assert [cell["source"] for cell in stored] == [cell["source"] for cell in new_cells()], hint
    for cell in stored[3:]:
        assert "image/svg+xml" in cell["outputs"][-1]["data"]
