"""Load checkpoints in a fresh process and write down all their answers.

Run in a process of its own by `test_remote_code.py` and `test_loopback.py`:

    python -I answers.py FOLDER OUTPUT.json            # without sase_hf, by trust_remote_code
    python -I answers.py FOLDER OUTPUT.json package    # with sase_hf imported, without the flag

FOLDER holds the checkpoints `base`, `classifier`, `nli` and `cnn`, or is the owner of repositories
with these names on the Hub. Imported, `answers` gives the same answers for models in memory.
"""

import json
import sys
from pathlib import Path
from typing import Any

TEXTS = ["A quiet room, and good bread.", "not good", "", "the staff was never rude to us"]
PAIRS = [
    {"text": "the cook thanked the guest", "text_pair": "the guest thanked the cook"},
    {"text": "no one slept", "text_pair": "all slept well"},
    {"text": "", "text_pair": "good bread"},
]
LABELS = ["food", "sleep"]


def tensors(outputs: Any) -> dict[str, Any]:
    """Return a model output as nested lists, whose floats JSON keeps exactly."""
    return {
        name: [part.tolist() for part in value] if isinstance(value, tuple) else value.tolist()
        for name, value in outputs.items()
    }


def answers(
    models: dict[str, Any], tokenizer: Any, pipes: dict[str, Any], encoders: dict[str, Any]
) -> dict[str, Any]:
    """Ask every model, every pipeline and every SentenceTransformer, alone and in batches."""
    import torch

    texts = tokenizer(TEXTS, padding=True, return_tensors="pt")
    pairs = tokenizer(
        [pair["text"] for pair in PAIRS],
        [pair["text_pair"] for pair in PAIRS],
        padding=True,
        return_tensors="pt",
    )
    answered: dict[str, Any] = {}
    with torch.no_grad():
        for name, model in models.items():
            batch = pairs if name == "nli" else texts
            outputs = model(**batch, output_attentions=True, output_hidden_states=True)
            answered[f"model {name}"] = tensors(outputs)
    for batch_size in (1, 3):
        for name, pipe in pipes.items():
            if name == "zero-shot-classification":
                said = pipe(TEXTS[:2], candidate_labels=LABELS, batch_size=batch_size)
            else:
                said = pipe(PAIRS if name.startswith("nli") else TEXTS, batch_size=batch_size)
            answered[f"pipeline {name} x{batch_size}"] = said
        for name, encoder in encoders.items():
            said = encoder.encode(TEXTS, batch_size=batch_size, show_progress_bar=False)
            answered[f"SentenceTransformer {name} x{batch_size}"] = said.tolist()
    return answered


def pipelines(folder: Path, **flags: Any) -> dict[str, Any]:
    """Return every pipeline that the checkpoints in a folder serve."""
    from transformers import pipeline

    classifier, nli = str(folder / "classifier"), str(folder / "nli")
    return {
        "text-classification": pipeline("text-classification", classifier, top_k=None, **flags),
        "nli text-classification": pipeline("text-classification", nli, top_k=None, **flags),
        "feature-extraction": pipeline("feature-extraction", str(folder / "base"), **flags),
        "feature-extraction of a head": pipeline("feature-extraction", classifier, **flags),
        "zero-shot-classification": pipeline("zero-shot-classification", nli, **flags),
        "self-attention": pipeline("self-attention", classifier, **flags),
        "nli self-attention": pipeline("self-attention", nli, **flags),
    }


def sentence_transformers(folder: Path, **flags: Any) -> dict[str, Any]:
    """Return every checkpoint in a folder as a SentenceTransformer."""
    from sentence_transformers import SentenceTransformer

    return {
        name: SentenceTransformer(str(folder / name), device="cpu", **flags)
        for name in ("base", "classifier", "nli", "cnn")
    }


def load_and_answer(folder: Path, **flags: Any) -> dict[str, Any]:
    """Load everything in a folder by the Auto classes and ask it."""
    from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

    models = {
        "base": AutoModel.from_pretrained(folder / "base", **flags),
        "classifier": AutoModelForSequenceClassification.from_pretrained(
            folder / "classifier", **flags
        ),
        "nli": AutoModelForSequenceClassification.from_pretrained(folder / "nli", **flags),
        "cnn": AutoModelForSequenceClassification.from_pretrained(folder / "cnn", **flags),
        "base of classifier": AutoModel.from_pretrained(folder / "classifier", **flags),
        "base of nli": AutoModel.from_pretrained(folder / "nli", **flags),
    }
    tokenizer = AutoTokenizer.from_pretrained(folder / "classifier", **flags)
    pipes, encoders = pipelines(folder, **flags), sentence_transformers(folder, **flags)
    return answers(models, tokenizer, pipes, encoders)


def refuse_network(event: str, args: tuple[Any, ...]) -> None:
    """Audit hook: no connection leaves this machine; an attempt is noted on standard error."""
    host = {"socket.connect": lambda: args[1][0], "socket.getaddrinfo": lambda: args[0]}.get(event)
    if host is not None and host() not in ("127.0.0.1", "::1", "localhost", "0.0.0.0", None):
        sys.stderr.write(f"{event} {args}: must work offline\n")
        raise PermissionError(f"{event} {args}: this must work offline")


def main() -> None:
    """Answer for the folder given on the command line."""
    folder, output, *package = sys.argv[1:]
    sys.addaudithook(refuse_network)
    if package:
        sys.path.insert(0, str(Path(__file__).parents[2]))
        import sase_hf

        answered = load_and_answer(Path(folder))
        assert not any(name.startswith("transformers_modules") for name in sys.modules), sase_hf
    else:
        sys.modules["sase_hf"] = None  # type: ignore[assignment]  # importing it now fails
        answered = load_and_answer(Path(folder), trust_remote_code=True)
    Path(output).write_text(json.dumps(answered), encoding="utf-8")


if __name__ == "__main__":
    main()
