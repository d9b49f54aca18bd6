"""Load checkpoints in a fresh process and write all their answers to a file.

Run in a process of its own by `test_published.py` and `test_loopback.py`:

    python -I answers.py FOLDER OUTPUT.json    # without sase_hf, by trust_remote_code

FOLDER holds the checkpoints `base`, `classifier`, `nli`, `retrieval`, `relation`, `linear`, or is
the owner of repositories with these names on the Hub.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

TEXTS = ["A quiet room, and good bread.", "not good", "", "the staff was never rude to us"]
PAIRS = [
    {"text": "the cook thanked the guest", "text_pair": "the guest thanked the cook"},
    {"text": "no one slept", "text_pair": "all slept well"},
    {"text": "", "text_pair": "good bread"},
]
LABELS = ["food", "sleep"]


def tensors(outputs: Any) -> dict[str, Any]:
    return {
        name: [part.tolist() for part in value] if isinstance(value, tuple) else value.tolist()
        for name, value in outputs.items()
    }


def answers_of_models(models: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    import torch

    firsts, seconds = ([pair[side] for pair in PAIRS] for side in ("text", "text_pair"))
    pairs = tokenizer(firsts, seconds, padding=True, return_tensors="pt")
    texts = tokenizer(TEXTS, padding=True, return_tensors="pt")
    answered = {}
    with torch.no_grad():
        for name, model in models.items():
            batch = pairs if name in ("nli", "retrieval") else texts
            outputs = model(**batch, output_attentions=True, output_hidden_states=True)
            answered[f"model {name}"] = tensors(outputs)
    return answered


def resaved(auto_class: Any, checkpoint: Path, flags: dict[str, Any]) -> Any:
    """Return the model of a checkpoint after another save, which must keep its code."""
    with TemporaryDirectory() as folder:
        auto_class.from_pretrained(checkpoint, **flags).save_pretrained(folder)
        assert {*map(os.path.basename, checkpoint.glob("*.py"))} <= {*os.listdir(folder)}
        return auto_class.from_pretrained(folder, **flags)


def load_and_answer(folder: Path, **flags: Any) -> dict[str, Any]:
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer, pipeline
    from transformers import AutoModelForSequenceClassification as AutoHead

    heads = ("classifier", "nli", "retrieval", "relation", "linear")
    models = {name: resaved(AutoHead, folder / name, flags) for name in heads}
    for name in ("base", "classifier", "nli"):
        key = name if name == "base" else f"base of {name}"
        models[key] = resaved(AutoModel, folder / name, flags)
    tokenizer = AutoTokenizer.from_pretrained(folder / "classifier", **flags)
    answered = answers_of_models(models, tokenizer)
    for name, task, options, inputs in (
        ("classifier", "text-classification", {"top_k": None}, TEXTS),
        ("nli", "text-classification", {"top_k": None}, PAIRS),
        ("base", "feature-extraction", {}, TEXTS),
        ("classifier", "feature-extraction", {}, TEXTS),
        ("nli", "zero-shot-classification", {"candidate_labels": LABELS}, TEXTS[:2]),
        ("classifier", "self-attention", {}, TEXTS),
        ("linear", "self-attention", {}, TEXTS),
        ("nli", "self-attention", {}, PAIRS),
        ("retrieval", "text-classification", {"top_k": None}, PAIRS),
        ("retrieval", "self-attention", {}, PAIRS),
    ):
        pipe = pipeline(task, folder / name, **flags)
        for batch_size in (1, 3):
            said = pipe(inputs, batch_size=batch_size, **options)
            answered[f"{task} of {name} x{batch_size}"] = said
    for name in ("base", *heads):
        trusts = flags | {"trust_remote_code": True} if name == "retrieval" else flags
        encoder = SentenceTransformer(str(folder / name), device="cpu", **trusts)
        said = encoder.encode(TEXTS, batch_size=3, show_progress_bar=False)
        answered[f"SentenceTransformer {name}"] = said.tolist()
    return answered


def refuse_network(event: str, args: tuple[Any, ...]) -> None:
    """Audit hook: refuse connections to other machines, and write each to standard error."""
    host = {"socket.connect": lambda: args[1][0], "socket.getaddrinfo": lambda: args[0]}.get(event)
    if host is not None and host() not in ("127.0.0.1", "::1", "localhost", "0.0.0.0", None):
        sys.stderr.write(f"{event} {args}: must work offline\n")
        raise PermissionError(f"{event} {args}: this must work offline")


def main() -> None:
    folder, output = sys.argv[1:]
    sys.addaudithook(refuse_network)
    sys.modules["sase_hf"] = None  # type: ignore[assignment]  # importing it now fails
    answered = load_and_answer(Path(folder), trust_remote_code=True)
    Path(output).write_text(json.dumps(answered), encoding="utf-8")


if __name__ == "__main__":
    main()
