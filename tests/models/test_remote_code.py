"""Checkpoints as strangers load them: in a fresh process, offline, with and without the package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import answers
import pytest
import tiny
import torch
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    TokenizersBackend,
    pipeline,
)

from sase_hf import (
    SelfAttentiveConfig,
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    build_tokenizer,
)

CODE = {
    "configuration_self_attentive.py",
    "encoders_self_attentive.py",
    "modeling_self_attentive.py",
    "packing_self_attentive.py",
    "pooling_self_attentive.py",
    "pipeline_self_attentive.py",
    "relation_network_self_attentive.py",
}
# What a stranger runs who has a checkpoint of each encoder and not the package.
STRANGER = """
import json, sys
from pathlib import Path
sys.modules["sase_hf"] = None  # importing it now fails
import torch
from transformers import AutoModelForSequenceClassification
ids, logits = torch.tensor(json.loads(sys.argv[2])), {}
for folder in Path(sys.argv[1]).iterdir():
    model = AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=True)
    assert type(model).__module__.startswith("transformers_modules."), type(model)
    logits[folder.name] = model(ids).logits.tolist()
print(json.dumps(logits))
"""
NLI_LABELS = dict(enumerate(["entailment", "neutral", "contradiction"]))


def tiny_config(**changes: object) -> SelfAttentiveConfig:
    sizes = {
        "vocab_size": 40,
        "embedding_size": 8,
        "lstm_hidden_size": 6,
        "attention_size": 5,
        "num_hops": 3,
        "classifier_hidden_size": 7,
    }
    return SelfAttentiveConfig(**{**sizes, **changes})


@pytest.fixture(scope="module")
def tokenizer() -> TokenizersBackend:
    words = [*answers.TEXTS, *(text for pair in answers.PAIRS for text in pair.values())]
    return build_tokenizer(text for text in words if text)


@pytest.fixture(scope="module")
def models(tokenizer: TokenizersBackend) -> dict[str, torch.nn.Module]:
    """A base model, a classifier and an entailment model that share one encoder's sizes.

    And a classifier of another architecture, whose config holds a list.
    """
    torch.manual_seed(0)
    size = len(tokenizer)
    return {
        "base": SelfAttentiveModel(tiny_config(vocab_size=size)).eval(),
        "classifier": SelfAttentiveForSequenceClassification(
            tiny_config(vocab_size=size, id2label={0: "bad", 1: "fair", 2: "good"})
        ).eval(),
        "nli": SelfAttentiveForNLI(tiny_config(vocab_size=size, id2label=NLI_LABELS)).eval(),
        "cnn": SelfAttentiveForSequenceClassification(
            tiny_config(
                vocab_size=size, encoder="cnn", cnn_kernel_sizes=[2, 3], pooling="generalized"
            )
        ).eval(),
    }


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory,
    models: dict[str, torch.nn.Module],
    tokenizer: TokenizersBackend,
) -> Path:
    root = tmp_path_factory.mktemp("checkpoints")
    for name, model in models.items():
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return root


@pytest.fixture(scope="module")
def expected(
    folder: Path, models: dict[str, torch.nn.Module], tokenizer: TokenizersBackend
) -> dict[str, object]:
    """What the models said before they were saved, as JSON gives it back."""
    bases = {f"base of {name}": models[name].encoder for name in ("classifier", "nli")}
    pipes, encoders = answers.pipelines(folder), answers.sentence_transformers(folder)
    said = answers.answers({**models, **bases}, tokenizer, pipes, encoders)
    return json.loads(json.dumps(said))


def fresh_process(tmp_path: Path, *arguments: str) -> str:
    """Run an isolated interpreter with an empty cache and return what it printed."""
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-I", *arguments]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def answers_of_a_fresh_process(folder: Path, tmp_path: Path, *package: str) -> dict[str, object]:
    """Run `answers.py` in an isolated interpreter."""
    output = tmp_path / "answers.json"
    fresh_process(tmp_path, answers.__file__, str(folder), str(output), *package)
    return json.loads(output.read_text(encoding="utf-8"))


def assert_same_answers(said: dict[str, object], expected: dict[str, object]) -> None:
    assert said.keys() == expected.keys()
    different = [name for name in expected if said[name] != expected[name]]
    assert not different, f"other answers from: {different}"


@pytest.mark.slow
def test_checkpoints_answer_bit_equal_without_the_package(
    folder: Path, tmp_path: Path, expected: dict[str, object]
) -> None:
    """Base, heads, tokenizer, pipelines and encoders work by trust_remote_code alone, offline."""
    assert_same_answers(answers_of_a_fresh_process(folder, tmp_path), expected)


@pytest.mark.slow
def test_checkpoints_answer_bit_equal_with_the_package_and_no_flag(
    folder: Path, tmp_path: Path, expected: dict[str, object]
) -> None:
    """Importing the package registers everything, and no remote code is loaded."""
    assert_same_answers(answers_of_a_fresh_process(folder, tmp_path, "package"), expected)


@pytest.mark.slow
def test_every_encoder_answers_bit_equal_without_the_package(tmp_path: Path) -> None:
    """Each one's code lies beside its weights, with all that it imports."""
    ids, expected = [[1, 2, 3, 4], [5, 6, 7, 8]], {}
    for encoder in tiny.ENCODERS:
        name = tiny.name_of(encoder)
        model = tiny.tiny_model(SelfAttentiveForSequenceClassification, **encoder, num_labels=3)
        model.save_pretrained(tmp_path / "encoders" / name)
        expected[name] = model(torch.tensor(ids)).logits.tolist()
    arguments = ("-c", STRANGER, str(tmp_path / "encoders"), json.dumps(ids))
    assert_same_answers(json.loads(fresh_process(tmp_path, *arguments)), expected)


