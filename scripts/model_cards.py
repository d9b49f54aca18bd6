"""Render the cards of the published models from their records.

    python scripts/model_cards.py

Each card `model_cards/NAME.md` is made from `model_cards/NAME.yaml`, which names its record and its
title and holds what is not in a record, such as licence, task and limits. The test suite compares
the cards with a fresh rendering.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import yaml

from sase_hf import SelfAttentiveConfig
from sase_hf.hub import model_card
from sase_hf.utils.cli import errors_in_one_line, make_parser

CARDS = Path(__file__).resolve().parents[1] / "model_cards"


def main(argv: Sequence[str] | None = None) -> None:
    """Write the card of every .yaml file in a folder.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    parser = make_parser(__doc__)
    parser.add_argument("--folder", type=Path, default=CARDS, help="where the .yaml files are")
    folder = parser.parse_args(argv).folder
    with errors_in_one_line(__file__):
        sources = sorted(folder.glob("*.yaml"))
        if not sources:
            raise FileNotFoundError(f"there is no .yaml file in {folder}; a card is made from one")
        for source in sources:
            target = source.with_suffix(".md")
            target.write_text(render(source), encoding="utf-8")
            print(target)


def render(source: Path) -> str:
    """Return a card.

    Args:
        source: The YAML file. Its `record` is a path relative to its folder, and so is `export`, if
            given: the export.json of the same model, measured on rows.

    Raises:
        ValueError: If the file is not YAML, or a field is missing or unknown.
        OSError: If a file cannot be read.
    """
    try:
        about = yaml.safe_load(source.read_text(encoding="utf-8"))
    except yaml.YAMLError as reason:
        raise ValueError(f"{source} is not YAML: {reason}") from reason
    for field in ("record", "name"):
        if not isinstance(about, dict) or field not in about:
            raise ValueError(f"{source} has no field {field!r}; see those in {CARDS.name}/")
    path = source.parent / about.pop("record")
    record = json.loads(path.read_text(encoding="utf-8"))
    for field in ("config", "num_parameters"):
        if field not in record:
            raise ValueError(f"{path} has no {field!r}; name a record that scripts/train.py wrote")
    if "export" in about:
        exported = source.parent / about.pop("export")
        record["export"] = json.loads(exported.read_text(encoding="utf-8"))
    return model_card(
        SelfAttentiveConfig.from_dict(record["config"]),
        record,
        name=about.pop("name"),
        num_parameters=record["num_parameters"],
        about=about,
    )


if __name__ == "__main__":
    main()
