"""Interrupted runs, several processes and Ray: the same embeddings as one run."""

import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from checkpoints import change_weights, save_checkpoint
from corpora import ROWS_PER_SHARD, contents, embed, make_corpus, shard_files
from rows import write_jsonl
from script_files import load_command
from transformers import AutoModel, AutoTokenizer

from sase_hf.embedding import EmbeddingJob, run

ROOT = Path(__file__).parents[2]
CORPUS = make_corpus()

Inputs = namedtuple("Inputs", ["checkpoint", "file", "expected"])

# Kills the process, as kill -9 does, when its second shard is written but has not got its name yet.
KILLED = """\
import os, runpy, signal, sys
replace, renamed = os.replace, []

def replace_or_die(source, target):
    if "embeddings-" in str(target):
        renamed.append(target)
    if len(renamed) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = replace_or_die
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    folder = tmp_path_factory.mktemp("runs")
    checkpoint = save_checkpoint(folder / "tiny")
    file = str(write_jsonl(folder / "corpus.jsonl.gz", CORPUS))
    embed(checkpoint, file, folder / "expected")
    return Inputs(checkpoint, file, contents(folder / "expected"))


@pytest.fixture
def begun(inputs: Inputs, tmp_path: Path) -> Path:
    folder = tmp_path / "begun"
    folder.mkdir()
    for name, content in inputs.expected.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.slow
def test_embed_script_processes_share_shards_and_continue_after_a_kill(
    inputs: Inputs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every shard is whole or missing, none is made twice. The first process is this one."""
    output = tmp_path / "out"
    script = str(ROOT / "scripts" / "embed.py")
    words = [inputs.checkpoint, inputs.file, f"--output={output}", "--precision=float32"]
    words.append(f"--rows_per_shard={ROWS_PER_SHARD}")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, script, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "RANK": "1"},
        stderr=subprocess.PIPE,
        text=True,
    ) as other:
        monkeypatch.setenv("RANK", "0")
        load_command("embed").main(words)
        errors = other.communicate(timeout=280)[1]
    assert other.returncode == -signal.SIGKILL, errors
    assert "process 1 of 2" in capsys.readouterr().err
    finished = shard_files(output)
    assert [path.name[11:16] for path in finished] == ["00000", "00001", "00002", "00004"]
    assert list(output.glob(".*.tmp")), "the premise: one was written, and has no name yet"
    times = [path.stat().st_mtime_ns for path in finished]

    embed(inputs.checkpoint, inputs.file, output)
    assert [path.stat().st_mtime_ns for path in finished] == times
    assert contents(output) == inputs.expected


