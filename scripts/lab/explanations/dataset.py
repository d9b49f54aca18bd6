"""A checkpoint with the rows of a file to measure it on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset, concatenate_datasets
from torch import Tensor
from transformers import DataCollatorWithPadding, PreTrainedModel, TokenizersBackend
from transformers.utils import logging

from sase_hf.data.batching import encode_rows, longest_first, rows_for_model
from sase_hf.utils.loading import load_checkpoint

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class EvaluationDataset:
    """A head with attention in evaluation mode, and rows of one split that its tokenizer encoded.

    The rows have columns `input_ids`, for pairs `token_type_ids`, and where they are known
    `labels`; rows with marks have the columns of `Rows`, too. `sources` is as in `Rows`.
    """

    model: PreTrainedModel
    tokenizer: TokenizersBackend
    rows: Dataset
    sources: dict[str, dict[str, Any]]

    def batches(self, batch_size: int, description: str) -> Iterator[tuple[list[int], Batch]]:
        """Yield the numbers of rows and their padded batch (B, T), the longest rows first."""
        order = longest_first(self.rows)
        collate, device = DataCollatorWithPadding(self.tokenizer), self.model.device
        read = set(self.tokenizer.model_input_names) & set(self.rows.column_names)
        inputs = self.rows.select_columns(sorted(read))
        with logging.tqdm(total=len(order), desc=description, unit=" rows") as bar:
            for start in range(0, len(order), batch_size):
                numbers = order[start : start + batch_size]
                padded = collate(inputs.select(numbers).to_list())
                # A batch of empty texts comes back as floats.
                batch = {name: part.long().to(device) for name, part in padded.items()}
                yield numbers, batch
                bar.update(len(numbers))


def draw_rows(rows: Dataset, max_samples: int | None, seed: int) -> Dataset:
    """Return the rows in random order, at most `max_samples` of them."""
    order = np.random.default_rng(seed).permutation(rows.num_rows)
    return rows.select(order[:max_samples])


def load_evaluation_dataset(
    checkpoint: str,
    file: str,
    *,
    split: str = "validation",
    max_tokens: int | None = None,
    max_samples: int | None = None,
    seed: int = 42,
    with_marks: bool = False,
    **columns: Any,
) -> EvaluationDataset:
    """Load a head with attention and `max_samples` rows of a file, drawn at random.

    Records name the rows by `split`. Of a text the first `max_tokens` tokens are read, at
    most those that the model reads. The `columns` are those of `rows_for_model`. Only rows that
    have marks come `with_marks`; ValueError if the file has no such column, or the model reads
    pairs.
    """
    model, tokenizer = load_checkpoint(checkpoint, must_attend=True)
    if model.can_generate():
        raise ValueError(f"{checkpoint} translates; scripts/visualize.py draws its alignment")
    of_file = rows_for_model(checkpoint, model, file, with_marks=with_marks, **columns)
    rows = encode_rows(of_file, tokenizer, max_tokens or model.config.max_tokens)["test"]
    if with_marks:
        if len(of_file.text_columns) == 2:
            raise ValueError(f"{checkpoint} compares two texts; marks need a classifier of one")
        rows = concatenate_datasets([rows, of_file.splits["test"]], axis=1)
        if of_file.test_table is not None and "against" in of_file.test_table.column_names:
            rows = rows.add_column("against", of_file.test_table["against"][:])
        rows = rows.select([row for row, spans in enumerate(rows["spans"]) if spans])
    rows = draw_rows(rows, max_samples, seed)
    source = {**of_file.sources["test"], "rows": rows.num_rows}
    return EvaluationDataset(model, tokenizer, rows, {split: source})
