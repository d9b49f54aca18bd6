"""Render the cards of the published models from their records.

    python scripts/model_cards.py

Beside each card `model_cards/NAME.md` lies `model_cards/NAME.yaml`: which record it shows, the
title, and what no record knows, such as licence, task and limits. The test suite compares the cards
with a fresh rendering.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from sase_hf import SelfAttentiveConfig
from sase_hf.hub import model_card

CARDS = Path(__file__).resolve().parents[1] / "model_cards"


def main(argv: Sequence[str] | None = None) -> None:
    """Write the card of every .yaml file in a folder.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--folder", type=Path, default=CARDS, help="where they lie")
    folder = parser.parse_args(argv).folder
    sources = sorted(folder.glob("*.yaml"))
    if not sources:
        sys.exit(f"model_cards.py: there is no .yaml file in {folder}; a card is made from one")
    for source in sources:
        try:
            card = render(source)
        except (ValueError, OSError, yaml.YAMLError) as error:
            sys.exit(f"model_cards.py: {source}: {error}")
        target = source.with_suffix(".md")
        target.write_text(card, encoding="utf-8")
        print(target)


def render(source: Path) -> str:
    """Return a card.

    Args:
        source: The YAML file; its `record` is a path relative to its folder, and so is `export`, if
            there is one: the export.json of the same model, measured on rows.

    Raises:
        ValueError: If a field is missing or is none of a card's.
        OSError: If a file cannot be read.
    """
    about = yaml.safe_load(source.read_text(encoding="utf-8"))
    for field in ("record", "name"):
        if not isinstance(about, dict) or field not in about:
            raise ValueError(f"it has no field {field!r}; see those in {CARDS.name}/")
    record = json.loads((source.parent / about.pop("record")).read_text(encoding="utf-8"))
    for field in ("config", "num_parameters"):
        if field not in record:
            raise ValueError(f"its record has no {field!r}; name one that scripts/train.py wrote")
    if "export" in about:
        exported = json.loads((source.parent / about.pop("export")).read_text(encoding="utf-8"))
        record["export"] = exported
    return model_card(
        SelfAttentiveConfig.from_dict(record["config"]),
        record,
        name=about.pop("name"),
        num_parameters=record["num_parameters"],
        about=about,
    )


if __name__ == "__main__":
    main()