def test_every_checkpoint_carries_the_code_and_the_full_auto_map(folder: Path) -> None:
    """A head's checkpoint serves AutoModel as well, a base's can grow a head."""
    heads = {
        "base": "SelfAttentiveForSequenceClassification",
        "classifier": "SelfAttentiveForSequenceClassification",
        "nli": "SelfAttentiveForNLI",
        "cnn": "SelfAttentiveForSequenceClassification",
    }
    for name, head in heads.items():
        files = {path.name for path in (folder / name).iterdir()}
        assert files >= CODE | {"config.json", "model.safetensors", "tokenizer.json"}
        assert not [file for file in files if file.endswith((".bin", ".pt", ".pkl"))]
        config = json.loads((folder / name / "config.json").read_text(encoding="utf-8"))
        assert config["auto_map"] == {
            "AutoConfig": "configuration_self_attentive.SelfAttentiveConfig",
            "AutoModel": "modeling_self_attentive.SelfAttentiveModel",
            "AutoModelForSequenceClassification": f"modeling_self_attentive.{head}",
        }


def test_each_checkpoint_loads_as_the_head_it_was_saved_from(folder: Path) -> None:
    """Two heads share one Auto class; `architectures` decides."""
    classifier = AutoModelForSequenceClassification.from_pretrained(folder / "classifier")
    nli = AutoModelForSequenceClassification.from_pretrained(folder / "nli")
    assert type(classifier) is SelfAttentiveForSequenceClassification
    assert type(nli) is SelfAttentiveForNLI
    assert nli.config.id2label == NLI_LABELS


def test_a_base_checkpoint_grows_a_fresh_head(folder: Path, models: dict) -> None:
    """Fine-tuning starts from an encoder: its weights are kept, the head's are new."""
    head = AutoModelForSequenceClassification.from_pretrained(folder / "base", num_labels=4)
    assert type(head) is SelfAttentiveForSequenceClassification
    assert head.classifier.output.weight.isfinite().all()
    for name, tensor in models["base"].state_dict().items():
        assert torch.equal(tensor, head.encoder.state_dict()[name]), name


def test_an_empty_config_makes_a_classifier(tokenizer: TokenizersBackend) -> None:
    """`from_config` works on a config that was never saved and so names no architecture."""
    model = AutoModelForSequenceClassification.from_config(tiny_config())
    assert type(model) is SelfAttentiveForSequenceClassification
    assert type(AutoModel.from_config(tiny_config())) is SelfAttentiveModel


def test_saving_forgets_the_repository_a_config_came_from(tmp_path: Path) -> None:
    """Loading makes it `user/repo--module.Class`; a copy must use its own code."""
    config = tiny_config()
    config.auto_map = {"AutoModel": "someone/else--modeling_self_attentive.SelfAttentiveModel"}
    SelfAttentiveModel(config).save_pretrained(tmp_path)
    assert "--" not in (tmp_path / "config.json").read_text(encoding="utf-8")


def test_a_process_that_is_not_the_main_one_writes_nothing(tmp_path: Path) -> None:
    """Several processes save at once; only one may touch the folder's files."""
    SelfAttentiveModel(tiny_config()).save_pretrained(tmp_path / "none", is_main_process=False)
    assert not list((tmp_path / "none").glob("*"))


def test_loading_reads_nothing_that_a_config_names(folder: Path, tmp_path: Path) -> None:
    """Paths, URLs and trust flags in config.json have no effect on what is opened."""
    hostile = tmp_path / "hostile"
    bait = tmp_path / "bait.txt"
    bait.write_text("secret", encoding="utf-8")
    hostile.mkdir()
    for file in (folder / "classifier").iterdir():
        (hostile / file.name).write_bytes(file.read_bytes())
    config = json.loads((hostile / "config.json").read_text(encoding="utf-8"))
    config |= {
        "_name_or_path": str(bait),
        "auto_map": {"AutoModelForSequenceClassification": f"{tmp_path}--bait.Model"},
        "custom_pipelines": {"self-attention": {"impl": "bait.Pipeline", "pt": []}},
        "trust_remote_code": True,
        "word_vectors": str(bait),
        "weights_url": bait.as_uri(),
    }
    (hostile / "config.json").write_text(json.dumps(config), encoding="utf-8")
    opened: list[str] = []
    watching = True

    def watch(event: str, args: tuple[object, ...]) -> None:
        if watching and event == "open":
            opened.append(str(args[0]))

    sys.addaudithook(watch)
    AutoModelForSequenceClassification.from_pretrained(hostile)
    pipeline("self-attention", model=str(hostile))
    watching = False
    assert str(hostile / "config.json") in opened, "the premise: the hook sees files being opened"
    assert not [name for name in opened if Path(name).stem == "bait"]
