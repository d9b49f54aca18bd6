"""A run that learns to translate: its flags, its trainer and its steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import (
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)
from transformers.trainer_utils import EvalLoopOutput

from ..data.arguments import PairArguments, flag
from ..data.splits import TRANSLATION, load_pairs
from ..data.tokenizer import build_translation_tokenizer
from ..data.tokens import encode_pairs
from ..evaluation.metrics import bleu_signature, load_metrics
from ..models import FAMILIES
from ..utils.loading import load_config, reraise_as_value_error
from .arguments import ModelSource, RunArguments, model_arguments
from .run import Steps, log_lengths, log_model, log_pairs, run_steps, trainer_options
from .setup import (
    TrainingSetup,
    apply_changes,
    check_best_metric,
    hub_options,
    load_trained,
    new_tokenizer,
)
from .trainer import SelfAttentiveTrainer

FAMILY = next(family for family in FAMILIES.values() if family.objective == TRANSLATION)


@dataclass
class _TranslatorSource(ModelSource):
    subwords: bool = flag(
        "Build a tokenizer that cuts rare words into byte-pair-encoded parts.", default=False
    )


class TranslatorArguments(
    model_arguments("TranslatorArguments", _TranslatorSource, TRANSLATION)  # type: ignore[misc]
):
    """Which translation model to build, or which one to start from; see `ModelArguments`."""


@dataclass
class TranslationRunArguments(RunArguments, Seq2SeqTrainingArguments):
    """`Seq2SeqTrainingArguments` with the fields and defaults of `RunArguments`."""

    per_device_train_batch_size: int = flag("Pairs per process and step.", 80)
    predict_with_generate: bool = flag("Translate the rows of an evaluation.", default=True)
    generation_max_length: int | None = flag("Tokens after which a translation is cut.", 100)
    generation_num_beams: int | None = flag("Hypotheses of the beam search; 1 is greedy.", 1)
    # The steps of a recurrence are too small to gain from bfloat16 on a processor.
    bf16: bool | None = flag("Train in bfloat16.", default=False)  # type: ignore[assignment]
    # Flags of the tasks with labels.
    report: bool = field(default=False, init=False)
    calibrate: bool = field(default=False, init=False)
    adadelta: bool = flag(
        "Train with the optimizer of the paper, Adadelta with rho 0.95 and epsilon 1e-6; its "
        "learning_rate is 1.",
        default=False,
    )


class TranslationTrainer(SelfAttentiveTrainer, Seq2SeqTrainer):
    """`Seq2SeqTrainer` for translation, with all that `SelfAttentiveTrainer` adds.

    The loss of an evaluation is the mean over all its target words, without smoothing, and
    `nats_per_sentence` is what Table 2 of the paper reports.

    Args:
        model: As for `Trainer`.
        args: As for `Trainer`.
        references: The target texts of the rows, by the prefix of their metrics: eval, test.
        metrics: Modules that compare translated texts with them.
        max_batch_tokens: As for `SelfAttentiveTrainer`; of the source.
        **kwargs: As for `Trainer`.
    """

    def __init__(
        self,
        model: Any,
        args: TranslationRunArguments,
        *,
        references: Mapping[str, Sequence[str]],
        metrics: Sequence[evaluate.EvaluationModule] = (),
        max_batch_tokens: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(model, args, max_batch_tokens, **kwargs)
        self.references, self.metrics = references, metrics
        self.batches_sorted_together = 20  # as in the paper, appendix B.2

    @staticmethod
    def get_optimizer_cls_and_kwargs(args: Any, model: Any = None) -> tuple[Any, Any]:
        """Return the paper's Adadelta if it was asked for."""
        if getattr(args, "adadelta", False):
            options = {"lr": args.learning_rate, "rho": 0.95, "eps": 1e-6}
            return torch.optim.Adadelta, options
        return Seq2SeqTrainer.get_optimizer_cls_and_kwargs(args, model)

    def prediction_step(
        self,
        model: Any,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the loss of a batch, its translations (B, L) unless told not to, and None."""
        loss, words = None, None
        if inputs.get("labels") is not None:  # the collator gives None to rows without a target
            # By `compute_loss`, which that of Seq2SeqTrainer does not call.
            loss, _, _ = super().prediction_step(model, inputs, True, ignore_keys)
        if not prediction_loss_only:
            source = {name: inputs[name] for name in ("input_ids", "attention_mask")}
            source = self._prepare_inputs(source)
            words = self.model.generate(**source, **self._gen_kwargs)[:, 1:]
        return loss, words, None

    def evaluation_loop(
        self,
        dataloader: DataLoader[Any],
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Evaluate; add the loss over all words and what the metrics say of the translations."""
        generates = bool(getattr(self.args, "predict_with_generate", False))
        # Seq2SeqTrainer would keep the rows that fill up the last batch of several processes.
        self.gather_function = self.accelerator.gather_for_metrics
        output = super().evaluation_loop(
            dataloader, description, not generates, ignore_keys, metric_key_prefix
        )
        found: Any = output.metrics
        if (nll := found.get(f"{metric_key_prefix}_nll")) is not None:
            found[f"{metric_key_prefix}_loss"] = nll
            total = self._eval_sums[0].item()
            found[f"{metric_key_prefix}_nats_per_sentence"] = total / (output.num_samples or 1)
        references = self.references.get(metric_key_prefix)
        if generates and references is not None:
            texts = self.texts_of(output.predictions)
            order = self.evaluation_order(dataloader.dataset)
            if isinstance(order, list):
                references = [references[row] for row in order]
            for module in self.metrics:
                results = module.compute(predictions=texts, references=references)
                found |= {f"{metric_key_prefix}_{name}": float(x) for name, x in results.items()}
        return output

    def texts_of(self, predictions: Any) -> list[str]:
        """Return translations as texts, from ids (B, L) with -100 on padding."""
        tokenizer: Any = self.processing_class
        ids = np.where(predictions < 0, tokenizer.pad_token_id, predictions)
        return list(tokenizer.batch_decode(ids, skip_special_tokens=True))


def assemble(
    model_args: Any, data_args: PairArguments, checkpoint: Path | None = None
) -> TrainingSetup:
    """Load the pairs and build the model for them, or load that of a checkpoint.

    `checkpoint` is one to resume; it comes before the one that `model_args` names.

    Raises:
        ValueError: If an argument contradicts another one, the checkpoint or the data.
        OSError: If a file or the checkpoint is not there or cannot be read.
    """
    source = str(checkpoint) if checkpoint else model_args.model_name_or_path
    options = hub_options(model_args, data_args)
    task = load_pairs(data_args)
    head: Any = FAMILY.heads[TRANSLATION]
    tokenizer: Any
    if source is None:
        build = partial(build_translation_tokenizer, subwords=model_args.subwords)
        tokenizer = new_tokenizer(model_args, data_args, task, build)
        with reraise_as_value_error():
            config = head.config_class(
                vocab_size=len(tokenizer),
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=tokenizer.eos_token_id,
                decoder_start_token_id=tokenizer.pad_token_id,
                **model_args.given_config_fields(),
            )
        model = head(config)
    else:
        config = load_config(source, **options)
        if FAMILIES[config.model_type] is not FAMILY:
            raise ValueError(
                f"{source} holds a {config.model_type} model, which does not translate; train it "
                "with scripts/train.py"
            )
        apply_changes(config, model_args, is_resumed=checkpoint is not None)
        model, tokenizer = load_trained(head, source, config, data_args.max_seq_length, **options)
    rows = encode_pairs(task, tokenizer)
    return TrainingSetup(task, rows, tokenizer, model, [])


def log_summary(
    setup: TrainingSetup, model_args: Any, data_args: PairArguments, training_args: RunArguments
) -> None:
    """Log pairs, words and sizes before training."""
    log_pairs(setup)
    log_lengths(setup)
    log_model(setup, training_args)


def make_trainer(
    setup: TrainingSetup, training_args: TranslationRunArguments
) -> TranslationTrainer:
    """Return a trainer of the model, with the metrics that were asked for, by default BLEU."""
    check_best_metric(training_args, setup)
    splits = setup.task.splits
    references = {
        prefix: splits[name]["text_pair"][:]
        for prefix, name in (("eval", "validation"), ("test", "test"))
        if name in splits and "text_pair" in splits[name].column_names
    }
    setup.model.generation_config.max_length = training_args.generation_max_length
    return TranslationTrainer(
        setup.model,
        training_args,
        references=references,
        metrics=load_metrics(training_args.metric_name, TRANSLATION),
        data_collator=DataCollatorForSeq2Seq(setup.tokenizer),
        **trainer_options(setup, training_args),
    )


STEPS = Steps(
    assemble,
    log_summary,
    make_trainer,
    lambda trainer, _, words: [{"translation": text} for text in trainer.texts_of(words)],
    details=lambda *_: {"signatures": {"bleu": bleu_signature()}},
)
TRANSLATION_ARGUMENTS = (PairArguments, TranslatorArguments, TranslationRunArguments)

run_translation = partial(run_steps, STEPS)
