"""The pages and the figures of the studies show the records alone."""

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import study
from browsers import find_browser
from checkpoints import save_checkpoint
from figures import save_pictures
from huggingface_hub import ModelCard
from records import read_records
from runner import RESULTS, state_of
from study_pages import Pages, by_recipe, cell

from sase_hf import SelfAttentiveConfig

CARDS = Path(__file__).parents[2] / "model_cards"
CONSTRAINTS = CARDS.with_name("constraints.txt")


def record(accuracy: float = 0.5, **more: Any) -> dict[str, Any]:
    """Return the fields of a record that the tables read."""
    return {"split": "validation", "metrics": {"accuracy": accuracy}, **more}


def test_cells_show_means_over_seeds() -> None:
    histories = [[{"accuracy": share} for share in shares] for shares in ((0.5, 0.75), (0.7, 0.95))]
    records = {
        "yelp5/cnn": [record(share) for share in (0.61, 0.63, 0.68)],
        "yelp5/self_attentive": [record(0.8, seed=43)],
        "yelp5/focused": [record(0.85, seed=43)],
        "snli/hops_5": [record(history=history) for history in histories],
    }
    shown = Pages(records, {})
    assert shown.accuracy("yelp5", "cnn") == "64.00 ± 3.61 (3 seeds)"
    assert shown.accuracy("yelp5", "gated") == cell([]) == "-"
    assert shown.gains("yelp5", "gated") == []
    assert cell(shown.gains("yelp5", "focused")) == "5.00 (1 seed)", "beside the same seed"
    assert shown.best_epoch("snli", "hops_5") == "85.00 ± 14.14 (2 seeds)", "of each seed"


def test_lengths_have_an_interval() -> None:
    """A hundred rows, four of five right: Wilson's interval is 71.1 to 86.7 %."""
    group = {"from": 5, "to": 20, "tokens": 12.5, "rows": 100}
    seeds = [record(by_length=[group | {"accuracy": share}]) for share in (0.75, 0.85)]
    poolings = ("last", "mean", "max", "one_hop", "default")
    shown = Pages({f"snli/length_{pooling}": seeds for pooling in poolings}, {})
    assert shown.lengths("snli") == [["5 to 20", "100", *["80.0 (71.1 to 86.7)"] * 5]]


def test_weights_are_counted_as_in_the_paper() -> None:
    """The sizes of its Yelp model give its numbers, rounded: 54M, 15K and 1.3M."""
    sizes = {"lstm_hidden_size": 300, "attention_size": 350, "num_hops": 30, "num_labels": 5}
    config = SelfAttentiveConfig(classifier_hidden_size=3000, **sizes).to_diff_dict()
    config["architectures"] = ["SelfAttentiveForSequenceClassification"]
    lstm, attention = 2 * (4 * 300 * (100 + 300) + 2 * 4 * 300), 350 * (600 + 30)
    shown = Pages({"yelp5/self_attentive": [record(config=config)]}, {})
    found = shown.weights("yelp5", "self_attentive")
    assert found == ["54,003,000", "15,000", f"{lstm + attention:,}"]


SEEDS = {name: record(settings_sha="a") for name in ("cnn-seed42", "cnn-seed43", "linear")}


def test_records_of_a_recipe_are_those_of_its_seeds() -> None:
    counts = {name: len(seeds) for name, seeds in by_recipe(SEEDS).items()}
    assert counts == {"cnn": 2, "linear": 1}


def test_records_of_seeds_with_different_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="the seeds of cnn have different settings"):
        by_recipe({**SEEDS, "cnn-seed44": record(settings_sha="b")})


def test_records_of_another_split_are_refused() -> None:
    with pytest.raises(ValueError, match="cnn-seed42 was measured on validation rows, but the tab"):
        by_recipe(SEEDS, "test")


def test_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="there are no records in nowhere"):
        study.main(["render", "--records=nowhere", f"--output={tmp_path}"])


