"""Translation: each pair of texts teaches the target, word by word."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import (
    DataCollatorForSeq2Seq,
    PreTrainedConfig,
    PreTrainedModel,
    Seq2SeqTrainer,
)
from transformers.trainer_utils import EvalLoopOutput

from ..data.rows import TRANSLATION, Rows
from ..data.tokenizer import build_translation_tokenizer
from ..evaluation.metrics import load_metrics, numbers_of
from ..models import FAMILIES
from ..training.settings import RunArguments
from ..training.task import ModelAndTokenizer, Predictions, Task, TrainingSetup, untrained_model
from ..training.trainer import SelfAttentiveTrainer
from ..utils.text import refusal

FAMILY = FAMILIES["rnnsearch"]


class TranslationTrainer(SelfAttentiveTrainer, Seq2SeqTrainer):
    """`Seq2SeqTrainer` for translation, with all that `SelfAttentiveTrainer` adds.

    The loss of an evaluation is the mean over all its target words, without smoothing.

    The arguments are those of `SelfAttentiveTrainer`, and:
    references: the target texts, by the prefix of their metrics, "eval" or "test".
    metrics: those of `load_metrics` that score translations against them.
    adadelta: whether to train with the optimizer of the paper.
    """

    batches_sorted_together = 20  # as in the paper, appendix B.2

    def __init__(
        self,
        model: PreTrainedModel,
        args: RunArguments,
        *,
        references: Mapping[str, Sequence[str]],
        metrics: Sequence[Any] = (),
        adadelta: bool = False,
        **kwargs: Any,
    ) -> None:
        assert model.generation_config is not None  # as `from_config` and `from_pretrained` give
        model.generation_config.max_length = args.generation_max_length
        super().__init__(model, args, **kwargs)
        self.needs_predictions = args.predict_with_generate
        self.references = references
        self.metrics = metrics
        if adadelta:
            options = {"lr": args.learning_rate, "rho": 0.95, "eps": 1e-6}
            self.optimizer_cls_and_kwargs = (torch.optim.Adadelta, options)

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Return the loss of a batch, its translations (B, L) unless told not to, and None."""
        loss = None
        translations = None
        if inputs.get("labels") is not None:  # the collator gives None to rows without a target
            # With True, Seq2SeqTrainer calls `compute_loss`; when it generates, it does not.
            loss, _, _ = super().prediction_step(model, inputs, True, *args, **kwargs)
        if not prediction_loss_only:
            source = {name: inputs[name] for name in ("input_ids", "attention_mask")}
            source = self._prepare_inputs(source)
            translations = self.model.generate(**source, **self._gen_kwargs)[:, 1:]
        return loss, translations, None

    def metrics_of(self, output: EvalLoopOutput, prefix: str) -> dict[str, float]:
        """Return the loss over all words, and the metrics of the translations."""
        measured: Any = output.metrics
        if f"{prefix}_nll" not in measured:  # of rows without targets
            return {}
        added: dict[str, float] = {"loss": measured[f"{prefix}_nll"]}
        if self.needs_predictions:
            texts = self.texts_of(output.predictions)
            for module in self.metrics:
                results = module.compute(predictions=texts, references=self.references[prefix])
                if results is not None:  # of one process of several
                    added.update(numbers_of(results))
        return added

    def texts_of(self, predictions: Predictions) -> list[str]:
        """Return translations as texts, from ids (B, L) with -100 on padding."""
        tokenizer: Any = self.processing_class
        ids = np.where(predictions < 0, tokenizer.pad_token_id, predictions)
        return list(tokenizer.batch_decode(ids, skip_special_tokens=True))


class TranslationTask(Task):
    """Translation of texts by RNNsearch, or by RNNencdec without attention."""

    names = (TRANSLATION,)
    trainer = TranslationTrainer

    def choose_head(self, rows: Rows, config: PreTrainedConfig | None) -> type[PreTrainedModel]:
        """Return the translation model; refuse a checkpoint of another family."""
        if config is not None and FAMILIES[config.model_type] is not FAMILY:
            raise refusal(f"a {config.model_type} does not translate", "give --task labels")
        return FAMILY.heads[TRANSLATION]

    def build(self, head: type[PreTrainedModel], rows: Rows) -> ModelAndTokenizer:
        """Return a new model and its tokenizer of both languages."""
        tokenizer = self.new_tokenizer(rows, build_translation_tokenizer)
        model = untrained_model(
            head,
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.pad_token_id,
            **self.settings.given(self.settings.config_fields),
        )
        return ModelAndTokenizer(model, tokenizer)

    def trainer_options(self, setup: TrainingSetup) -> dict[str, Any]:
        """Return the targets, and the metrics that were asked for, by default BLEU."""
        names = {"eval": "validation", "test": "test"}
        splits = setup.rows.splits
        references = {
            prefix: [*filter(str.strip, splits[name]["text_pair"])]
            for prefix, name in names.items()
            if "text_pair" in splits.column_names.get(name, ())
        }
        return {
            "adadelta": self.settings.adadelta,
            "references": references,
            "metrics": load_metrics(self.settings.metric_name, TRANSLATION),
            "data_collator": DataCollatorForSeq2Seq(setup.tokenizer),
        }

    def columns(
        self, trainer: Any, setup: TrainingSetup, predictions: Predictions
    ) -> list[dict[str, Any]]:
        """Return the translations."""
        return [{"translation": text} for text in trainer.texts_of(predictions)]
