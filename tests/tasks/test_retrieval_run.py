"""Runs that learn to rank, from the pairs to a ranking with the words that met."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from checkpoints import change_json, script_main
from rows import write_jsonl
from runs import TINY_MODEL, read_lines
from sentence_transformers import SentenceTransformer
from transformers import BertTokenizer

from sase_hf.tasks import RetrievalTask
from sase_hf.training import run
from sase_hf.training.command_line import parse_arguments
from sase_hf.utils.cli import flag_words

ANIMALS = "dog cat owl fox hen cow pig bee ant elk emu yak".split()  # noqa: SIM905
PAIRS = [
    {"query": f"the {a}", "document": " ".join([*["it was late ."] * n, f"a {a} ran away ."])}
    for n, a in enumerate(ANIMALS)
]


def words_for(folder: Path, **flags: Any) -> list[str]:
    rows = write_jsonl(folder / "pairs.jsonl", PAIRS)
    given = {
        **TINY_MODEL,
        "classifier_hidden_size": None,
        "train_file": rows,
        "validation_file": rows,
        "test_file": rows,
        "output_dir": folder / "run",
        "do_train": "true",
        "do_eval": "true",
        "do_predict": "true",
        "per_device_train_batch_size": 6,
        "per_device_eval_batch_size": 5,
        "train_sampling_strategy": "group_by_length",
        "learning_rate": 0.03,
        "embedding_dropout": 0,
        "num_train_epochs": 40,
        "save_strategy": "no",
        "bf16": "false",
        "disable_tqdm": "true",
        **flags,
    }
    return flag_words(given)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("retrieval")
    outcome = run(parse_arguments(RetrievalTask, words_for(folder)))
    return {**outcome, "folder": folder}


def test_retrieval_is_learnt_and_recorded(trained: dict[str, Any]) -> None:
    """By the name of the animal alone; a guess would have a rank of 6.5."""
    metrics = trained["metrics"]
    assert metrics["eval_recall_at_10"] >= metrics["eval_recall_at_1"] > 0.8
    assert metrics["eval_mrr"] > 0.8
    assert metrics["eval_penalty"] > 0
    assert trained["record"]["metrics"]["mrr"] == metrics["test_mrr"] == metrics["eval_mrr"]
    assert not list(trained["folder"].glob("run/predictions.*"))


def test_rank_finds_the_documents_that_embed_wrote(
    trained: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """In the terminal, as a page and as a ranking: flat as SentenceTransformer does."""
    folder, model = trained["folder"], str(trained["folder"] / "run")
    queries = str(write_jsonl(folder / "queries.jsonl", [{"text": "the owl"}, {"text": ""}]))
    documents = str(folder / "embedded.parquet")
    options = ["--text_column_names", "document", "--output", documents]
    options += ["--precision", "float32"]  # that of SentenceTransformer
    script_main("embed")([model, str(folder / "pairs.jsonl"), *options])
    words = [model, "--queries", queries, "--documents", documents, "--top_k", "3"]
    script_main("rank")(words)
    best, _ = map(json.loads, capsys.readouterr().out.splitlines()[-2:])
    assert best["query"] == "the owl"
    assert best["texts"][best["documents"].index(ANIMALS.index("owl"))].endswith("a owl ran away .")
    script_main("rank")([*words, "--output", str(folder / "page.html")])
    assert (folder / "page.html").read_text().count("<article") == 6
    flat = shutil.copytree(model, folder / "flat")
    change_json(flat / "config.json", score_mode="flat")
    script_main("rank")([str(flat), *words[1:], "--output", str(flat / "ranking.jsonl")])
    [ranking, _] = read_lines(flat / "ranking.jsonl")
    encoder = SentenceTransformer(model, trust_remote_code=True)
    embedded = encoder.encode(["the owl", *(pair["document"] for pair in PAIRS)])
    similar = encoder.similarity(embedded[:1], embedded[1:])[0].topk(3)
    assert ranking["documents"] == similar.indices.tolist()
    assert ranking["scores"] == pytest.approx(similar.values.tolist(), abs=1e-4)


def test_retrieval_run_starts_from_a_checkpoint_and_resumes(
    trained: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A training that was cut in the middle ends with the loss of one that was not."""
    caplog.set_level("INFO")
    flags: dict[str, Any] = dict.fromkeys(TINY_MODEL)
    flags |= {"lr_scheduler_type": "constant", "save_strategy": "steps", "save_steps": 2}
    flags["model_name_or_path"] = trained["output_dir"]

    def loss_after(name: str, steps: int, **more: Any) -> float:
        words = words_for(tmp_path, **flags, **more, output_dir=tmp_path / name, max_steps=steps)
        loss: float = run(parse_arguments(RetrievalTask, words))["metrics"]["eval_loss"]
        return loss

    whole = loss_after("whole", 4)
    assert "TF-IDF of the words of the held-out rows has mrr 1," in caplog.text
    assert loss_after("halves", 2) != whole
    assert loss_after("halves", 4, resume_from_checkpoint="true") == whole


def test_texts_of_pairs_are_read_as_embed_reads_each(tmp_path: Path) -> None:
    """Also by a tokenizer with marks of its own at the beginning and end, as of BERT."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "it", "was", *ANIMALS]
    tokenizer = BertTokenizer(vocab={word: row for row, word in enumerate(vocabulary)})
    tokenizer.save_pretrained(tmp_path / "words")
    words = words_for(tmp_path, tokenizer_name=tmp_path / "words", max_tokens=6)
    row = parse_arguments(RetrievalTask, words).assemble().tokens["train"][-1]
    query, document = (tokenizer(text).input_ids[:6] for text in PAIRS[-1].values())
    assert row["input_ids"] == query + document
    assert row["token_type_ids"] == [0] * len(query) + [1] * len(document)


def test_retrieval_has_no_flags_that_it_could_not_follow() -> None:
    with pytest.raises(ValueError, match=r"--label_smoothing is 0\.1, but --task retrieval"):
        parse_arguments(RetrievalTask, ["--do_eval", "--label_smoothing=0.1"])


def test_ranker_refuses_test_rows_without_documents(tmp_path: Path) -> None:
    test = write_jsonl(tmp_path / "test.jsonl", [{"query": "the owl"}] * 3)
    words = words_for(tmp_path, test_file=test)
    with pytest.raises(ValueError, match="'document' holds nothing"):
        run(parse_arguments(RetrievalTask, words))
