"""A checkpoint is one thing: a config or a tokenizer of other weights is refused, by every way in.

What other programs and legitimate changes write instead of the saved files is not.
"""

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from checkpoints import TEXTS, save_checkpoint
from isolated import run_isolated
from tiny import ON_BERT, tiny_model
from tiny_translation import save_translator
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, pipeline

from sase_hf import (
    SelfAttentiveConfig,
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    build_tokenizer,
    build_translation_tokenizer,
)
from sase_hf.models.checked_files import SavedParts, tokenizer_digest, write_checksums
from sase_hf.utils.loading import load_checkpoint, load_encoder, load_pipeline, load_ranker

OF_TOKENIZER = r"tokenizer\.json or tokenizer_config\.json in .* is not of the tokenizer that the"
WAY_OUT = r".*\. Restore .*; after a change on purpose, delete SHA256SUMS, then load"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint; the tests change copies of it."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_checkpoint(folder, lstm_hidden_size=4)
    return folder


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def config_with(**fields: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "config.json", lambda config: config.update(fields))


def tokenizer_with(**fields: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "tokenizer_config.json", lambda c: c.update(fields))


def vocabulary_by(
    edit: Callable[[dict[str, int]], Mapping[str, int]],
) -> Callable[[Path], None]:
    """Replace the vocabulary in tokenizer.json by what a function makes of it."""

    def act(folder: Path) -> None:
        change(
            folder / "tokenizer.json", lambda c: c["model"].update(vocab=edit(c["model"]["vocab"]))
        )

    return act


def shuffled(vocabulary: dict[str, int]) -> dict[str, int]:
    special, words = list(vocabulary)[:2], list(vocabulary)[2:]
    random.Random(0).shuffle(words)
    return {word: index for index, word in enumerate([*special, *words])}


