"""Ranking: each query of a batch learns to find its own document."""

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import PreTrainedConfig, PreTrainedModel, TokenizersBackend
from transformers.trainer_utils import EvalLoopOutput

from ..data.rows import Rows
from ..data.tokenizer import with_texts_apart
from ..models import FAMILIES, RETRIEVAL, unit_rows
from ..models.answers import REGRESSION
from ..retrieval.embed import ranking_metrics, ranks_of_own
from ..training.task import ModelAndTokenizer
from ..training.trainer import SelfAttentiveTrainer
from ..utils.loading import retrieval_head
from .encoder import EncoderTask


class RetrievalTrainer(SelfAttentiveTrainer):
    """`SelfAttentiveTrainer` that ranks all documents of an evaluation for each of its queries.

    The metrics are those of `ranking_metrics`. The loss of an evaluation is a mean over its batches
    and grows with their size.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.can_return_loss = True  # or the stock Trainer evaluates no loss without labels

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Compute the loss, which the model leaves out in evaluation unless it is asked for."""
        return super().compute_loss(model, {**inputs, "return_loss": True}, *args, **kwargs)

    def evaluation_loop(
        self,
        dataloader: DataLoader[Any],
        *args: Any,
        metric_key_prefix: str = "eval",
        **kwargs: Any,
    ) -> EvalLoopOutput:
        """Evaluate, and add recall and mean reciprocal rank."""
        kwargs["prediction_loss_only"] = False
        output = super().evaluation_loop(
            dataloader, *args, metric_key_prefix=metric_key_prefix, **kwargs
        )
        assert output.metrics is not None
        _, queries, documents = map(torch.from_numpy, output.predictions)
        config = self.model.config
        ranks = ranks_of_own(unit_rows(queries, config), unit_rows(documents, config))
        for name, value in ranking_metrics(ranks).items():
            output.metrics[f"{metric_key_prefix}_{name}"] = value
        return output


class RetrievalTask(EncoderTask):
    """Ranking of documents for queries, from pairs without labels."""

    names = (RETRIEVAL,)
    trainer = RetrievalTrainer

    def choose_head(self, rows: Rows, config: PreTrainedConfig | None) -> type[PreTrainedModel]:
        """Return the ranker; a checkpoint may be that of another head, or of a base model."""
        if config is not None:
            return retrieval_head(str(config.name_or_path), config)
        return FAMILIES["self_attentive"].heads[RETRIEVAL]

    def build(self, head: type[PreTrainedModel], rows: Rows) -> ModelAndTokenizer:
        """Return a new ranker; its only label is the score of a pair."""
        return self.new_model(head, rows, {"problem_type": REGRESSION, "id2label": {0: "score"}})

    def ready_tokenizer(self, source: str) -> TokenizersBackend:
        """Return a tokenizer that reads each text of a pair as `Embedder` reads it alone."""
        return with_texts_apart(super().ready_tokenizer(source))
