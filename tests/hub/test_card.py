"""Model cards: what the Hub reads, what a person reads, and that no name breaks either."""

import ast
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from checkpoints import KINDS, save_kinds
from huggingface_hub import ModelCard
from tiny import tiny_config, tiny_model

from sase_hf import SelfAttentiveForNLI, build_tokenizer
from sase_hf.hub import model_card, write_model_card
from sase_hf.models.checkpoint import PLACEHOLDER, saved_digests

RECORD: dict[str, Any] = {
    "metrics": {"accuracy": 0.71234, "macro_f1": 0.5},
    "split": "validation",
    "seed": 7,
    "date": "2026-01-02T03:04:05+00:00",
    "code": {"commit": "d" * 40, "modified": False},
    "versions": {"torch": "2.13.0"},
    "hardware": {"cpu": "Some CPU", "gpus": ["Some GPU"]},
    "arguments": {"learning_rate": 1e-3, "word_vectors": ["a_b.txt"], "output_dir": "runs/x"},
    "sources": {
        "train": {"file": "rooms.jsonl", "sha256": "ab" * 32, "rows": 12345},
        "validation": {"dataset": "someone/rooms", "revision": "c" * 40, "rows": 100},
        "test": {"dataset": "rooms", "revision": None, "rows": 5},
    },
}
HOSTILE_NAMES = [
    "---\nlicense: other\n---",
    "<script>alert(1)</script> {{ 7 * 7 }}{% raw %}",
    "[click](https://example.org) ![x](y) `code` *bold* | cell \\`code\\` and \\*bold\\*",
    "www.example.org someone@example.org \u202e override, a bell \x07 and a NUL \x00",
    "- !!python/object/apply:os.system [ls]",
    'x"; import os\n```\nos.remove("y")',
    "x" * 10_000,
]


def card_of(record: dict[str, Any] | None = None, name: str = "rooms", **fields: Any) -> ModelCard:
    text = model_card(tiny_config(**fields), record, name=name, num_parameters=1234, repo_id=name)
    return ModelCard(text)


@pytest.mark.parametrize(
    ("split", "name", "kind"),
    [("validation", "someone/rooms", "someone/rooms"), ("test", "rooms", "local")],
)
def test_card_front_matter_has_task_origins_and_rounded_results(
    split: str, name: str, kind: str
) -> None:
    """A local dataset must not be linked to a dataset of the same name on the Hub."""
    # The Hub refuses NaN in a model index.
    measured = {**RECORD["metrics"], "pearson": math.nan, "other": None}
    measured |= {"penalty": 0.3, "rationale_cost": 1.0}
    data = card_of({**RECORD, "split": split, "metrics": measured}).data
    assert (data.language, data.license, data.library_name) == (None, None, "transformers")
    assert data.pipeline_tag == "text-classification"
    assert card_of(architectures=["SelfAttentiveModel"]).data.pipeline_tag == "feature-extraction"
    results = {one.metric_type: one.metric_value for one in data.eval_results}
    assert results == {"accuracy": 0.7123, "macro_f1": 0.5}
    result = data.eval_results[0]
    assert (result.dataset_name, result.dataset_type, result.dataset_split) == (name, kind, split)
    assert data.datasets == ["someone/rooms"]


def test_card_shows_results_sources_settings_sizes_and_labels() -> None:
    """Without settings nobody can repeat it."""
    config = tiny_config(id2label={0: "poor", 1: "fair", 2: "good"})
    text = model_card(config, RECORD, name="rooms", num_parameters=25_000_000)
    for shown in (
        "seed 7, torch 2.13.0, commit " + "d" * 40 + ", Some CPU, Some GPU, 2026-01-02.",
        "| id | label |\n|---|---|\n| 0 | poor |\n| 1 | fair |\n| 2 | good |\n\n## Sizes",
        "learning_rate 0.001;\nword_vectors a_b.txt.\n",
    ):
        assert shown in text
    assert "runs/x" not in text