def test_every_record_of_a_recipe_holds() -> None:
    """Whoever edits a recipe measures it again, or takes its record away."""
    words = ["status", "--records", str(CARDS / "records"), "--seeds"]
    words += ["1", "2", "3", "42", "43", "44"]
    runs = list(study.collect_runs(study.build_parser().parse_args(words)))
    states = {state_of(run).partition(",")[0] for run in runs}
    assert states <= {"done", "missing"}
    names = {run.name for run in runs}
    for file in ("study", "explanation", "translation", "retrieval"):
        for name, measured in read_records(CARDS / "records" / f"{file}.jsonl").items():
            by_hand = name.partition("/")[0] in ("tuning", "search", "precision")
            of_tfidf = measured.get("name") in ("linear", "TF-IDF")
            assert by_hand or of_tfidf or name in names, f"{name} has no recipe"
            assert by_hand or measured["metrics"].keys() & set(RESULTS)


# matplotlib names a marker or a clip path by a hash of its coordinates, whose last bits differ
# between processors.
HASHED_NAME = re.compile(r"\b[mp][0-9a-f]{10}\b")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
Drawing = tuple[list[str], list[float]]


def drawing(svg: str) -> Drawing:
    """Return what stands between the numbers of an SVG file, with numbered names, and the numbers.

    Numbers of the same drawing by another processor differ by less than a hundredth of a point.
    """
    places: dict[str, str] = {}
    named = HASHED_NAME.sub(lambda name: places.setdefault(name[0], f"name{len(places)}"), svg)
    return NUMBER.split(named), [float(number) for number in NUMBER.findall(named)]


def assert_same_drawing(one: Drawing, other: Drawing) -> None:
    assert one[0] == other[0]
    assert one[1] == pytest.approx(other[1], abs=0.01)


def test_gains_of_opinion_compare_the_same_seeds() -> None:
    def measured(seed: int, precision: float) -> dict[str, Any]:
        return {"seed": seed, "metrics": {"average_precision": precision}}

    alone = [measured(1, 0.25), measured(2, 0.5), measured(3, 0.125)]
    records = {"wrong_labels/sst2/linear": alone, "wrong_labels/sst2/both": [measured(2, 0.75)]}
    assert Pages(records, {}).gains_of_opinion("sst2", "average_precision") == [0.25]


def test_drawing_is_the_same_whatever_the_last_bits_of_its_coordinates() -> None:
    path = '<path d="M 10.25 20" clip-path="url(#p0123456789)"/><text>r = 5</text>'
    there = path.replace("p0123456789", "pfedcba9876").replace("10.25", "10.250001")
    assert_same_drawing(drawing(path), drawing(there))
    for change in (("10.25", "10.3"), ("r =", "k ="), ("M 10", "L 10"), ("= 5", "= 6")):
        with pytest.raises(AssertionError):
            assert_same_drawing(drawing(path), drawing(path.replace(*change)))


@pytest.mark.slow
def test_pages_figures_and_cards_in_the_repository_are_those_of_the_records(tmp_path: Path) -> None:
    pinned = f"matplotlib=={version('matplotlib')}\n" in CONSTRAINTS.read_text(encoding="utf-8")
    fresh = study.render(CARDS / "records", tmp_path)
    for file in fresh:
        here = (CARDS / file.name).read_text(encoding="utf-8")
        there = file.read_text(encoding="utf-8")
        if file.suffix == ".md":
            assert here == there, "render it again"
        elif pinned:  # another matplotlib places things elsewhere
            assert_same_drawing(drawing(here), drawing(there))
    for source in CARDS.glob("*.yaml"):
        card = tmp_path / f"{source.stem}.md"
        assert card in fresh
        assert {"license", "language"} <= ModelCard.load(card).data.to_dict().keys()


@pytest.mark.browser
@pytest.mark.slow
def test_pictures_of_the_readme_have_both_themes(tmp_path: Path) -> None:
    find_browser()
    checkpoint = save_checkpoint(tmp_path / "model")
    save_pictures([checkpoint] * 2, tmp_path)
    for name in ("heatmap_{}.svg", "page_{}.png"):
        light, dark = (tmp_path / name.format(theme) for theme in ("light", "dark"))
        assert light.read_bytes() != dark.read_bytes()
