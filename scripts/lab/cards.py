"""The cards of the published models, from their records and model_cards/NAME.yaml."""

from pathlib import Path

import yaml
from records import read_record

from sase_hf.hub import model_card
from sase_hf.models import FAMILIES


def render_card(source: Path) -> str:
    """Return the card of a YAML file with the facts that no record has, such as the licence.

    The `record`, FILE.json or FILE.jsonl#RUN, is relative to the folder. So is `export`, which may
    be missing: the export.json of the same model, measured on rows.
    """
    about = yaml.safe_load(source.read_text(encoding="utf-8"))
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
