"""The example of a model card: what the saved model answers to a fixed text, and its heatmap."""

from functools import partial
from typing import Any, NamedTuple

from transformers import pipeline

from ..models import FAMILIES
from ..utils.loading import load_checkpoint
from ..visualization.picture import heatmap_svg

MAX_OUTPUT_LENGTH = 500


class Example(NamedTuple):
    """What a model answers to the text of its card, as Python prints it, and its heatmap as SVG.

    Each is empty where there is none: an encoder without a head gives no answer, a model without
    attention no heatmap.
    """

    output: str = ""
    heatmap: str = ""


def snippet_input(model_class: Any) -> str | dict[str, str]:
    """Return the text or pair that the examples of a card read, whatever the training texts."""
    if model_class.can_generate():
        return "A dog runs across a field."
    if model_class.reads_pairs:
        return {"text": "Two dogs run across a field.", "text_pair": "Animals are outdoors."}
    return "The room was small, but the breakfast was not bad at all."


def run_example(checkpoint: str) -> Example:
    """Let a saved model read its snippet; raises as `load_checkpoint` does."""
    model, tokenizer = load_checkpoint(checkpoint)
    if not model.is_head:
        return Example()
    read: Any = partial(pipeline, model=model, tokenizer=tokenizer)
    explain = FAMILIES[model.config.model_type].pipeline_task
    text, attends = snippet_input(type(model)), model.config.has_attention
    if model.can_generate():
        result = read(explain)(text, num_beams=12, max_new_tokens=50, max_length=None)
        answer: Any = [result["translation_text"]]
    else:
        result = read(explain)(text, truncation=True) if attends else None
        answer = read("text-classification")(text, truncation=True)
        for one in answer if isinstance(answer, list) else [answer]:
            one["score"] = significant(one["score"])
    return Example(repr(answer)[:MAX_OUTPUT_LENGTH], heatmap_svg(result) if attends else "")


def significant(number: float) -> float:
    """Return a number rounded to four significant digits."""
    return float(f"{number:.4g}")
