"""What is not fit to be public is refused, each time with a way out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from sase_hf import build_tokenizer
from sase_hf.hub.push import prepare
from sase_hf.models.checked_files import checksum_lines, write_checksums
from sase_hf.utils.loading import load_pipeline
from sase_hf.visualization import attention_svg

TOKEN = "hf_" + "aB3" * 11  # in parts, so that no scanner takes it for real


def change_json(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file; a mapping is added to the one that is there."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for name, value in fields.items():
        content[name] = {**content.get(name, {}), **value} if isinstance(value, dict) else value
    path.write_text(json.dumps(content), encoding="utf-8")


def replace_text(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


ELSEWHERE = "else/where--modeling_self_attentive.SelfAttentiveModel"
OTHER_CODE = " in .*not what this version of sase_hf writes.*save_pretrained"
UNFIT: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (shutil.rmtree, r"no model\.safetensors in"),
    "no card": (lambda f: (f / "README.md").unlink(), r"no .*README\.md; .*write_model_card"),
    "changed code": (
        lambda f: (f / "pooling_self_attentive.py").write_text("import os\n", encoding="utf-8"),
        rf"^pooling_self_attentive\.py{OTHER_CODE}",
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
    "no checksums": (lambda f: (f / "SHA256SUMS").unlink(), rf"^no SHA256SUMS{OTHER_CODE}"),
    "no licence": (
        lambda f: replace_text(f / "README.md", "license: mit\n", ""),
        r"README\.md lacks .* license: apache-2\.0; .*--license",
    ),
    "broken front matter": (
        lambda f: replace_text(f / "README.md", "license: mit", "license: [mit"),
        r"cannot read the front matter of .*README\.md",
    ),
    "card of other weights": (
        lambda f: replace_text(f / "README.md", (f / "SHA256SUMS").read_text()[:64], "0" * 64),
        r"README\.md lacks the SHA-256 .*write_model_card",
    ),
    "unnamed labels": (
        lambda f: (
            change_json(f / "config.json", id2label={"0": "LABEL_0"}, label2id=None),
            write_checksums(f),
        ),
        r"labels are called LABEL_0; .*--label_names.*id2label",
    ),
    "link to a file elsewhere": (
        lambda f: (f / "modules.json").symlink_to((f / "modules.json").rename(f.parent / "m")),
        r"^modules\.json in .* is a link to a file elsewhere; put a copy there",
    ),
    "licence in words": (
        lambda f: replace_text(f / "README.md", "license: mit", "license: Apache License 2.0"),
        r"'Apache License 2\.0'; .* apache-2\.0.*--license",
    ),
    "link to a licence": (
        lambda f: replace_text(f / "README.md", "license: mit", "license: https://a.b/LICENSE"),
        r"'https://a\.b/LICENSE'; .* ids",
    ),
    "tokenizer of another model": (
        lambda f: build_tokenizer([" ".join(f"w{i}" for i in range(5))]).save_pretrained(f),
        r"cannot load .*tokenizer\.json",
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_prepare_refuses_unfit_checkpoint(folder: Path, case: str) -> None:
    spoil, expected = UNFIT[case]
    spoil(folder)
    with pytest.raises((ValueError, OSError), match=expected):
        prepare(folder)


@pytest.mark.parametrize("licence", ["apache-2.0", "cc-by-nc-sa-4.0", "openrail++", "llama3.1"])
def test_prepare_takes_the_ids_of_licences_of_the_hub(folder: Path, licence: str) -> None:
    replace_text(folder / "README.md", "license: mit", f"license: {licence}")
    assert "README.md" in prepare(folder).files
    replace_text(folder / "README.md", f"license: {licence}", "license: My Own")
    assert "README.md" in prepare(folder, {"license": licence}).files, "what is given comes first"


def test_prepare_names_the_flag_that_holds_no_id_of_a_licence(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"--license is 'MIT'; .* mit"):
        prepare(folder, {"license": "MIT"})


ACTIVE = {
    "script": ("</svg>", "<script>alert(1)</script></svg>"),
    "foreignObject": ("</svg>", "<foreignObject/></svg>"),
    "onload": ("<svg ", '<svg onload="alert(1)" '),
    "style": ("<svg ", '<svg style="background: url(https://a.b/c.png)" '),
    "style,": ("<style>", "<style>@import 'https://a.b/c.css';"),
    "style, which": ("</style>", "<g/>@import 'https://a.b/c.css';</style>"),
    r"\{http://www\.w3\.org/1999/xlink\}href": (
        "<svg ",
        '<svg xmlns:l="http://www.w3.org/1999/xlink" l:href="https://a.b" ',
    ),
    r"url\(https://a\.b/c#d\)": ('"paper"', '"paper" transform="url(https://a.b/c#d)"'),
    "<!": ("<svg ", '<!DOCTYPE svg [<!ENTITY a "b">]><svg '),
    r"<\?": ("<svg ", '<?xml-stylesheet href="https://a.b/c.css"?><svg '),
}


@pytest.mark.parametrize("named", ACTIVE)
def test_prepare_refuses_a_picture_that_runs_or_loads_something(folder: Path, named: str) -> None:
    old, new = ACTIVE[named]
    path = folder / "heatmap.svg"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"heatmap\.svg holds .*{named}"):
        prepare(folder)


def test_prepare_names_a_picture_that_cannot_be_read(folder: Path) -> None:
    (folder / "heatmap.svg").write_text("<svg>", encoding="utf-8")
    with pytest.raises(ValueError, match=r"cannot read .*heatmap\.svg"):
        prepare(folder)


def test_prepare_takes_every_picture_that_is_drawn(folder: Path) -> None:
    """Whatever the words: they are text, also in a translation."""
    hostile = ["<script>", "onload=", "url(https://a.b)", "<?xml", "<!--", "\x01"]
    translation = {
        "text": " ".join(hostile),
        "source_tokens": hostile,
        "tokens": hostile,
        "alignment": [[1 / len(hostile)] * len(hostile) for _ in hostile],
        "translation_text": " ".join(hostile),
    }
    (folder / "heatmap.svg").write_text(attention_svg(translation), encoding="utf-8")
    assert "heatmap.svg" in prepare(folder).files
    explain: Any = load_pipeline(str(folder))
    (folder / "heatmap.svg").write_text(attention_svg(explain(" ".join(hostile))), encoding="utf-8")
    assert "heatmap.svg" in prepare(folder).files


@pytest.mark.parametrize("name", ["README.md", "config.json", "model.safetensors"])
def test_prepare_refuses_token_in_text_and_does_not_repeat_it(folder: Path, name: str) -> None:
    """Error messages are kept in logs; of the weights the header is read."""
    if name == "README.md":
        replace_text(folder / name, "license: mit", f"license: mit # {TOKEN}")
    elif name == "config.json":
        change_json(folder / name, note=TOKEN)
    else:
        save_file(load_file(folder / name), folder / name, {"format": "pt", "note": TOKEN})
        sums = checksum_lines(folder)
        write_checksums(folder)
        replace_text(folder / "README.md", sums, checksum_lines(folder))
    with pytest.raises(ValueError, match=rf"^{name} in .* holds a Hugging Face token") as refused:
        prepare(folder)
    assert TOKEN not in str(refused.value)
