"""Batches of similar lengths, in an order that a resumed run draws again."""

from collections.abc import Callable
from typing import Any

import numpy as np
from accelerate.utils import recursively_apply
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import Trainer
from transformers.trainer_utils import PredictionOutput

from ..data.batching import LengthGroupedOrder, longest_first, token_counts


class LengthGroupedTrainer(Trainer):
    """`Trainer` whose `group_by_length` depends on seed and epoch alone, in every process."""

    batches_sorted_together: int | None = None  # by default the number that transformers chooses

    def _groups(self, dataset: Any) -> bool:
        by_length = self.args.train_sampling_strategy == "group_by_length"
        return by_length and isinstance(dataset, Dataset)

    def _in_stored_order(self, build: Callable[..., Any], *dataset: Any) -> Any:
        """Build a loader that reads rows as they are stored, to which an order can be given."""
        strategy = self.args.train_sampling_strategy
        self.args.train_sampling_strategy = "sequential"
        try:
            return build(*dataset)
        finally:
            self.args.train_sampling_strategy = strategy

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the loader of the training rows."""
        if not self._groups(self.train_dataset):
            return super().get_train_dataloader()
        loader = self._in_stored_order(super().get_train_dataloader)
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        rows_per_update = self.args.train_batch_size * self.args.gradient_accumulation_steps
        counts, together = token_counts(self.train_dataset), self.batches_sorted_together
        loader.set_sampler(LengthGroupedOrder(counts, rows_per_update, seed, together))
        return loader

    def evaluation_order(self, dataset: Any) -> list[int] | None:
        """Return the order in which rows are evaluated; None for that of the dataset."""
        return longest_first(dataset) if self._groups(dataset) else None

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """Return the loader of rows to evaluate, in `evaluation_order`."""
        return self._in_evaluation_order(super().get_eval_dataloader, eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader[Any]:
        """Return the loader of rows to predict, in `evaluation_order`."""
        return self._in_evaluation_order(super().get_test_dataloader, test_dataset)

    def _in_evaluation_order(self, build: Callable[..., Any], dataset: Any) -> DataLoader[Any]:
        loader = self._in_stored_order(build, dataset)
        if (order := self.evaluation_order(loader.dataset)) is not None:
            loader.set_sampler(order)
        return loader

    def predict(self, test_dataset: Any, *args: Any, **kwargs: Any) -> PredictionOutput:
        """Predict, in the order of the rows even where batches are sorted by length."""
        output = super().predict(test_dataset, *args, **kwargs)
        if (order := self.evaluation_order(test_dataset)) is None:
            return output
        back, is_array = np.argsort(order), lambda value: isinstance(value, np.ndarray)
        rows = (output.predictions, output.label_ids)
        predictions, labels = recursively_apply(lambda part: part[back], rows, test_type=is_array)
        return PredictionOutput(predictions, labels, output.metrics)