def test_card_shows_what_only_the_owner_knows() -> None:
    about = {
        "license": "mit",
        "language": "en",
        "datasets": ["someone/corpus"],
        "summary": "It rates rooms.",
        "limits": "* Rooms of 2004 only.\n",
    }
    card = ModelCard(model_card(tiny_config(), RECORD, name="x", num_parameters=9, about=about))
    assert (card.data.license, card.data.language) == ("mit", "en")
    assert card.data.datasets == ["someone/rooms", "someone/corpus"]
    assert "\nIt rates rooms.\n" in card.text
    assert "## Limits and biases\n\n* Rooms of 2004 only.\n* All words outside" in card.text


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_card_escapes_names(name: str) -> None:
    """Names come from users: they must neither end the front matter nor become markup."""
    harmless = card_of(RECORD, id2label={0: "poor", 1: "good"})
    record = {
        "metrics": {name: 0.5},
        "split": name,
        "hardware": {"cpu": name},
        "arguments": {name: name},
        "sources": {
            split: {"dataset": name, "revision": name, "rows": 1} for split in ("train", name)
        },
    }
    card = card_of(record, name=name, id2label={0: name, 1: "good"})
    assert card.data.library_name == "transformers"
    assert set(card.data.to_dict()) == set(harmless.data.to_dict())
    assert card.data.model_name == card.data.eval_results[0].metric_type
    headings = re.compile(r"^## .*", re.MULTILINE)
    assert headings.findall(card.text) == headings.findall(harmless.text)
    loading = re.findall(r"```python\n(.*?)\n```", card.text, re.DOTALL)[0]
    assigned = next(node for node in ast.parse(loading).body if isinstance(node, ast.Assign))
    assert ast.literal_eval(assigned.value) == name
    prose = re.sub(r"^```.*?^```$", "", card.text, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"<[a-z!/]", prose)
    assert all(letter.isprintable() or letter == "\n" for letter in str(card))
    prose = prose.replace("\\\\", "")  # an escaped backslash escapes nothing itself
    for markup in ("49", "[click]", "[x]", "`code`", "*bold*", "https://e", "www.e", "someone@"):
        assert markup not in prose
    assert max(map(len, prose.splitlines())) < 2000


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kinds")
    save_kinds(root)
    return root


@pytest.mark.parametrize("name", ["base", "classifier", "nli", "retrieval"])
def test_card_examples_run(name: str, kinds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader copies them; each way of loading is run, followed by the use."""
    monkeypatch.chdir(kinds / name)
    card = ModelCard.load(write_model_card(kinds / name))
    load, *uses = re.findall(r"```python\n(.*?)```", card.text.replace(PLACEHOLDER, "."), re.DOTALL)
    with_flag = load.replace(
        "from_pretrained(checkpoint)", "from_pretrained(checkpoint, trust_remote_code=True)", 1
    )
    for way in (with_flag.replace("import sase_hf", "#"), load):
        names: dict[str, Any] = {}
        exec(way + "".join(uses), names)
        assert names["similarity"].shape == (2, 2)
        assert type(names["model"]).__name__ == KINDS[name][0].__name__
        if name == "base":
            assert len(uses) == 2, "a model without a head has no heatmap"
            assert not Path("heatmap.svg").exists()
            continue
        assert "<html" in Path("attention.html").read_text(encoding="utf-8")
        is_pair = name != "classifier"
        picture = ElementTree.parse("heatmap.svg").getroot()
        drawn = "".join(picture.itertext())
        assert drawn.count("all hops") == 1 + is_pair
        has_why = "\nwhy\n" in drawn
        assert has_why == ("row `why` has" in card.text) == (name != "retrieval")
        assert "](heatmap.svg)\n\nThe picture shows the example" in card.text


@pytest.mark.parametrize("shards", [{}, {"max_shard_size": "2KB"}], ids=["whole", "shards"])
def test_write_model_card_counts_parameters_and_keeps_owned_fields(
    tmp_path: Path, shards: dict[str, str]
) -> None:
    """The count comes from the weights, whatever the config says."""
    tokenizer = build_tokenizer(["the room was small"])
    model = tiny_model(SelfAttentiveForNLI, vocab_size=len(tokenizer))
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path, **shards if part is model else {})
    write_model_card(tmp_path, about={"license": "mit", "language": "en", "datasets": ["a/b"]})
    card = ModelCard.load(write_model_card(tmp_path, RECORD, about={"license": "apache-2.0"}))
    assert f"| parameters | {model.num_parameters():,} |" in card.text
    listed = saved_digests(tmp_path)
    weights = [digest for name, digest in listed.items() if name.endswith(".safetensors")]
    assert all(digest in card.text for digest in weights)
    assert listed.keys() > {"README.md", "heatmap.svg", "tokenizer.json"}
    assert (card.data.license, card.data.language) == ("apache-2.0", "en")
    assert card.data.datasets == ["someone/rooms", "a/b"]
    model.save_pretrained(tmp_path)
    assert "heatmap.svg" in saved_digests(tmp_path)
