"""The commands that a finished training prints."""

import shlex
from types import SimpleNamespace

import pytest

from sase_hf.commands.training_frame import SENTENCES, next_commands


@pytest.mark.parametrize("pooling", ["self_attention", "max"])
@pytest.mark.parametrize("columns", [["text"], ["What was good, and why?", "why"]], ids=str)
def test_next_commands_show_a_model_and_predict(columns: list[str], pooling: str) -> None:
    outcome = {"rows": SimpleNamespace(text_columns=columns)}
    outcome["record"] = {"config": {"pooling": pooling}}
    *shown, lines, file = next_commands("my model", outcome)
    words = [shlex.split(command)[1:] for command in shown]
    texts = list(SENTENCES[: len(columns)])
    assert [[word for word in call if word in texts] for call in words] == [texts] * len(shown)
    assert len(shown) == (pooling == "self_attention")
    assert lines.endswith(shlex.join(["sase_hf", "predict", "my model"]))
    assert shlex.split(file)[-3:] == [",".join(columns), "--test_file", "new.csv"]
