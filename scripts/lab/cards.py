"""Render the cards of the published models from their records.

    python scripts/lab/cards.py

Each card `model_cards/NAME.md` is made from `model_cards/NAME.yaml`, which names its record, its
title and its repository on the Hub, and holds what is not in a record, such as licence, task and
limits. The test suite compares the cards with a fresh rendering.
"""

from collections.abc import Sequence
from pathlib import Path

import yaml
from records import read_record

from sase_hf.hub import model_card
from sase_hf.models import FAMILIES
from sase_hf.utils.cli import errors_in_one_line, make_parser
from sase_hf.utils.files import write_text

CARDS = Path(__file__).resolve().parents[2] / "model_cards"


def main(argv: Sequence[str] | None = None) -> None:
    """Write the card of every .yaml file in a folder."""
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=Path, default=CARDS, help="where the .yaml files are")
    folder = parser.parse_args(argv).folder
    with errors_in_one_line(__file__):
        for source in sorted(folder.glob("*.yaml")):
            target = source.with_suffix(".md")
            write_text(target, render(source))
            print(target)


def render(source: Path) -> str:
    """Return the card of a YAML file.

    The `record` is an address relative to the folder, FILE.json or FILE.jsonl#RUN. So is `export`,
    the export.json of the same model, measured on rows; it may be missing. Raises ValueError if a
    field is missing or unknown.
    """
    about = yaml.safe_load(source.read_text(encoding="utf-8"))
    if missing := {"record", "checkpoint", "name"} - about.keys():
        raise ValueError(f"{source} has no field {missing.pop()!r}; see those in {CARDS.name}/")
    record = dict(read_record(source.parent / about.pop("record")))
    if "export" in about:
        record["export"] = read_record(source.parent / about.pop("export"))
    return model_card(
        FAMILIES[record["config"]["model_type"]].config.from_dict(record["config"]),
        record,
        name=about.pop("name"),
        num_parameters=record["num_parameters"],
        repo_id=about.pop("checkpoint"),
        about=about,
    )


if __name__ == "__main__":
    main()
