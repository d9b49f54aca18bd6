"""Queries: read from a file, translated, or drawn from the texts that they should find."""

import random
import re
from collections.abc import Iterator, Sequence

from ..data.rows import read_rows
from ..data.tokenizer import text_fault
from ..embedding.corpus import open_files
from ..evaluation.translation import translate
from ..models import FAMILIES
from ..utils.loading import load_checkpoint

END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")
MIN_SENTENCES, WORDS = 5, range(8, 41)


def read_queries(file: str, text_column_name: str) -> list[str]:
    """Return the texts of a column; raise ValueError if a row has none, or there is no column."""
    corpus = open_files([file], text_column_name, [])
    corpus.check_columns(text_column_name, [])
    table = corpus.read(0, corpus.num_rows, [text_column_name])
    return list(table[text_column_name].to_pylist())


def translate_queries(checkpoint: str, queries: Sequence[str]) -> list[str]:
    """Translate queries by a checkpoint of scripts/train_translation.py, with 5 beams."""
    model, tokenizer = load_checkpoint(checkpoint)
    if FAMILIES[model.config.model_type].objective != "translation" or not model.can_generate():
        raise ValueError(
            f"--translate_with {checkpoint} holds a {type(model).__name__}; name a checkpoint of "
            "scripts/train_translation.py"
        )
    return translate(model, tokenizer, queries, batch_size=64, num_beams=5)


def draw_pairs(
    file: str, text_column_name: str = "text", seed: int = 0
) -> Iterator[dict[str, str] | None]:
    """Yield a `query` and its `document` for each text of a file: a sentence, and the other ones.

    The sentence is drawn at random among those of 8 to 40 words. A text without such a sentence, or
    with fewer than five sentences, gives None. Raises ValueError if a row has no text.
    """
    rng = random.Random(seed)
    for number, row in enumerate(read_rows(file)):
        text = row.get(text_column_name)
        if fault := text_fault(text):
            raise ValueError(
                f"row {number} (counted from 0) of {file}, column {text_column_name!r}: {fault}; "
                "choose another with --text_column_name"
            )
        sentences = [part for part in END_OF_SENTENCE.split(str(text)) if part.strip()]
        fitting = [i for i, sentence in enumerate(sentences) if len(sentence.split()) in WORDS]
        if not fitting or len(sentences) < MIN_SENTENCES:
            yield None
        else:
            query = sentences.pop(rng.choice(fitting))
            yield {"query": query, "document": " ".join(sentences)}
