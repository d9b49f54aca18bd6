"""A translation checkpoint in the scripts that take any family."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from checkpoints import script_main, write_owned_card
from rows import write_jsonl
from tiny_translation import save_translator
from transformers import pipeline

TEXTS = ["Two dogs run.", "A man sleeps."]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("checkpoint") / "model"
    save_translator(folder, TEXTS)
    write_owned_card(folder)
    return str(folder)


def test_visualize_draws_the_alignment(checkpoint: str, tmp_path: Path) -> None:
    words = [checkpoint, "--text", TEXTS[0]]
    for ending, part in (("html", "dogs"), ("svg", "<svg")):
        output = tmp_path / f"alignment.{ending}"
        script_main("visualize")([*words, "--output", str(output)])
        assert part in output.read_text()
    with pytest.raises(SystemExit, match="of one checkpoint and its --text"):
        script_main("visualize")(words)


def test_predict_translates_lines(checkpoint: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "new.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    script_main("predict")([checkpoint, str(tmp_path / "new.txt"), "--format=jsonl"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    translate = pipeline("aligned-translation", model=checkpoint)
    expected = [result["translation_text"] for result in translate(TEXTS)]
    assert [row["translation"] for row in rows] == expected


def test_embed_takes_the_encoder_of_a_translation_model(checkpoint: str, tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"text": text} for text in TEXTS])
    output = str(tmp_path / "embedded.parquet")
    script_main("embed")([checkpoint, str(rows), "--output", output, "--precision", "float32"])
    found = torch.tensor(pq.read_table(output)["embedding"].to_pylist())
    translate = pipeline("aligned-translation", model=checkpoint)
    inputs = translate.tokenizer(TEXTS, padding=True, return_tensors="pt").to(translate.device)
    with torch.no_grad():
        expected = translate.model.encoder(**inputs).sentence_embedding
    torch.testing.assert_close(found, expected.cpu())
