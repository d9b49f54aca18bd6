"""The pushes of transformers' own `save_pretrained` and `push_to_hub`."""

from pathlib import Path

import pytest
from loopback_hub import OWNER, Hub
from tiny import tiny_config

from sase_hf import SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.models import FAMILIES

pytestmark = pytest.mark.slow

NAME = f"{OWNER}/rooms"
NEEDED = {
    "config.json",
    "model.safetensors",
    "SHA256SUMS",
    "modules.json",
    "sentence_bert_config.json",
    *FAMILIES["self_attentive"].files,
}


def test_transformers_own_pushes_send_all_that_a_checkpoint_needs(hub: Hub, tmp_path: Path) -> None:
    """With the files that we add, and nothing else of the folder."""
    model = SelfAttentiveForSequenceClassification(tiny_config())
    model.save_pretrained(tmp_path)
    (tmp_path / "training_args.bin").write_bytes(b"private")
    model.save_pretrained(tmp_path, push_to_hub=True, repo_id=NAME)
    assert hub.files(NAME).keys() == NEEDED | {".gitattributes", "README.md"}
    with pytest.raises(ValueError, match=r"leave state_dict and variant out"):
        model.save_pretrained(tmp_path, push_to_hub=True, repo_id=NAME, variant="half")
    model.push_to_hub(f"{NAME}2")
    build_tokenizer(["the room was small"]).push_to_hub(f"{NAME}2")
    assert hub.files(f"{NAME}2").keys() >= {*NEEDED, "tokenizer.json", "tokenizer_config.json"}
