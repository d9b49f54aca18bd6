"""The `self-attention` pipeline: text in; label, scores, attention and reasons out."""

import unicodedata
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import torch
from torch import Tensor
from transformers import Pipeline

from .answers import answers_of
from .checkpoint import encode_read
from .explanation_self_attentive import check_explainable, explain

Result = dict[str, Any]  # of one input: its fields are listed at `SelfAttentionPipeline`

TASK = "self-attention"
PAIR_FIELDS = ("text", "text_pair")  # of an input
RIVAL_SIGN = ">"  # between the two labels of a target


class SelfAttentionPipeline(Pipeline):
    """Classify texts or pairs of texts and show why, and the attention behind it.

    Takes a text, a pair as `{"text": ..., "text_pair": ...}`, or several of them in any form that
    pipelines of transformers take (with `batch_size` in batches). Each result is a plain dict:

    - `text`: the input;
    - `kind`: what the model answers: "single_label_classification", "multi_label_classification"
      or "regression";
    - `label`, `score`: the best label and its probability, or the first number and its value;
    - `scores`: label -> probability, or value;
    - `labels`, only with several labels per text: those with a probability above 0.5, maybe none;
    - `answer_set`, only with `config.answer_threshold`: the labels that may be right, best first;
    - `familiarity`, `nearest`, `unknown`, only if the model has `neighbours`: how many of 1
      held-out rows are as far from the training rows as the text is; the `label` and `distance` of
      three training rows that are nearest, and their `text` if the checkpoint keeps it; the share
      of tokens that the tokenizer does not know;
    - `target`: the label that is explained, by default the best one; `target=` names another, or
      with "A>B" the difference of the logits of A and B, which is not centred;
    - `logit`: the logit of the target. Where a text has one label, it is taken minus the mean over
      all labels; of two labels that is half of the log-odds;
    - `word_contributions`: what each token added to this logit, T floats, with a sign: below zero,
      the token spoke against the target;
    - `contributions`: what each hop added where it looked, r lists of T floats; with a linear part
      on a pretrained encoder one more, what the mean of the states added through each state;
    - `linear_contributions`, only with a linear part: what each token added by itself, T floats,
      which `word_contributions` count in; half of what a pair of neighbours added is of each. With
      `contributions`, as `word_contributions` with `rest`, they sum to the logit minus that of a
      text without tokens;
    - `rest`: what the hops added beyond the tokens: nothing but rounding, unless the encoder is a
      pretrained one or a relation network;
    - `tokens`, `offsets`: the T tokens as they stand in the text, and their (start, end) in it;
      an added token, such as `[CLS]`, has its name and an empty span;
    - `attention`: A, r lists of T floats;
    - `overall`: the hops summed and renormalised to 1, T floats (section 2.3 of the paper);
    - `truncated`: how many tokens are beyond the limit of the model and were not read.

    For a pair, `text` and all fields from `word_contributions` on hold a list of two, one for each
    sentence. A ranker has no labels, so its results have no contributions.

    Autocast is off inside: the model reads in the precision of its weights.

    Of a text the model reads the first `config.max_tokens` tokens, of a pair those of each; the
    first longer text is logged as a warning. `match_rows=True` is for a retrieval head, whose
    `forward` describes it.

    Raises:
        ValueError: If a target is no label, or an input is not what the model reads: a text, or a
            pair.
    """

    tokenizer: Any

    def _sanitize_parameters(  # type: ignore[override]  # others are refused
        self, target: str | None = None, match_rows: bool = False
    ) -> tuple[dict[str, object], ...]:
        options: dict[str, object] = {"match_rows": True} if match_rows else {}
        if target is not None:
            check_explainable(self.model)
            options["targets"] = _target_ids(target, answers_of(self.model.config).names)
        return {}, options, {}

    def preprocess(self, input_: object, **_: object) -> dict[str, Any]:
        """Tokenize one text or pair, keeping the offsets."""
        texts = _texts_of(input_, self.model)
        encoded, truncated = encode_read(
            self.model, self.tokenizer, texts, return_offsets_mapping=True
        )
        shown = {
            "texts": texts,
            "offsets": encoded["offset_mapping"],
            "names": self.tokenizer.convert_ids_to_tokens(encoded["input_ids"]),
            "truncated": truncated,
        }
        # A batch padded on the left cannot take in a row without tokens: give it one of padding.
        padding = [] if encoded["input_ids"] else [0]
        inputs = ("input_ids", "attention_mask", "token_type_ids")
        return {**shown, **{name: torch.tensor([encoded[name] + padding]) for name in inputs}}

    def _forward(self, input_tensors: dict[str, Any], **options: Any) -> Any:
        shown = {
            name: input_tensors.pop(name) for name in ("texts", "offsets", "names", "truncated")
        }
        targets = options.pop("targets", ())
        neighbours = getattr(self.model, "neighbours", None)
        # In the precision of the weights, which `explain` reads as float32.
        with torch.autocast(self.device.type, enabled=False):
            outputs = self.model(
                **input_tensors, output_attentions=True, return_dict=True, **options
            )
        if hasattr(self.model, "neighbours"):
            best = answers_of(self.model.config).best(outputs.logits)
            ids = [torch.full_like(best, label) for label in targets] or [best]
            asked = dict(zip(("labels", "rivals"), ids, strict=False))
            # In a pass of its own, in float32; the result has the precision of the weights.
            shown |= asked | explain(self.model, **input_tensors, **asked)._asdict()
        if neighbours is not None:
            shown["distances"] = neighbours.distances(outputs.sentence_embedding)
        read = {"logits": outputs.logits, "attention": outputs.attentions[0]}
        return {**shown, **input_tensors, **read}

    def postprocess(self, model_outputs: Any, **_: object) -> Result:
        """Turn the tensors of one input into the result described above."""
        answers = answers_of(self.model.config)
        result = answers.result(answers.scores(model_outputs["logits"][0].float()).tolist())
        if "labels" in model_outputs:
            explained = [model_outputs[x] for x in ("labels", "rivals") if x in model_outputs]
            result["target"] = RIVAL_SIGN.join(answers.names[ids[0].item()] for ids in explained)
            result["logit"] = model_outputs["logit"].item()
        if "distances" in model_outputs:
            neighbours: Any = self.model.neighbours
            result |= neighbours.fields(model_outputs, answers, self.tokenizer.unk_token_id)
        num_texts = len(model_outputs["texts"])
        readings = [self._reading_of_side(side, model_outputs) for side in range(num_texts)]
        for name in readings[0]:
            values = [reading[name] for reading in readings]
            result[name] = values if num_texts == 2 else values[0]
        return result

    def _reading_of_side(self, side: int, model_outputs: Mapping[str, Any]) -> Result:
        """Return the fields of a result for a text, or for one side of a pair: 0 or 1."""
        real = model_outputs["attention_mask"][0].bool()
        is_own = model_outputs["token_type_ids"][0][real] == side

        def own(name: str) -> Tensor:
            """Return what the tokens of this side have, (..., T); of a pair from (2, r, T)."""
            values = model_outputs[name][0]
            if values.ndim == 3:
                values = values[side]
            return values[..., real][..., is_own]

        text = model_outputs["texts"][side]
        names = compress(model_outputs["names"], is_own)
        offsets = with_whole_characters(text, list(compress(model_outputs["offsets"], is_own)))
        attention = own("attention").float()
        total = attention.sum(0)
        overall = total / total.sum().clamp(min=torch.finfo(total.dtype).tiny)
        reading: Result = {"text": text}
        if "words" in model_outputs:
            reading["word_contributions"] = own("words").tolist()
            reading["contributions"] = own("contributions").tolist()
            reading["rest"] = model_outputs["rest"][0].view(-1)[side].item()
            if self.model.linear_part is not None:
                reading["linear_contributions"] = own("linear").tolist()
        return {
            **reading,
            "tokens": [
                text[start:end] or name for (start, end), name in zip(offsets, names, strict=True)
            ],
            "offsets": [(start, end) for start, end in offsets],
            "attention": attention.tolist(),
            "overall": overall.tolist(),
            "truncated": model_outputs["truncated"][side],
        }