def test_embed_script_of_one_process_of_several_counts_the_shards(
    inputs: Inputs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The output can be read once the last process has made its part."""
    monkeypatch.setenv("WORLD_SIZE", "3")
    words = [inputs.checkpoint, inputs.file, f"--output={tmp_path / 'out'}"]
    words.append(f"--rows_per_shard={ROWS_PER_SHARD}")
    printed = []
    for process in ("0", "1", "2"):
        monkeypatch.setenv("RANK", process)
        load_command("embed").main(words)
        printed.append(capsys.readouterr().out.partition(": ")[2])
    unfinished = "2 of 5 shards are finished; the other processes make the rest\n"
    assert printed == [unfinished, "", f"load_dataset({str(tmp_path / 'out')!r}) reads them\n"]


def job_of(inputs: Inputs, output: Path) -> EmbeddingJob:
    return EmbeddingJob(
        inputs.checkpoint,
        output,
        inputs=(inputs.file,),
        precision="float32",
        rows_per_shard=ROWS_PER_SHARD,
    )


def test_embed_corpus_makes_damaged_shards_again(
    inputs: Inputs, begun: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One cut short, one of another length, one missing; the others stay.

    Any number of processes may continue where another number stopped.
    """
    files = shard_files(begun)
    files[0].write_bytes(files[0].read_bytes()[:-40])
    shutil.copy(files[4], files[1])
    files[2].unlink()
    times = [path.stat().st_mtime_ns for path in files[3:]]
    run.embed_corpus(job_of(inputs, begun), process=2, processes=3)
    assert len(shard_files(begun)) == 5, "a process makes its own share: the shards 2, 5, ..."
    assert (begun / files[1].name).read_bytes() != inputs.expected[files[1].name]
    run.embed_corpus(job_of(inputs, begun), process=1, processes=2)  # of another number
    run.embed_corpus(job_of(inputs, begun))
    assert contents(begun) == inputs.expected
    assert [path.stat().st_mtime_ns for path in files[3:]] == times
    assert f"{files[0].name} is damaged and made again: " in caplog.text
    assert f"{files[1].name} has 3 rows and is made again" in caplog.text


def test_embed_corpus_makes_a_shard_again_whose_data_changed(
    inputs: Inputs, begun: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One byte of an embedding, where the footer says nothing; the other shards stay."""
    changed, *others = shard_files(begun)
    content = bytearray(changed.read_bytes())
    metadata = pq.read_metadata(changed)
    column = metadata.row_group(0).column(metadata.num_columns - 1)
    assert column.path_in_schema.startswith("embedding")
    content[column.data_page_offset + column.total_compressed_size - 3] ^= 1
    changed.write_bytes(content)
    times = [path.stat().st_mtime_ns for path in others]
    run.embed_corpus(job_of(inputs, begun))
    assert contents(begun) == inputs.expected
    assert [path.stat().st_mtime_ns for path in others] == times
    assert f"{changed.name} is damaged and made again: " in caplog.text


@pytest.mark.slow
def test_embed_with_ray_equals_one_process(
    inputs: Inputs, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two actors share the missing shards; finished ones stay."""
    ray = pytest.importorskip("ray")
    for path in shard_files(begun)[1:]:
        path.unlink()
    kept = shard_files(begun)[0].stat().st_mtime_ns
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with ray.init(num_cpus=2, include_dashboard=False):
        run.embed_with_ray(job_of(inputs, begun))
        assert ray.is_initialized(), "whoever started Ray stops it"
    assert contents(begun) == inputs.expected
    assert shard_files(begun)[0].stat().st_mtime_ns == kept


def test_embed_corpus_refuses_to_continue_with_other_settings_model_or_input(
    inputs: Inputs, begun: Path, tmp_path: Path
) -> None:
    """Model and input are known by their content: a copy with another name is the same."""
    message = r"settings\.normalize was False and is True\. Give the same .* another --out"
    with pytest.raises(ValueError, match=message):
        embed(inputs.checkpoint, inputs.file, begun, normalize=True)
    base = tmp_path / "base"  # a run begun with the head continues with the base model
    AutoModel.from_pretrained(inputs.checkpoint).save_pretrained(base)
    AutoTokenizer.from_pretrained(inputs.checkpoint).save_pretrained(base)
    embed(str(base), inputs.file, begun)
    copy = Path(shutil.copytree(inputs.checkpoint, tmp_path / "copy"))
    embed(str(copy), inputs.file, begun, batch_tokens=50)
    change_weights(copy, lambda weights: weights["encoder.embeddings.weight"].mul_(2))
    with pytest.raises(ValueError, match=r"settings: model\.weights_sha256 was '.*' and is '"):
        embed(str(copy), inputs.file, begun)
    other = str(write_jsonl(tmp_path / "corpus.jsonl.gz", [*CORPUS[1:], CORPUS[0]]))
    with pytest.raises(ValueError, match=r"other settings: input\.files was \[.*\] and is \[.*\]"):
        embed(inputs.checkpoint, other, begun)
    assert contents(begun) == inputs.expected
    manifest = begun / "manifest.json"
    manifest.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"manifest\.json is damaged: .*; name another --output"):
        embed(inputs.checkpoint, inputs.file, begun)
    manifest.unlink()
    with pytest.raises(ValueError, match=r"holds embeddings without manifest\.json; name another"):
        embed(inputs.checkpoint, inputs.file, begun)


@pytest.mark.parametrize(("is_fast", "precision"), [(True, "bf16"), (False, "float32")])
def test_embed_corpus_computes_in_bf16_where_the_processor_is_fast_in_it(
    is_fast: bool,
    precision: str,
    inputs: Inputs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger=run.__name__)
    asked: list[bool] = []

    def is_fast_here(use_cpu: bool) -> bool:
        asked.append(use_cpu)
        return is_fast

    monkeypatch.setattr(run, "is_fast_in_bfloat16", is_fast_here)
    embed(inputs.checkpoint, inputs.file, tmp_path / "open", precision=None, device="cpu")
    assert asked == [True]
    assert f"precision: {precision}" in caplog.text
    embed(inputs.checkpoint, inputs.file, tmp_path / "named", precision=precision)
    assert contents(tmp_path / "open") == contents(tmp_path / "named")
    shard = shard_files(tmp_path / "open")[0].name
    is_exact = contents(tmp_path / "open")[shard] == inputs.expected[shard]
    assert is_exact is not is_fast


def test_embed_corpus_keeps_the_precision_of_its_folder(
    inputs: Inputs, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "is_fast_in_bfloat16", lambda use_cpu: True)
    shard_files(begun)[0].unlink()
    embed(inputs.checkpoint, inputs.file, begun, precision=None)
    assert contents(begun) == inputs.expected
    with pytest.raises(ValueError, match=r"settings\.precision was 'float32' and is 'bf16'"):
        embed(inputs.checkpoint, inputs.file, begun, precision="bf16")


def test_embed_corpus_processes_take_the_precision_of_the_first(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the second process is slow in bf16, and the first to write."""
    job = replace(job_of(inputs, tmp_path / "out"), precision=None)

    def is_fast(use_cpu: bool) -> bool:
        monkeypatch.setattr(run, "is_fast_in_bfloat16", lambda use_cpu: False)
        run.embed_corpus(job, process=1, processes=2)
        return True

    monkeypatch.setattr(run, "is_fast_in_bfloat16", is_fast)
    run.embed_corpus(job, process=0, processes=2)
    assert contents(job.output) == inputs.expected, "all in float32"


def test_embed_corpus_makes_shards_for_several_processes_and_keeps_their_size(
    inputs: Inputs, begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen, unless they would be too small; a begun folder has its own."""
    job = replace(job_of(inputs, tmp_path / "out"), rows_per_shard=None)
    run.embed_corpus(job)
    assert len(shard_files(tmp_path / "out")) == 1, "31 rows are few"
    monkeypatch.setattr(run, "MIN_ROWS", 1)
    run.embed_corpus(replace(job, output=tmp_path / "more"))
    assert len(shard_files(tmp_path / "more")) == 16
    run.embed_corpus(replace(job, output=begun))
    assert contents(begun) == inputs.expected


def test_embed_corpus_makes_shards_of_a_bounded_size(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard is in memory at once: wide embeddings have fewer rows in it."""
    job = replace(job_of(inputs, tmp_path / "out"), rows_per_shard=None)
    embedder = run.EmbeddingRun(replace(job, output=tmp_path / "other")).embedder
    monkeypatch.setattr(run, "MAX_BYTES", 10 * embedder.size * embedder.dtype.itemsize)
    run.embed_corpus(job)
    assert len(shard_files(tmp_path / "out")) == 4, "of 31 rows, at most 10 in each"
