"""The pages of results show the records alone."""

from pathlib import Path

import pytest
import study
from huggingface_hub import ModelCard
from leaderboard import table_of_readme
from records import read_records
from runner import RESULTS, state_of

ROOT = Path(__file__).parents[2]
CARDS = ROOT / "model_cards"


def test_every_record_of_a_recipe_holds() -> None:
    """Whoever edits a recipe measures it again, or takes its record away."""
    words = ["status", "--records", str(CARDS / "records"), "--seeds"]
    words += ["1", "2", "3", "42", "43", "44"]
    runs = list(study.collect_runs(study.build_parser().parse_args(words)))
    assert {state_of(run).partition(",")[0] for run in runs} <= {"done", "missing"}
    names = {run.name for run in runs}
    for file in ("study", "translation", "retrieval"):
        for name, measured in read_records(CARDS / "records" / f"{file}.jsonl").items():
            if name.partition("/")[0] not in ("tuning", "search", "precision"):  # made by hand
                is_linear = measured.get("name") in ("linear", "TF-IDF")
                assert is_linear or name in names, f"{name} has no recipe"
                assert measured["metrics"].keys() & set(RESULTS)


def test_table_of_readme_is_that_of_the_records() -> None:
    table = table_of_readme(read_records(CARDS / "records/leaderboard.jsonl"))
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("source", sorted(CARDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_card_is_that_of_its_record(source: Path) -> None:
    card = source.with_suffix(".md")
    assert card.read_text(encoding="utf-8") == study.render_card(source), "render it again"
    assert {"license", "language"} <= ModelCard.load(card).data.to_dict().keys()
