"""What is not fit to be public is refused, each time with a way out."""

from collections.abc import Callable
from pathlib import Path

import pytest
from checkpoints import change_json, change_weights, replace_text
from safetensors.torch import load_file, save_file

from sase_hf.hub.push import check_publishable
from sase_hf.models.checkpoint import list_files

TOKEN = "hf_" + "aB3" * 11  # in parts, so that no scanner takes it for real


def drop_lines(path: Path, word: str) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(True)
    path.write_text("".join(line for line in lines if word not in line), encoding="utf-8")


ELSEWHERE = "else/where--modeling_self_attentive.SelfAttentiveModel"
OTHER_CODE = " in .*not what this version of sase_hf writes.*save_pretrained"
UNSAVED = "is not as it was saved"
UNFIT: dict[str, tuple[Callable[[Path], object], str]] = {
    "changed code": (
        lambda f: replace_text(f / "layers_self_attentive.py", "import torch", "import os"),
        rf"^layers_self_attentive\.py in .* {UNSAVED}",
    ),
    "path of a user": (
        lambda f: replace_text(f / "README.md", "license: mit", "license: mit # /home/ada/rows"),
        r"^README\.md in .* holds the path of a user",
    ),
    "listed code": (
        lambda f: (
            replace_text(f / "layers_self_attentive.py", "import torch", "import os"),
            list_files(f, ["layers_self_attentive.py"]),
        ),
        rf"^layers_self_attentive\.py{OTHER_CODE}",
    ),
    "listed file of code": (
        lambda f: ((f / "evil.py").write_text("import os\n"), list_files(f, ["evil.py"])),
        rf"^evil\.py{OTHER_CODE}",
    ),
    "code of another repository": (
        lambda f: change_json(f / "config.json", auto_map={"AutoModel": ELSEWHERE}),
        rf"^auto_map in config\.json{OTHER_CODE}",
    ),
    "pipeline of another repository": (
        lambda f: change_json(f / "config.json", custom_pipelines={"self-attention": {"impl": ""}}),
        rf"^custom_pipelines in config\.json{OTHER_CODE}",
    ),
    "tokenizer of another repository": (
        lambda f: change_json(f / "tokenizer_config.json", auto_map={"AutoTokenizer": ELSEWHERE}),
        rf"^auto_map in tokenizer_config\.json{OTHER_CODE}",
    ),
    "tokenizer that is not listed": (
        lambda f: drop_lines(f / "SHA256SUMS", "tokenizer"),
        "lists no tokenizer.* then the tokenizer",
    ),
    "file of another folder in the list": (
        lambda f: ((f.parent / "x").write_text("mine"), list_files(f, ["../x"])),
        r"^\.\./x in .* is a link to a file elsewhere",
    ),
    "no licence": (
        lambda f: replace_text(f / "README.md", "license: mit\n", ""),
        r"README\.md lacks license; .*--license",
    ),
    "card of other weights": (
        lambda f: change_weights(f, lambda w: w["classifier.output.bias"].add_(1)),
        r"README\.md lacks the SHA-256 .*write_model_card",
    ),
    "link to a file elsewhere": (
        lambda f: (f / "modules.json").symlink_to((f / "modules.json").rename(f.parent / "m")),
        r"^modules\.json in .* is a link to a file elsewhere; put a copy there",
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_unfit_checkpoint_is_refused(folder: Path, case: str) -> None:
    spoil, expected = UNFIT[case]
    spoil(folder)
    with pytest.raises((ValueError, OSError), match=expected):
        check_publishable(folder, {})


@pytest.mark.parametrize("name", ["README.md", "model.safetensors"])
def test_token_is_refused_and_not_repeated(folder: Path, name: str) -> None:
    """Error messages are kept in logs; of the weights the header is read."""
    if name == "README.md":
        replace_text(folder / name, "license: mit", f"license: mit # {TOKEN}")
    else:
        save_file(load_file(folder / name), folder / name, {"format": "pt", "note": TOKEN})
        list_files(folder, [name])
    with pytest.raises(ValueError, match=rf"^{name} in .* holds a Hugging Face token") as refused:
        check_publishable(folder, {})
    assert TOKEN not in str(refused.value)
