"""The measurements of a study beside the accuracy of a trained model."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from explanations.agreement import measure_agreement
from explanations.attention import DISTRIBUTIONS, measure_attention, read_word_list
from explanations.dataset import EvaluationDataset, load_evaluation_dataset
from explanations.faithfulness import measure_faithfulness
from records import Record
from torch import Tensor

from sase_hf.data.arguments import DataArguments
from sase_hf.data.batching import token_counts
from sase_hf.data.rows import TRANSLATION, load_rows
from sase_hf.evaluation.linear_part import logits_of
from sase_hf.evaluation.metrics import load_metrics
from sase_hf.tasks import LabelTask, TranslationTask
from sase_hf.training.arguments import RunArguments
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.settings import Settings
from sase_hf.utils.loading import attention_pipeline, load_checkpoint, load_pipeline

# The text that a model translates for the figure, by the column that it reads.
EXAMPLES = {
    "en": "Because of the rain, an old man with a red umbrella waits for the bus near the market.",
    "fr": "À cause de la pluie, un vieil homme avec un parapluie rouge attend le bus au marché.",
}

# Sets of reviews -> the rows whose explanations are measured; 200 of sets of sentences.
NUM_EXPLAINED = {"yelp5": 60, "reviews": 60, "yelp_hat": 60}
MAX_EXPLAINED = 200

# Shares of the rows at which the groups of `accuracy_by_length` end: fifths, and the longest.
GROUP_ENDS = (0.2, 0.4, 0.6, 0.8, 0.95)

# Validation rows of sst2 that decoy.py and marks.py have written.
DECOY_ROWS = Path("data/decoy")
MARKED_SENTENCES = Path("data/marks/sst2.sst_words.dev.jsonl")

BIN_OF_WORDS = 5
JOINED = (2, 3, 4)  # neighbouring pairs that are joined to long ones
Pairs = Sequence[Sequence[str]]  # a source and a reference each


def measure_labels(words: Sequence[str], model: Path, word_list: Path | None) -> Record:
    """Measure attention and accuracy by length on the validation rows of a recipe.

    `words` are the command line of scripts/train.py that trained the model in the folder `model`.
    A model of characters has no `lift`, which needs a word list.
    """
    task = parse_arguments(LabelTask, words)
    rows = {entry.name: getattr(task.settings, entry.name) for entry in fields(DataArguments)}
    rows["test_file"] = None
    if task.settings.validation_file is not None:
        rows["train_file"] = None  # spares tokenizing it
    measuring = RunArguments(output_dir=str(model), use_cpu=task.args.use_cpu)
    parts = LabelTask(Settings(**rows, model_name_or_path=str(model)), measuring).assemble()
    if "validation" not in parts.tokens:
        return {}
    rows = parts.tokens["validation"]
    trained_model: Any = parts.model
    sample = EvaluationDataset(trained_model.eval(), parts.tokenizer, rows, parts.rows.sources)
    batch_size = task.args.per_device_eval_batch_size
    measured: dict[str, Any] = {}
    if parts.model.config.has_attention:
        reads_words = task.settings.level not in ("subword", "character")
        listed = read_word_list(word_list) if word_list is not None and reads_words else {}
        statistics = measure_attention(sample, batch_size, listed)
        kinds = (kind for kind in (*DISTRIBUTIONS, "lift") if kind in statistics)
        measured["attention"] = {kind: statistics[kind]["mean"] for kind in kinds}
    if parts.rows.answers.has_one_label:
        predicted = torch.zeros(len(rows), dtype=torch.long)
        with torch.no_grad():
            for numbers, batch in sample.batches(batch_size, "Scoring"):
                predicted[numbers] = sample.model(**batch).logits.argmax(1).cpu()
        correct = predicted == torch.tensor(rows["labels"][:])
        measured["by_length"] = accuracy_by_length(correct, torch.tensor(token_counts(rows)))
    return measured


def measure_explanation(words: Sequence[str], model: Path, word_list: Path | None) -> Record:
    """Measure faithfulness on validation rows of a recipe, and agreement on the files of marks.py.

    The seed of the recipe draws the rows. Texts are cut after `MAX_EXPLAINED` tokens: leaving out
    each word takes a pass for each.
    """
    task = parse_arguments(LabelTask, words)
    validation = Path(task.settings.validation_file or "")
    seed = task.args.seed
    name = validation.name.partition(".")[0]
    load = partial(load_evaluation_dataset, str(model), max_tokens=MAX_EXPLAINED, seed=seed)
    is_marked = validation.parent.name == "marks"  # the validation rows themselves
    folder = validation.parent if is_marked else validation.parent / "marks"
    if not folder.is_dir():
        raise FileNotFoundError("there is no folder data/marks; write it with scripts/lab/marks.py")
    rows = load(str(validation), max_samples=NUM_EXPLAINED.get(name, 200))
    found = measure_faithfulness(rows, seed=seed)
    measured: dict[str, Any] = {"faithfulness": {key: found[key] for key in ("metrics", "cost")}}
    ratings = read_word_list(word_list) if word_list is not None else None
    for file in sorted(folder.glob(f"{name}.*.dev.jsonl")):
        marks = file.name.split(".")[1]
        rows = load(str(file), max_samples=NUM_EXPLAINED.get(marks, 200), with_marks=True)
        agreed = measure_agreement(rows, ratings, seed=seed)
        del agreed["intervals"]
        measured.setdefault("agreement", {})[marks] = agreed
    return measured


def measure_reasons(words: Sequence[str], model: Path, _: Path | None) -> Record:
    """Measure accuracy on the validation rows of decoy.py, and the attention on marks of marks.py.

    The rows are sentences without the decoy, `clean`, and with it the other way round, `flipped`.
    """
    seed = parse_arguments(LabelTask, words).args.seed
    measured: dict[str, Any] = {}
    for name in ("clean", "flipped"):
        rows = load_evaluation_dataset(str(model), str(DECOY_ROWS / f"sst2.{name}.dev.jsonl"))
        predicted = logits_of(rows.model, rows.rows).argmax(-1)
        labels = torch.tensor(rows.rows["labels"][:])
        measured[name] = {"accuracy": (predicted == labels).double().mean().item()}
    marked = load_evaluation_dataset(
        str(model), str(MARKED_SENTENCES), max_samples=200, seed=seed, with_marks=True
    )
    agreed = measure_agreement(marked, seed=seed)
    measured["attention"] = agreed["metrics"]["attention_average_precision"]
    return {"reasons": measured}


def accuracy_by_length(correct: Tensor, lengths: Tensor) -> list[dict[str, float | int]]:
    """Return the accuracy of groups of rows, the shortest first, with their lengths and numbers.

    A group ends at a share `GROUP_ENDS` of the rows; rows of one length are in one group. `correct`
    and `lengths`, in tokens, have shape (B,).
    """
    last_row = len(lengths) - 1
    last_of_groups = [int(share * last_row) for share in GROUP_ENDS]
    ends = lengths.sort().values[last_of_groups]
    group_of_row = torch.bucketize(lengths, ends)
    groups: list[dict[str, float | int]] = []
    for group in torch.unique(group_of_row):
        is_member = group_of_row == group
        group_lengths = lengths[is_member]
        groups.append(
            {
                "from": group_lengths.min().item(),
                "to": group_lengths.max().item(),
                "tokens": group_lengths.double().mean().item(),
                "rows": len(group_lengths),
                "accuracy": correct[is_member].double().mean().item(),
            }
        )
    return groups


def measure_translation(words: Sequence[str], model: Path, _: Path | None) -> Record:
    """Measure a trained model, in two beams, on the validation pairs of its recipe."""
    task = parse_arguments(TranslationTask, words)
    read = load_rows(replace(task.settings.pairs, train_file=None))
    rows = read.splits["validation"]
    translator, tokenizer = load_checkpoint(str(model))
    pairs = list(zip(rows["text"][:], rows["text_pair"][:], strict=True))
    batch_size = task.args.per_device_eval_batch_size
    options: Any = {"batch_size": batch_size, "num_beams": (1, 12)}
    measured = measure_pairs(translator, tokenizer, pairs, **options)
    if translator.config.has_attention:
        example = EXAMPLES[read.text_columns[0]]
        measured["example"] = load_pipeline(str(model))(example, num_beams=12)
    return {"translation": measured}


def measure_pairs(
    model: Any, tokenizer: Any, pairs: Pairs, *, batch_size: int, num_beams: Sequence[int]
) -> dict[str, Any]:
    """Measure a translation model as Table 1 and Figure 2 of the paper do.

    Returns:
        `bleu` by the number of beams; `bleu_no_unk`, the same for the `pairs_no_unk` pairs without
        unknown words, translated without unknown words; `by_length`, for sources of 1 to 5, 6 to 10
        ... words the BLEU of sentences and of joined neighbouring sentences with the last number of
        beams; and with attention `alignment`, as `alignment_statistics` returns it.
    """

    def write(pairs: Pairs, beams: int, **options: Any) -> list[str]:
        options |= {"batch_size": batch_size, "num_beams": beams}
        translate = attention_pipeline(model, tokenizer)
        results = translate([source for source, _ in pairs], **options)
        return [result["translation_text"] for result in results]

    unknown = tokenizer.unk_token_id
    known = [p for p in pairs if not any(unknown in tokenizer(text).input_ids for text in p)]
    joined = [
        tuple(map(" ".join, zip(*pairs[start : start + count], strict=True)))
        for count in JOINED
        for start in range(0, len(pairs) - count + 1, count)
    ]
    measured: dict[str, Any] = {"bleu": {}, "bleu_no_unk": {}, "pairs_no_unk": len(known)}
    for beams in num_beams:
        texts = write(pairs, beams)
        measured["bleu"][str(beams)] = bleu(texts, pairs)
    for beams in num_beams if known else ():
        only = write(known, beams, suppress_tokens=[unknown])
        measured["bleu_no_unk"][str(beams)] = bleu(only, known)
    texts += write(joined, num_beams[-1])
    measured["by_length"] = bleu_by_length([*pairs, *joined], texts, len(pairs))
    if model.config.has_attention:
        measured["alignment"] = alignment_statistics(model, tokenizer, pairs)
    return measured


def bleu(translated: Sequence[str], pairs: Pairs) -> float:
    """Return the BLEU of a corpus, from 0 to 100."""
    (metric,) = load_metrics(None, TRANSLATION)
    references = [reference for _, reference in pairs]
    return float(metric.compute(predictions=translated, references=references)["bleu"])


def bleu_by_length(pairs: Pairs, texts: Sequence[str], num_pairs: int) -> list[dict[str, Any]]:
    """Return the BLEU of translations in bins by the words of the source.

    The pairs after the first `num_pairs` are joined ones.
    """
    bins: dict[int, list[int]] = {}
    for number, (source, _) in enumerate(pairs):
        bins.setdefault((len(source.split()) - 1) // BIN_OF_WORDS, []).append(number)
    return [
        {
            "words": [place * BIN_OF_WORDS + 1, (place + 1) * BIN_OF_WORDS],
            "pairs": len(numbers),
            "joined": sum(number >= num_pairs for number in numbers),
            "bleu": bleu([texts[n] for n in numbers], [pairs[n] for n in numbers]),
        }
        for place, numbers in sorted(bins.items())
    ]


@torch.no_grad()
def alignment_statistics(model: Any, tokenizer: Any, pairs: Pairs) -> dict[str, float]:
    """Describe the alignment of references to their sources.

    Returns:
        `entropy`: the mean over target words of the entropy of alpha, over that of an even alpha.
        `monotonic`: the share of the steps from one target word to the next at which the strongest
        source word does not move back.
    """
    entropies, steps = [], []
    for source, reference in pairs:
        batch = tokenizer([source], text_target=[reference], return_tensors="pt").to(model.device)
        alpha = model(**batch, output_attentions=True).cross_attentions[0][0, 0]  # (L, T)
        if (tokens := alpha.shape[1]) > 1:
            entropies.append(torch.special.entr(alpha).sum(-1) / math.log(tokens))
        steps.append(alpha.argmax(-1).diff() >= 0)
    return {
        "entropy": torch.cat(entropies).mean().item(),
        "monotonic": torch.cat(steps).float().mean().item(),
    }
