"""Interrupted runs, several processes and Ray: the same embeddings as one run."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from checkpoints import change_weights, save_checkpoint, script_main
from corpora import ROWS_PER_SHARD, contents, embed, make_corpus, shard_files
from rows import write_jsonl

from sase_hf.embedding import EmbeddingJob, run

ROOT = Path(__file__).parents[2]
CORPUS = make_corpus()

Inputs = namedtuple("Inputs", ["checkpoint", "file", "expected"])

# Kills the process, as kill -9 does, when the third shard is written but has not got its name yet.
KILLED = """\
import os, runpy, signal, sys
replace, renamed = os.replace, []

def replace_or_die(source, target):
    renamed.append(target)
    if len(renamed) == 4:  # the manifest, two shards, and now the third
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = replace_or_die
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

ON_RAY = """\
import runpy, sys
import ray
ray.init(num_cpus=2, include_dashboard=False)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
assert ray.is_initialized(), "whoever started Ray stops it"
ray.shutdown()
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """A checkpoint, a file, and every file of an undisturbed run."""
    folder = tmp_path_factory.mktemp("runs")
    checkpoint = save_checkpoint(folder / "tiny")
    file = str(write_jsonl(folder / "corpus.jsonl.gz", CORPUS))
    embed(checkpoint, file, folder / "expected")
    return Inputs(checkpoint, file, contents(folder / "expected"))


@pytest.fixture
def begun(inputs: Inputs, tmp_path: Path) -> Path:
    """An output folder with everything in it."""
    folder = tmp_path / "begun"
    folder.mkdir()
    for name, content in inputs.expected.items():
        (folder / name).write_bytes(content)
    return folder


def start(
    launcher: Sequence[str], inputs: Inputs, output: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the script in processes of its own."""
    script = str(ROOT / "scripts" / "embed.py")
    words = [script, inputs.checkpoint, inputs.file, f"--output={output}"]
    return subprocess.run(
        [sys.executable, *launcher, *words, f"--rows_per_shard={ROWS_PER_SHARD}"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=output.parent,
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.mark.slow
def test_embed_corpus_continues_after_a_kill(inputs: Inputs, tmp_path: Path) -> None:
    """Every shard is whole or missing, none is made twice."""
    output = tmp_path / "out"
    killed = start(["-c", KILLED], inputs, output)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    finished = shard_files(output)
    assert len(finished) == 2
    assert list(output.glob(".*.tmp")), "the premise: the third was written, and has no name yet"
    times = [path.stat().st_mtime_ns for path in finished]

    embed(inputs.checkpoint, inputs.file, output)
    assert [path.stat().st_mtime_ns for path in finished] == times
    assert contents(output) == inputs.expected


def test_embed_corpus_makes_damaged_shards_again(
    inputs: Inputs, begun: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One cut short, one of another length, one missing; the others stay."""
    files = shard_files(begun)
    files[0].write_bytes(files[0].read_bytes()[:-40])
    shutil.copy(files[4], files[1])
    files[2].unlink()
    times = [path.stat().st_mtime_ns for path in files[3:]]
    embed(inputs.checkpoint, inputs.file, begun)
    assert contents(begun) == inputs.expected
    assert [path.stat().st_mtime_ns for path in files[3:]] == times
    assert f"{files[0].name} is damaged and made again: " in caplog.text
    assert f"{files[1].name} has 3 rows and is made again" in caplog.text


@pytest.mark.slow
def test_two_processes_make_what_one_makes(inputs: Inputs, tmp_path: Path) -> None:
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=0"]
    done = start(launcher, inputs, tmp_path / "out", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "out") == inputs.expected
    assert "process 1 of 2" in done.stderr


def test_process_makes_its_own_share(inputs: Inputs, begun: Path) -> None:
    """Any number of processes may continue where another number stopped."""
    for path in shard_files(begun):
        path.unlink()
    job = EmbeddingJob(
        inputs.checkpoint, begun, inputs=(inputs.file,), rows_per_shard=ROWS_PER_SHARD
    )
    run.embed_corpus(job, process=0, processes=3)
    assert [path.name[11:16] for path in shard_files(begun)] == ["00000", "00003"]
    run.embed_corpus(job, process=1, processes=2)
    run.embed_corpus(job)
    assert contents(begun) == inputs.expected


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="Ray is an extra")
def test_ray_makes_what_one_process_makes(inputs: Inputs, begun: Path) -> None:
    """Two actors share the missing shards; finished ones stay."""
    for path in shard_files(begun)[1:]:
        path.unlink()
    kept = shard_files(begun)[0].stat().st_mtime_ns
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "HOME": str(begun.parent)}
    done = start(["-c", ON_RAY], inputs, begun, **quiet)
    assert done.returncode == 0, done.stderr
    assert contents(begun) == inputs.expected
    assert shard_files(begun)[0].stat().st_mtime_ns == kept


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        ({"normalize": True}, r"settings\.normalize was False and is True"),
        ({"dtype": "float16"}, r"settings\.dtype was 'float32' and is 'float16'"),
        ({"keep_columns": ("id",)}, r"settings\.keep_columns was None and is \['id'\]"),
        ({"rows_per_shard": 9}, r"settings\.rows_per_shard was 7 and is 9"),
    ],
)
def test_embed_corpus_refuses_to_continue_with_other_settings(
    settings: dict[str, Any], difference: str, inputs: Inputs, begun: Path
) -> None:
    message = rf"begun with other settings: {difference}\. Give the same .* another --output"
    with pytest.raises(ValueError, match=message):
        embed(inputs.checkpoint, inputs.file, begun, **settings)
    assert contents(begun) == inputs.expected


def test_embed_corpus_refuses_to_continue_with_another_model_or_input(
    inputs: Inputs, begun: Path, tmp_path: Path
) -> None:
    """They are known by their content: a copy with another name is the same."""
    copy = Path(shutil.copytree(inputs.checkpoint, tmp_path / "copy"))
    embed(str(copy), inputs.file, begun, batch_tokens=50)
    change_weights(copy, lambda weights: weights["encoder.embeddings.weight"].mul_(2))
    with pytest.raises(ValueError, match=r"settings: model\.weights_sha256 was '.*' and is '"):
        embed(str(copy), inputs.file, begun)
    other = str(write_jsonl(tmp_path / "corpus.jsonl.gz", [*CORPUS[1:], CORPUS[0]]))
    with pytest.raises(ValueError, match=r"other settings: input\.files was \[.*\] and is \[.*\]"):
        embed(inputs.checkpoint, other, begun)


def test_embed_corpus_refuses_folders_without_a_whole_manifest(inputs: Inputs, begun: Path) -> None:
    manifest = begun / "manifest.json"
    manifest.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"manifest\.json is damaged: .*; name another --output"):
        embed(inputs.checkpoint, inputs.file, begun)
    manifest.unlink()
    with pytest.raises(ValueError, match=r"holds embeddings without manifest\.json; name another"):
        embed(inputs.checkpoint, inputs.file, begun)


def test_embed_corpus_leaves_no_half_of_a_shard_on_a_full_disk(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, written = pq.write_table, []

    def fail(table: Any, where: Any, **options: Any) -> None:
        original(table, where, **options)
        written.append(where)
        if len(written) == 4:  # the check that Parquet holds the columns, and now the third shard
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(OSError, match=r"embeddings-00002.*: No space left on device"):
        embed(inputs.checkpoint, inputs.file, tmp_path / "out")
    assert len(shard_files(tmp_path / "out")) == 2
    assert not list((tmp_path / "out").glob(".*.tmp"))


def test_embed_corpus_refuses_a_disk_that_is_too_small(
    inputs: Inputs, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the missing shards count."""
    usage = namedtuple("usage", ["free"])
    monkeypatch.setattr(run.shutil, "disk_usage", lambda _: usage(0))
    embed(inputs.checkpoint, inputs.file, begun)  # nothing is missing
    with pytest.raises(OSError, match=r"the output needs 0.0 MB, and .* has 0.0 MB left; name an"):
        embed(inputs.checkpoint, inputs.file, begun.parent / "out")
    assert not shard_files(begun.parent / "out")


def test_script_continues_and_answers_mistakes_in_one_line(
    inputs: Inputs, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = script_main("embed")
    words = [inputs.checkpoint, inputs.file, f"--output={begun}", "--rows_per_shard=7"]
    with pytest.raises(SystemExit, match=r"^embed\.py: .*keep_columns was None and is \['id'\]"):
        main([*words, "--keep_columns=id"])
    main(words)
    assert contents(begun) == inputs.expected
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(SystemExit, match=r"needs Ray Data: pip install 'sase_hf\[ray\]'"):
        main([*words, "--ray"])