def _target_ids(target: str, names: Sequence[str]) -> list[int]:
    """Return the id of the label that a target names, or of the two of "A>B"; else ValueError."""
    if target in names:
        return [names.index(target)]
    for label in names:
        rival = target.removeprefix(f"{label}{RIVAL_SIGN}")
        if rival in names and rival not in (target, label):
            return [names.index(label), names.index(rival)]
    labels = ", ".join(names)
    raise ValueError(f"target is {target!r}; the labels are {labels:.500}; two of them as 'A>B'")


def _texts_of(input_: object, model: Any) -> list[str]:
    """Return the text of an input of the pipeline, or the two texts of a pair.

    ValueError is raised for anything else than what the model reads.
    """
    fields = input_ if isinstance(input_, Mapping) else {"text": input_}
    names = PAIR_FIELDS if model.reads_pairs else PAIR_FIELDS[:1]
    texts = [fields.get(name) for name in names]
    if not fields.keys() <= {*names} or not all(isinstance(text, str) for text in texts):
        form = '{"text": ..., "text_pair": ...}' if model.reads_pairs else "a text"
        raise ValueError(
            f"the input of the {TASK} pipeline must be {form} for a {type(model).__name__}, or a "
            f"list of these; got {input_!r:.200}"
        )
    return texts  # type: ignore[return-value]  # checked above


def with_whole_characters(text: str, offsets: list[list[int]]) -> list[list[int]]:
    """Extend tokens over the accents and parts of a Hangul syllable that end them.

    NFC makes one character of such a sequence and gives it the offsets of the first part only.
    """
    taken = {start for start, _ in offsets}
    whole = []
    for start, end in offsets:
        while end < len(text) and end not in taken:
            is_mark = unicodedata.category(text[end]).startswith("M")
            if not (is_mark or "\u1160" <= text[end] <= "\u11ff"):  # vowels and finals of Hangul
                break
            end += 1
        whole.append([start, end])
    return whole