def halved(vocabulary: dict[str, int]) -> dict[str, int]:
    return dict(list(vocabulary.items())[: len(vocabulary) // 2])


FOREIGN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "tokenizer of another model": (
        lambda f: build_tokenizer(["other words"]).backend_tokenizer.save(
            str(f / "tokenizer.json")
        ),
        OF_TOKENIZER,
    ),
    "words shuffled": (vocabulary_by(shuffled), OF_TOKENIZER),
    "words gone": (vocabulary_by(halved), OF_TOKENIZER),
    "another unknown word": (
        lambda f: change(f / "tokenizer.json", lambda c: c["model"].update(unk_token="good")),
        OF_TOKENIZER,
    ),
    "another normalizer": (
        lambda f: change(f / "tokenizer.json", lambda c: c["normalizer"]["normalizers"].pop()),
        OF_TOKENIZER,
    ),
    "unknown word of the settings": (tokenizer_with(unk_token="good"), OF_TOKENIZER),
    "special tokens read in texts": (tokenizer_with(split_special_tokens=False), OF_TOKENIZER),
    "file of an older tokenizer": (
        lambda f: (f / "special_tokens_map.json").write_text('{"unk_token": "good"}'),
        OF_TOKENIZER,
    ),
    "labels reversed": (
        config_with(id2label={"0": "good", "1": "bad"}, label2id={"good": 0, "bad": 1}),
        r"config\.json in .* has id2label=\{'0': 'good'.*; the weights were .* with \{'0': 'bad'",
    ),
    "normalize_states": (
        config_with(normalize_states=False),
        r"config\.json in .* has normalize_states=False; the weights were saved with True",
    ),
    "problem_type": (
        config_with(problem_type="multi_label_classification"),
        r"has problem_type='multi_label_classification'; .* with 'single_label_classification'",
    ),
    "field gone": (
        lambda f: change(f / "config.json", lambda c: (c.pop("id2label"), c.pop("label2id"))),
        r"has id2label=None; the weights were saved with \{'0': 'bad'",
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_part_is_refused_by_every_way_in(kind: str, copied: Path) -> None:
    """Its name, what came and the way out are in one line."""
    spoil, message = FOREIGN[kind]
    spoil(copied)
    ways: tuple[Callable[[str], Any], ...] = (
        load_checkpoint,
        load_encoder,
        load_pipeline,
        load_ranker,
        AutoModel.from_pretrained,
    )
    for load in ways:
        with pytest.raises(ValueError, match=message + WAY_OUT) as refused:
            load(str(copied))
        assert "\n" not in str(refused.value)
    # transformers puts the error into a longer one of its own.
    with pytest.raises(ValueError, match=message + WAY_OUT):
        pipeline("text-classification", model=str(copied))


@pytest.mark.slow
def test_foreign_part_is_refused_by_remote_code(copied: Path, tmp_path: Path) -> None:
    vocabulary_by(shuffled)(copied)
    (tmp_path / "load.py").write_text(
        "import sys\n"
        "from transformers import pipeline\n"
        "try:\n"
        "    pipeline('text-classification', model=sys.argv[1], trust_remote_code=True)\n"
        "except ValueError as error:\n"
        "    print('refused:', error)\n"
    )
    said = run_isolated([str(tmp_path / "load.py"), str(copied)], tmp_path)
    assert "is not of the tokenizer that the weights were saved with" in said


@pytest.mark.parametrize("load", [load_encoder, load_ranker, AutoModel.from_pretrained])
def test_architecture_of_another_head_is_refused(load: Callable[[str], Any], copied: Path) -> None:
    """A base model lacks no weight of it, but `pipeline` and a push would choose another head."""
    config_with(architectures=["SelfAttentiveForRetrieval"])(copied)
    with pytest.raises(ValueError, match=r"has architectures=\['SelfAttentiveForRetrieval'\]"):
        load(str(copied))


def test_foreign_part_of_a_translator_is_refused(tmp_path: Path) -> None:
    save_translator(tmp_path, TEXTS)
    load_checkpoint(str(tmp_path))
    change(tmp_path / "config.json", lambda config: config.update(decoder_start_token_id=3))
    with pytest.raises(
        ValueError, match=r"decoder_start_token_id=3; the weights were saved with 0"
    ):
        load_checkpoint(str(tmp_path))
    config_with(decoder_start_token_id=0)(tmp_path)
    vocabulary_by(shuffled)(tmp_path)
    with pytest.raises(ValueError, match=OF_TOKENIZER):
        load_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_act": "relu"}, r"has encoder_config\.hidden_act='relu'; .* with 'gelu'"),
        ({"num_hidden_layers": 1}, r"a model that reads encoder\..*layer\.1\."),
        ({"num_hidden_layers": 0}, r"a model that reads encoder\..*layer\.0\."),
        ({"dtype": "bfloat16", "transformers_version": "9", "some_new_default": None}, ""),
    ],
    ids=["activation", "fewer layers", "no layers", "of another transformers"],
)
def test_config_of_an_inner_encoder_is_compared(
    fields: dict[str, Any], message: str, tmp_path: Path
) -> None:
    save_checkpoint(tmp_path, **{**ON_BERT, "encoder_config": {**ON_BERT["encoder_config"]}})
    change(tmp_path / "config.json", lambda config: config["encoder_config"].update(fields))
    if not message:
        load_checkpoint(str(tmp_path))
        return
    with pytest.raises(ValueError, match=message):
        load_checkpoint(str(tmp_path))


LEGITIMATE: dict[str, Callable[[Path], Any]] = {
    "order and white space": lambda f: (f / "tokenizer.json").write_text(
        json.dumps(json.loads((f / "tokenizer.json").read_text()), indent=7, sort_keys=True)
    ),
    "truncation and padding": lambda f: change(
        f / "tokenizer.json",
        lambda c: c.update(
            truncation={"max_length": 5, "stride": 0, "strategy": "LongestFirst"}
            | {"direction": "Right"},
            padding={"strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": None}
            | {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
        ),
    ),
    "config of another transformers": config_with(
        dtype="bfloat16", transformers_version="5.99.0", a_new_default=3
    ),
    "field of training": config_with(classifier_dropout=0.1, penalty_coef=1.0),
    "longest text": tokenizer_with(model_max_length=50, padding_side="left"),
    "special token with its settings": tokenizer_with(
        unk_token={"__type": "AddedToken", "content": "[UNK]", "lstrip": False, "special": True}
    ),
    "config saved": lambda f: SelfAttentiveConfig.from_pretrained(f).save_pretrained(f),
    "tokenizer saved": lambda f: AutoTokenizer.from_pretrained(f).save_pretrained(f),
    "tokenizer gone": lambda f: (f / "tokenizer.json").unlink(),
}


@pytest.mark.parametrize("kind", LEGITIMATE)
def test_same_content_in_other_files_is_loaded(kind: str, copied: Path) -> None:
    LEGITIMATE[kind](copied)
    AutoModelForSequenceClassification.from_pretrained(copied)
    if kind != "tokenizer gone":
        load_checkpoint(str(copied))


def test_field_that_was_saved_by_its_default_is_compared(tmp_path: Path) -> None:
    """Some defaults are left out of config.json, such as no `problem_type`."""
    tiny_model(SelfAttentiveForSequenceClassification).save_pretrained(tmp_path)
    assert "problem_type" not in json.loads((tmp_path / "config.json").read_text())
    config_with(id2label={"0": "bad", "1": "good"}, label2id={"bad": 0, "good": 1})(tmp_path)
    SelfAttentiveForSequenceClassification.from_pretrained(tmp_path)
    config_with(problem_type="regression")(tmp_path)
    with pytest.raises(ValueError, match=r"problem_type='regression'; the weights .* with None"):
        SelfAttentiveForSequenceClassification.from_pretrained(tmp_path)


def test_changes_in_python_are_saved_and_loaded(copied: Path, tmp_path: Path) -> None:
    """New labels, more words, another classifier: no save is refused afterwards."""
    model, tokenizer = load_checkpoint(str(copied))
    model.config.id2label, model.config.label2id = {0: "no", 1: "yes"}, {"no": 0, "yes": 1}
    model.save_pretrained(tmp_path / "renamed")
    tokenizer.save_pretrained(tmp_path / "renamed")
    renamed, tokenizer = load_checkpoint(str(tmp_path / "renamed"))
    assert renamed.config.id2label == {0: "no", 1: "yes"}
    tokenizer.add_tokens(["unheard"])
    renamed.resize_token_embeddings(len(tokenizer))
    renamed.save_pretrained(tmp_path / "renamed")
    tokenizer.save_pretrained(tmp_path / "renamed")
    longer, tokenizer = load_checkpoint(str(tmp_path / "renamed"))
    assert longer.config.vocab_size == len(tokenizer)
    SelfAttentiveForNLI.from_pretrained(tmp_path / "renamed", ignore_mismatched_sizes=True)


def test_weights_keep_their_tokenizer_over_saves(copied: Path, tmp_path: Path) -> None:
    """A tokenizer that is saved beside them is compared with the first one; shards, too."""
    model, tokenizer = load_checkpoint(str(copied))
    model.save_pretrained(tmp_path / "again", max_shard_size="2KB")
    tokenizer.save_pretrained(tmp_path / "again")
    load_checkpoint(str(tmp_path / "again"))
    SelfAttentiveModel.from_pretrained(copied).save_pretrained(tmp_path / "base")
    for folder in (tmp_path / "again", tmp_path / "base"):
        build_tokenizer(["other words"]).save_pretrained(folder)
        with pytest.raises(ValueError, match=OF_TOKENIZER):
            load_checkpoint(str(folder))


def test_pipeline_refuses_the_tokenizer_of_another_folder(saved: Path, tmp_path: Path) -> None:
    """Unless its content is the same, as it is in the folder or as it is saved now."""
    build_tokenizer(["other words"]).save_pretrained(tmp_path / "other")
    message = r"the tokenizer of .*other is not the one that the weights of .*model were saved with"
    with pytest.raises(ValueError, match=message + "; leave it out, or give that of the model"):
        pipeline("self-attention", model=str(saved), tokenizer=str(tmp_path / "other"))
    AutoTokenizer.from_pretrained(saved).save_pretrained(tmp_path / "same")
    same = AutoTokenizer.from_pretrained(tmp_path / "same")
    pipeline("self-attention", model=str(saved), tokenizer=same)
    # Written by another version: other files, and the same tokens.
    (tmp_path / "same" / "added_tokens.json").write_text('{"[PAD]": 0}')
    pipeline("self-attention", model=str(saved), tokenizer=same)
    tokenizer_with(unk_token="good")(tmp_path / "same")
    with pytest.raises(ValueError, match=r"the tokenizer of .*same is not the one"):
        pipeline("self-attention", model=str(saved), tokenizer=str(tmp_path / "same"))


def test_pipeline_compares_no_tokenizer_without_a_folder(saved: Path) -> None:
    """Nor that of a model whose tokenizer is not known, such as a new one."""
    model, tokenizer = load_checkpoint(str(saved))
    pipeline("self-attention", model=model, tokenizer=build_tokenizer(["other words"]))
    new = type(model)(model.config)
    pipeline("self-attention", model=new, tokenizer=tokenizer)


def test_translation_pipeline_refuses_the_tokenizer_of_another_folder(tmp_path: Path) -> None:
    save_translator(tmp_path / "model", TEXTS)
    build_translation_tokenizer(["other words"]).save_pretrained(tmp_path / "other")
    task: Any = "aligned-translation"
    pipeline(task, model=str(tmp_path / "model"))
    with pytest.raises(ValueError, match=r"the tokenizer of .*other is not the one that the wei"):
        pipeline(task, model=str(tmp_path / "model"), tokenizer=str(tmp_path / "other"))


def test_new_word_vectors_let_go_of_the_tokenizer(copied: Path, tmp_path: Path) -> None:
    """Also of the same number of words, and also of the base model alone."""
    model, tokenizer = load_checkpoint(str(copied))
    model.base_model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(tmp_path / "new")
    assert SavedParts.read(tmp_path / "new" / "SHA256SUMS").tokenizer is None
    build_tokenizer(["other words"]).save_pretrained(tmp_path / "new")
    load_checkpoint(str(tmp_path / "new"))


def test_checkpoint_of_weights_alone_is_loaded(copied: Path) -> None:
    """As checkpoints of older versions are: nothing is compared that was not written."""
    write_checksums(copied)
    vocabulary_by(shuffled)(copied)
    config_with(normalize_states=False)(copied)
    load_checkpoint(str(copied))


def test_sha256sum_reads_the_file(copied: Path) -> None:
    if shutil.which("sha256sum") is None:
        pytest.skip("there is no sha256sum here")
    words = ["sha256sum", "--strict", "-c", "SHA256SUMS"]
    said = subprocess.run(words, cwd=copied, capture_output=True, text=True, check=True)
    assert said.stdout == "model.safetensors: OK\n"


def test_digest_is_of_the_tokens_of_a_text(copied: Path) -> None:
    """0 is a number, not a value that is left out; a merge is a list or one text."""
    digest = tokenizer_digest(copied)
    change(copied / "tokenizer.json", lambda c: c["model"]["vocab"].update({"[PAD]": 999}))
    assert tokenizer_digest(copied) != digest
    change(copied / "tokenizer.json", lambda c: c.update(version="1.1"))
    change(copied / "tokenizer.json", lambda c: c["model"]["vocab"].pop("[PAD]"))
    without = tokenizer_digest(copied)
    change(copied / "tokenizer.json", lambda c: c["model"]["vocab"].update({"[PAD]": 0}))
    assert tokenizer_digest(copied) == digest != without
    forms: tuple[Any, ...] = (["a b"], [["a", "b"]], [["b", "a"]])
    found = []
    for merges in forms:
        change(copied / "tokenizer.json", lambda c, merges=merges: c["model"].update(merges=merges))
        found.append(tokenizer_digest(copied))
    assert found[0] == found[1] != found[2]


def test_layers_that_an_own_encoder_does_not_count_are_refused(tmp_path: Path) -> None:
    """Also by a base model and by another head; a head's own parts may stay unread."""
    model = tiny_model(SelfAttentiveForSequenceClassification, num_lstm_layers=2)
    model.save_pretrained(tmp_path)
    write_checksums(tmp_path)
    SelfAttentiveModel.from_pretrained(tmp_path)
    change(
        tmp_path / "config.json",
        lambda c: (c.update(num_lstm_layers=1), c.pop("num_hidden_layers", 0)),
    )
    for head in (SelfAttentiveForSequenceClassification, SelfAttentiveModel, SelfAttentiveForNLI):
        with pytest.raises(ValueError, match=r"reads encoder\.token_encoder\.layers\.1\."):
            head.from_pretrained(tmp_path, ignore_mismatched_sizes=True)
