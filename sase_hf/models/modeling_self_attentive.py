"""The structured self-attentive sentence embedding and its heads, to be read from top to bottom.

Lin et al., *A Structured Self-Attentive Sentence Embedding*, ICLR 2017, https://arxiv.org/abs/1703.03130.

Shapes, everywhere in this file: B sentences (or pairs), T tokens, S tokens of the longest, d width
of the word vectors, H width of the states, r hops (rows of the sentence matrix M), W width of a row
that a classifier reads (H, or 4H), b, p, q hidden units.

Data flow: ids -> `embeddings` (B, T, d) -> `Rows` (B, S, d) -> `token_encoder`: H (B, S, H) ->
`pooling`: A (B, r, S) and M = A H (B, r, H) -> head: logits, loss.
"""

from collections import OrderedDict
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from transformers import initialization as init
from transformers.utils.generic import ModelOutput, can_return_tuple

from .checkpoint import (
    NEIGHBOURS_NAME,
    CheckedPreTrainedModel,
    check_one_per_token,
    wide,
)
from .configuration_self_attentive import SelfAttentiveConfig
from .layers_self_attentive import (
    ENCODERS,
    BaselinePooling,
    LinearPart,
    Rows,
    SelfAttentionPooling,
    exact_product,
    init_glorot_uniform,
    tokens_of_sides,
)

if TYPE_CHECKING:  # transformers copies every file that an import names; only `pipeline` runs it
    from .pipeline_self_attentive import SelfAttentionPipeline  # noqa: F401

IGNORED_LABEL = -100
# Fields that only the heads with labels read.
OF_LABELS = (
    "matching",
    "rationale_coef",
    "classifier",
    "classifier_hidden_size",
    "classifier_dropout",
    "pruned_row_size",
    "pruned_column_size",
    "label_smoothing",
    "class_weights",
    "target_mean",
    "target_deviation",
    "linear_part",
    "answer_threshold",
    "answer_error",
    "label_type",
    "text_columns",
)

# With these two files SentenceTransformer runs the base model of every checkpoint and takes its
# `sentence_embedding`.
_RUN_THE_MODEL = "sentence_transformers.base.modules.transformer.Transformer"
_TAKE_THE_EMBEDDING = {"method": "forward", "method_output_name": "sentence_embedding"}
_FIRST_MODULE = {"idx": 0, "name": "0", "path": "", "type": _RUN_THE_MODEL}
SENTENCE_TRANSFORMER_FILES: dict[str, object] = {
    "modules.json": [_FIRST_MODULE],
    "sentence_bert_config.json": {
        "transformer_task": "feature-extraction",
        "modality_config": {"text": _TAKE_THE_EMBEDDING},
        "module_output_name": "sentence_embedding",
    },
}


@dataclass(init=False)
class SelfAttentiveOutput(ModelOutput):
    """The output of the base model and of the heads; the attentions are float32, 0 on padding.

    For pairs of texts, states, sentence matrices and attentions are (B, 2, ...). A head returns the
    last states if it reads them or all are asked for, and a ranker no cost.
    """

    # Of a head: see `penalised_loss`, or `SelfAttentiveForRetrieval.ranking_loss`. A loss of your
    # own adds `config.penalty_coef * output.penalty.mean()` itself, and nothing says so if it does
    # not.
    loss: Tensor | None = None
    logits: Tensor | None = None  # (B, num_labels); of a ranker the scores, -1 to 1, (B, 1)
    last_hidden_state: Tensor | None = None  # the states H, zero on padding, (B, T, H)
    sentence_embedding: Tensor | None = None  # the sentence matrix M, row by row, (B, r * H)
    # Of each sentence, or of both of a pair together, without `penalty_coef`, float32, (B,). By
    # default the mean cosine between hops; for `frobenius` ||A A^T - I||_F^2 (equation 8), which is
    # r for a sentence without tokens. Zero for poolings without hops.
    penalty: Tensor | None = None
    # With `rationale`, -log of the mean attention on the marked tokens, without `rationale_coef`,
    # zero without marks, float32, (B,).
    rationale_cost: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None  # word vectors (B, T, d), states (B, T, H)
    # One tensor A (B, r, T); of other poolings, the share of the units taken from each token.
    attentions: tuple[Tensor, ...] | None = None

    def __init__(self, *items: Any, **named: Any) -> None:
        """Hold what is given and not None, faster than a dataclass, which sets every field."""
        for name, value in dict(*items, **named).items():
            if value is not None:
                self[name] = value

    __reduce__ = OrderedDict.__reduce__  # a copy is made of the items

    def put_first(self, name: str, value: Tensor) -> None:
        """Set a field of the head before those of the encoder, faster than in another output.

        Who keeps the output of the encoder, such as a hook, finds the field in it.
        """
        self[name] = value
        self.move_to_end(name, last=False)


# ---- classifiers: sentence matrix -> logits ------------------------------------------------------


class OutputLayer(nn.Linear):
    """The last layer of a classifier, also of a regression, in at least float32.

    In half precision labels tie and targets are rounded: above 256 bfloat16 knows every second
    number. A regression learns targets of mean 0 and deviation 1; this layer restores their units.
    """

    def __init__(self, config: SelfAttentiveConfig, width: int) -> None:
        super().__init__(width, len(config.id2label or {}))
        self.mean = config.target_mean
        self.deviation = config.target_deviation

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits (B, num_labels), or as many targets, from hidden units (B, width)."""
        hidden = wide(hidden)
        with torch.autocast(hidden.device.type, enabled=False):
            outputs = F.linear(hidden, self.weight.to(hidden.dtype), self.bias.to(hidden.dtype))
        if self.deviation is not None:
            outputs = outputs * outputs.new_tensor(self.deviation)
        return outputs if self.mean is None else outputs + outputs.new_tensor(self.mean)


class MLP(nn.Module):
    """The 2-layer ReLU output MLP over all of M (section 2.1)."""

    def __init__(self, config: SelfAttentiveConfig, row_width: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.hidden = nn.Linear(config.num_rows * row_width, config.classifier_hidden_size)
        self.output = OutputLayer(config, config.classifier_hidden_size)

    def forward(self, matrix: Tensor) -> Tensor:
        """Return logits (B, num_labels) from a matrix (B, r, W)."""
        hidden = F.relu(self.hidden(self.dropout(matrix.flatten(1))))
        return self.output(self.dropout(hidden))

    def units(self, matrix: Tensor) -> Tensor:
        """Return the hidden units (B, b) of a matrix (B, r, W), without bias and ReLU."""
        return F.linear(matrix.flatten(1), self.hidden.weight)

    def bias(self) -> Tensor:
        """Return the bias of the hidden units (b,)."""
        return self.hidden.bias


class PrunedMLP(nn.Module):
    """The MLP with pruned connections (Appendix A).

    Hidden units come in r groups of p that read one row of M each, and in W groups of q that read
    one column each; the output layer reads them all.
    """

    def __init__(self, config: SelfAttentiveConfig, row_width: int) -> None:
        super().__init__()
        r, p, q = config.num_rows, config.pruned_row_size, config.pruned_column_size
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.row_weight = nn.Parameter(torch.empty(r, row_width, p))
        self.row_bias = nn.Parameter(torch.empty(r, p))
        self.column_weight = nn.Parameter(torch.empty(row_width, r, q))
        self.column_bias = nn.Parameter(torch.empty(row_width, q))
        self.output = OutputLayer(config, r * p + row_width * q)

    def forward(self, matrix: Tensor) -> Tensor:
        """Return logits (B, num_labels) from a matrix (B, r, W)."""
        hidden = F.relu(self.units(self.dropout(matrix)) + self.bias())
        return self.output(self.dropout(hidden))

    def units(self, matrix: Tensor) -> Tensor:
        """Return the hidden units (B, r p + W q) of a matrix (B, r, W), without bias and ReLU."""
        rows = torch.einsum("brw,rwp->brp", matrix, self.row_weight.to(matrix.dtype))
        columns = torch.einsum("brw,wrq->bwq", matrix, self.column_weight.to(matrix.dtype))
        return torch.cat([rows.flatten(1), columns.flatten(1)], dim=1)

    def bias(self) -> Tensor:
        """Return the bias of the hidden units (r p + W q,)."""
        return torch.cat([self.row_bias.flatten(), self.column_bias.flatten()])


CLASSIFIERS: dict[str, type[MLP | PrunedMLP]] = {"mlp": MLP, "pruned_mlp": PrunedMLP}


# ---- matching: two sentence matrices -> one ------------------------------------------------------


class GatedMatching(nn.Module):
    """F_r = (M_p W_p) * (M_h W_h), one H x H matrix per hop and side (Appendix B, 10 to 12)."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.row_width = config.hidden_size
        self.linear_width = 0  # columns that grow linearly with both matrices, not by squares
        shape = (config.num_rows, config.hidden_size, config.hidden_size)
        self.premise_weight = nn.Parameter(torch.empty(shape))
        self.hypothesis_weight = nn.Parameter(torch.empty(shape))

    def forward(self, premise: Tensor, hypothesis: Tensor) -> Tensor:
        """Return (B, r, H) from two matrices (B, r, H)."""
        premise_weight = self.premise_weight.to(premise.dtype)
        hypothesis_weight = self.hypothesis_weight.to(hypothesis.dtype)
        first = torch.einsum("brh,rhk->brk", premise, premise_weight)
        second = torch.einsum("brh,rhk->brk", hypothesis, hypothesis_weight)
        return first * second


class ConcatMatching(nn.Module):
    """Rows [u; v; |u - v|; u * v], the features of later sentence encoders (InferSent)."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.row_width = 4 * config.hidden_size
        self.linear_width = 3 * config.hidden_size

    def forward(self, premise: Tensor, hypothesis: Tensor) -> Tensor:
        """Return (B, r, 4H) from two matrices (B, r, H)."""
        features = [premise, hypothesis, (premise - hypothesis).abs(), premise * hypothesis]
        return torch.cat(features, dim=-1)


MATCHINGS: dict[str, type[GatedMatching | ConcatMatching]] = {
    "gated": GatedMatching,
    "concat": ConcatMatching,
}


# ---- ranking: the matrices of queries and documents -> scores ------------------------------------


def unit_rows(embeddings: Tensor, config: SelfAttentiveConfig) -> Tensor:
    """Return the rows that scores compare, in float32 or wider: of length 1, or of zeros.

    `embeddings` are sentence matrices, row by row, shape (..., r * H). The result is (..., r, H),
    or (..., 1, r * H) if `score_mode` is flat.
    """
    rows = config.num_rows if config.score_mode == "rows" else 1
    return F.normalize(wide(embeddings).unflatten(-1, (rows, -1)), dim=-1)


def row_scores(queries: Tensor, documents: Tensor) -> Tensor:
    """Return the mean over query rows of the cosine to the most similar document row: (Q, D).

    The arguments are the `unit_rows` of Q queries (Q, r, H) and of D documents (D, r, H).
    """
    cosines = exact_product(queries.flatten(0, 1), documents.flatten(0, 1).T)
    best = cosines.unflatten(1, (len(documents), -1)).amax(-1)  # (Q * r, D)
    return best.unflatten(0, (len(queries), -1)).mean(1)


# ---- loss: task loss plus penalty, the same however a batch is split -----------------------------


def penalised_loss(
    logits: Tensor,
    labels: Tensor,
    penalty: Tensor,
    config: SelfAttentiveConfig,
    num_items_in_batch: Tensor | int | None = None,
    rationale_cost: Tensor | None = None,
) -> Tensor:
    """Return task loss + `penalty_coef` * mean penalty (section 2.2), in float32 or wider.

    With marks, `rationale_coef` * mean cost is added. Each part is a sum over the counted labels
    divided by their number. With `num_items_in_batch`, the labels that `Trainer` counted over all
    accumulated batches and processes, the parts of a split batch therefore add up to the loss and
    the gradient of the whole.

    Args:
        logits: Shape (B, num_labels).
        labels: Class ids (B,), or their probabilities as floats (B, num_labels), which then count
            as num_labels labels; for other problems floats (B, num_labels), for one output also
            (B,). An entry of -100 does not count; with probabilities, nor does its row.
        penalty: Shape (B,). Each row is weighted by the number of its counted labels.
        config: Gives problem type, penalty coefficient, label smoothing, class weights, and the
            deviation of the targets in which the error of a regression is measured.
        num_items_in_batch: Labels in the whole batch; by default those counted here.
        rationale_cost: Shape (B,), weighted as the penalty is.

    Raises:
        ValueError: If the labels have another shape, or if they are floats and the config names
            no problem type.
    """
    losses, counted = _task_losses(wide(logits), labels, config)
    of_rows = config.penalty_coef * penalty
    if rationale_cost is not None:
        of_rows = of_rows + config.rationale_coef * rationale_cost
    total = losses.masked_fill(~counted, 0).sum() + (of_rows * counted.sum(1)).sum()
    count = counted.sum() if num_items_in_batch is None else num_items_in_batch
    return total / torch.as_tensor(count, device=total.device).clamp(min=1)


def _task_losses(
    logits: Tensor, labels: Tensor, config: SelfAttentiveConfig
) -> tuple[Tensor, Tensor]:
    """Return the loss of each label, and where one counts: (B, 1) or (B, num_labels)."""
    # Transformers takes floats for sets of labels; they can also be targets, or probabilities.
    if config.problem_type is None and labels.is_floating_point():
        raise ValueError(
            f"labels are {labels.dtype}; set config.problem_type to what they are: "
            '"multi_label_classification", "regression" or "single_label_classification"'
        )
    is_single = config.problem_type in (None, "single_label_classification")
    are_classes = is_single and not labels.is_floating_point()
    per_row = 1 if are_classes else logits.shape[1]
    if len(labels) != len(logits) or labels.numel() != len(logits) * per_row:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)}; logits of shape {tuple(logits.shape)} need "
            f"{per_row} for each row, as they are {labels.dtype}: ids of classes are integers, "
            "floats a probability for each class. If these are other labels, set "
            "config.problem_type"
        )
    if are_classes:
        classes = labels.view(-1, 1).long()
        losses = _cross_entropy(logits, classes.squeeze(1), config)
        return losses.unsqueeze(1), classes != IGNORED_LABEL
    targets = labels.view_as(logits).to(logits.dtype)
    if is_single:
        return _losses_of_probabilities(logits, targets, config)
    counted = targets != IGNORED_LABEL
    if config.problem_type == "multi_label_classification":
        return F.binary_cross_entropy_with_logits(logits, targets, reduction="none"), counted
    if config.target_deviation is not None:  # before the squares, which might overflow
        deviation = logits.new_tensor(config.target_deviation)
        logits = logits / deviation
        targets = targets / deviation
    return F.mse_loss(logits, targets, reduction="none"), counted


def _losses_of_probabilities(
    logits: Tensor, labels: Tensor, config: SelfAttentiveConfig
) -> tuple[Tensor, Tensor]:
    """Return the loss of each row, and whether it counts, once for each label: (B, num_labels)."""
    counted = (labels != IGNORED_LABEL).all(1, keepdim=True)  # (B, 1)
    probabilities = labels.where(counted, 0.0)
    sums = probabilities.sum(1, keepdim=True)[counted]
    if not ((probabilities >= 0).all() and ((sums - 1).abs() <= 0.01).all()):
        raise ValueError("float labels of one class per row must be probabilities, sum 1")
    losses = _cross_entropy(logits, probabilities, config)
    return losses.unsqueeze(1).expand_as(labels), counted.expand_as(labels)


def _cross_entropy(logits: Tensor, labels: Tensor, config: SelfAttentiveConfig) -> Tensor:
    """Return the loss of each row (B,); labels are class ids (B,) or probabilities."""
    if config.class_weights is not None:
        logits = logits - logits.new_tensor(config.log_weights)
    return F.cross_entropy(
        logits,
        labels,
        ignore_index=IGNORED_LABEL,
        label_smoothing=config.label_smoothing,
        reduction="none",
    )


# ---- models --------------------------------------------------------------------------------------


class SelfAttentivePreTrainedModel(CheckedPreTrainedModel):
    """Initialisation, loading and saving, shared by the base model and the heads."""

    config_class = SelfAttentiveConfig
    auto_class_of_heads = "AutoModelForSequenceClassification"
    usual_head = "SelfAttentiveForSequenceClassification"
    pipelines: ClassVar[dict[str, str]] = {
        "self-attention": "pipeline_self_attentive.SelfAttentionPipeline"
    }
    json_files = SENTENCE_TRANSFORMER_FILES
    supports_gradient_checkpointing = True
    _input_embed_layer = "embeddings"
    _no_split_modules = ["BiLSTMLayer", "CNNEncoder", "DilatedCNNLayer", "RelationNetworkEncoder"]
    config: SelfAttentiveConfig

    @property
    def code_module(self) -> str:  # type: ignore[override]
        """This file, or the one that also brings a relation network and the rows of a ranker.

        A ranker needs it, and so does its encoder, which sentence-transformers saves. The code of
        another checkpoint does not have that file.
        """
        more = Path(__file__).with_name("relation_network_self_attentive.py")
        is_simple = hasattr(self, "neighbours") and self.config.encoder != "relation_network"
        return "modeling_self_attentive" if is_simple or not more.exists() else more.stem

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Start matrices Glorot uniform and biases at zero; the rest as transformers does."""
        if isinstance(module, nn.Linear | GatedMatching | PrunedMLP):
            init_glorot_uniform(module)
        elif isinstance(module, LinearPart):
            for weight in module.parameters():
                init.zeros_(weight)
        else:
            super()._init_weights(module)

    def tie_weights(self, *args: Any, **kwargs: Any) -> Any:
        """Tie as transformers does, then freeze what the config asks for.

        `from_pretrained` creates new parameters, all trainable, and calls this method last.
        """
        tied = super().tie_weights(*args, **kwargs)
        if self.config.freeze_embeddings:
            self.get_input_embeddings().weight.requires_grad_(False)
            if self.config.encoder == "auto_model":
                self.base_model.token_encoder.requires_grad_(False)
        return tied


class SelfAttentiveModel(SelfAttentivePreTrainedModel):
    """The sentence encoder: word vectors, states, attention, sentence matrix (section 2.1)."""

    # A base model loaded from the checkpoint of a head leaves the weights of the head out.
    _keys_to_ignore_on_load_unexpected = [r"^classifier\.", r"^matching\.", r"^linear_part\."]

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(
            config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id
        )
        self.dropout = nn.Dropout(config.embedding_dropout)
        self.token_encoder = ENCODERS[config.encoder](config)
        self.pooling = (SelfAttentionPooling if config.has_hops else BaselinePooling)(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        rationale: Tensor | None = None,
        output_last_hidden_state: bool = True,
        **kwargs: object,
    ) -> SelfAttentiveOutput:
        """Encode sentences, each up to `config.max_tokens` real tokens; the rest counts as padding.

        Args:
            input_ids: Shape (B, T); T may be 0.
            attention_mask: Nonzero on real tokens, anywhere in a row, shape (B, T). Without it
                every token is real.
            token_type_ids: Ignored: a pair is read as one text.
            inputs_embeds: Word vectors instead of ids, shape (B, T, d).
            output_attentions: Return A.
            output_hidden_states: Return the states of every layer.
            rationale: Marks of people, 0 on tokens without one, shape (B, T); needs a pooling with
                attention. The marks of a row are one number, its weight in `rationale_cost`.
            output_last_hidden_state: Return the states, which a head does not read.
            **kwargs: Ignored, as in transformers.

        Raises:
            ValueError: If not exactly one of ids and word vectors is given, if they, the mask or
                the marks have another shape, or if there are marks but no attention.
        """
        word_vectors, real = self.embed(input_ids, inputs_embeds, attention_mask)
        if rationale is not None:
            check_one_per_token("rationale", rationale, word_vectors)
            if not self.config.has_hops:
                raise ValueError(
                    f"pooling is {self.config.pooling!r}, which has no attention that could learn "
                    "from marks; choose 'self_attention', or leave rationale out"
                )
        attends, shows_states = self.asked_outputs(output_attentions, output_hidden_states)
        rows = Rows(real, word_vectors.dtype, self.config.max_tokens)
        parts = rows.parts()
        if parts:
            outputs = [
                SelfAttentiveModel.forward(  # once, if a subclass or a hook replaces it
                    self,
                    attention_mask=real[texts],
                    inputs_embeds=word_vectors[texts],
                    output_attentions=attends,
                    output_hidden_states=shows_states,
                    rationale=None if rationale is None else rationale[texts],
                    output_last_hidden_state=output_last_hidden_state,
                    return_dict=True,
                )
                for texts in parts
            ]
            places = torch.cat(parts).argsort()
            return tree_map(lambda *of_parts: torch.cat(of_parts)[places], *outputs)
        layers = self.token_encoder(rows.left(self.dropout(word_vectors)), rows)
        matrix, attention, penalty, cost = self.pooling(
            layers[-1],
            rows,
            None if rationale is None else rows.left(rationale),
        )
        states: Any = [None]
        if shows_states:
            states = [*map(rows.back, layers)]
        elif output_last_hidden_state:
            states = [rows.back(layers[-1])]
        return SelfAttentiveOutput(
            last_hidden_state=states[-1],
            sentence_embedding=matrix.flatten(1),
            penalty=penalty,
            rationale_cost=cost,
            hidden_states=(word_vectors, *states) if shows_states else None,
            attentions=(rows.back(attention.mT).mT,) if attends else None,
        )


class _Classifier(SelfAttentivePreTrainedModel):
    """The classifiers of texts and of pairs: sentence encoder, matching of a pair, classifier.

    A linear part, if there is one, reads the words beside the encoder.

    neighbours: training rows to compare texts with, until the model learns or loads weights; read
        by the package alone, of the class that it puts here.
    """

    matching: GatedMatching | ConcatMatching
    neighbours: Any = None
    neighbours_class: ClassVar[Any] = None

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__(config)
        self.encoder = SelfAttentiveModel(config)
        self.num_rows = config.num_rows
        row_width = config.hidden_size
        if self.reads_pairs:
            self.matching = MATCHINGS[config.matching](config)
            row_width = self.matching.row_width
        self.classifier = CLASSIFIERS[config.classifier](config, row_width)
        self.linear_part: LinearPart | None
        self.register_module("linear_part", None)  # a part of each head, so that loading knows it
        if config.linear_part != "none":
            self.linear_part = LinearPart(config, reads_pairs=self.reads_pairs)
        self.post_init()

    @classmethod
    def _load_pretrained_model(
        cls,
        model: Any,
        state_dict: Any,
        checkpoint_files: list[str] | None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Load also the training rows beside the weights, which are compared with the list."""
        loaded = super()._load_pretrained_model(
            model, state_dict, checkpoint_files, *args, **kwargs
        )
        info, _ = loaded
        if info.missing_and_mismatched():
            model.forget()
        elif checkpoint_files and cls.neighbours_class is not None:
            model.neighbours = cls.neighbours_class.read(Path(checkpoint_files[0]).parent)
        return loaded

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Load what torch is given, such as an adapter."""
        self.forget()
        super()._load_from_state_dict(*args, **kwargs)

    def forget(self) -> None:
        """Drop the training rows and the answer sets, which belong to the weights so far."""
        self.neighbours = self.config.answer_threshold = None

    def save_pretrained(
        self, save_directory: Any, is_main_process: bool = True, *args: Any, **kwargs: Any
    ) -> None:
        """Save also the training rows."""
        path = Path(save_directory, NEIGHBOURS_NAME)
        if is_main_process:
            path.unlink(missing_ok=True)  # of other weights
            if self.neighbours is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                self.neighbours.write(path)
        super().save_pretrained(save_directory, is_main_process, *args, **kwargs)

    @property
    def reads_mean_state(self) -> bool:
        """Whether the linear part has weights of the mean state."""
        return self.linear_part is not None and self.linear_part.state_weight is not None

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Resize the word vectors as transformers does, and with them the linear part."""
        embeddings: nn.Embedding = super().resize_token_embeddings(*args, **kwargs)
        if self.linear_part is not None:
            self.linear_part.resize(embeddings.weight.shape[0])
        return embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        rationale: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: object,
    ) -> SelfAttentiveOutput:
        """Classify texts or pairs; other arguments are those of `SelfAttentiveModel.forward`.

        For pairs `token_type_ids` (B, T) is 0 on the premise and 1 on the hypothesis. The labels,
        and `num_items_in_batch`, which `Trainer` gives, are those of `penalised_loss`.

        Raises:
            ValueError: As for `SelfAttentiveModel.forward` and `encode_pairs`.
            AttributeError: If a model with a linear part, which weighs the words, gets no ids.
        """
        if self.training and torch.is_grad_enabled():
            self.forget()
        read: Any = partial(encode_pairs, self.encoder) if self.reads_pairs else self.encoder
        outputs = read(
            input_ids,
            attention_mask,
            token_type_ids,
            inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            output_last_hidden_state=self.reads_mean_state,
            rationale=rationale,
            return_dict=True,
        )
        matrices = outputs.sentence_embedding.unflatten(-1, (self.num_rows, -1))
        if self.reads_pairs:
            matrices = self.matching(*matrices.unbind(1))
        logits = self.classifier(matrices)
        if self.linear_part is not None:
            inputs = (input_ids, attention_mask, token_type_ids)
            logits = logits + self.linear_part(inputs, outputs.last_hidden_state)
        # Marks are part of the loss in training alone: their weight says nothing about other rows.
        cost = outputs.rationale_cost if self.training else None
        outputs.put_first("logits", logits)
        if labels is not None:
            loss = penalised_loss(
                logits, labels, outputs.penalty, self.config, num_items_in_batch, cost
            )
            outputs.put_first("loss", loss)
        return outputs


class SelfAttentiveForSequenceClassification(_Classifier):
    """Sentence encoder and classifier: single label, multi-label or regression (section 4)."""

    summary = "A model of texts."


class SelfAttentiveForNLI(_Classifier):
    """One encoder for two sentences, matching and classifier: entailment (Appendix B).

    A row holds both sentences; `token_type_ids` is 0 on the premise and 1 on the hypothesis.
    """

    summary = "A model of pairs of texts."
    reads_pairs = True


class SelfAttentiveForRetrieval(SelfAttentivePreTrainedModel):
    """One encoder for queries and documents, and the score of a pair.

    The only weights are those of the encoder. A row holds a query and its document;
    `token_type_ids` is 0 on the query and 1 on the document. The score is the only output, so the
    config is a copy for a regression, without the fields for other labels.
    """

    summary = "A ranker of documents for short queries."
    reads_pairs = True
    accepts_loss_kwargs = False  # its loss is a mean over the queries of each batch
    json_files = SENTENCE_TRANSFORMER_FILES | {
        "modules.json": [
            _FIRST_MODULE,
            {"idx": 1, "name": "1", "path": "", "type": "multi_vector_self_attentive.SentenceRows"},
        ]
    }

    def __init__(self, config: SelfAttentiveConfig) -> None:
        config = deepcopy(config)
        for name in OF_LABELS:
            setattr(config, name, getattr(type(config), name))
        config.problem_type = "regression"
        config.id2label = {0: "score"}
        config.validate()
        super().__init__(config)
        self.encoder = SelfAttentiveModel(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        return_loss: bool | None = None,
        match_rows: bool = False,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: object,
    ) -> SelfAttentiveOutput:
        """Score pairs; arguments and errors not named here are those of `SelfAttentiveForNLI`.

        Args:
            return_loss: Compute `ranking_loss`; by default in training only. Where the stock
                `Trainer` is to evaluate the loss, the collator adds `return_loss=True` to a batch,
                as for CLIP.
            match_rows: For scores by rows, return as row i of the document's attention that of the
                document row to which query row i is most similar: rows may repeat or be missing.
        """
        if return_loss is None:
            return_loss = self.training
        outputs = encode_pairs(
            self.encoder,
            input_ids,
            attention_mask,
            token_type_ids,
            inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            output_last_hidden_state=False,
            return_dict=True,
        )
        queries, documents = unit_rows(outputs.sentence_embedding, self.config).unbind(1)
        cosines = exact_product(queries, documents.mT)  # (B, r, r)
        if match_rows and outputs.attentions and self.config.score_mode == "rows":
            most_similar = cosines.argmax(2)  # (B, r)
            of_query, of_document = outputs.attentions[0].unbind(1)  # (B, r, T) each
            of_document = of_document.take_along_dim(most_similar.unsqueeze(2), 1)
            outputs.attentions = (torch.stack([of_query, of_document], 1),)
        outputs.put_first("logits", cosines.amax(2).mean(1, keepdim=True))
        if return_loss:
            outputs.put_first("loss", self.ranking_loss(queries, documents, outputs.penalty))
        return outputs

    def ranking_loss(self, queries: Tensor, documents: Tensor, penalty: Tensor) -> Tensor:
        """Return the mean cross-entropy of the queries, plus `penalty_coef` * mean penalty.

        The logits of a query are its scores over `score_temperature`: the own document is the
        class, the documents of the other rows are the other classes. In training the documents of
        all processes count, and all processes must have the same number of rows; the mean of the
        gradients, which DistributedDataParallel takes, is then that of one large batch. Accumulated
        batches are not one large batch: each has its own documents only. A document that stands in
        two rows counts as a wrong answer to both queries.

        The arguments are the `unit_rows` of B queries and of their documents, and the penalty (B,).
        """
        first = 0
        if self.training and dist.is_available() and dist.is_initialized():
            from torch.distributed.nn.functional import all_gather  # not in every build of torch

            first = dist.get_rank() * len(documents)
            documents = torch.cat(all_gather(documents))
        scores = row_scores(queries, documents) / self.config.score_temperature
        own_document = torch.arange(len(queries), device=scores.device) + first
        return F.cross_entropy(scores, own_document) + self.config.penalty_coef * penalty.mean()


def encode_pairs(
    encoder: SelfAttentiveModel,
    input_ids: Tensor | None,
    attention_mask: Tensor | None,
    token_type_ids: Tensor | None,
    inputs_embeds: Tensor | None,
    rationale: Tensor | None = None,
    **options: Any,
) -> Any:
    """Encode both texts of each row; `options` are those of the encoder.

    The result is the encoder's with (B, 2, ...) for each of its (B, ...), but the penalty and the
    cost of marks (B,) are of both texts together. ValueError: token types are missing or have
    another shape.
    """
    embeds, real = encoder.embed(input_ids, inputs_embeds, attention_mask)
    if token_type_ids is None:
        raise ValueError(
            "token_type_ids are missing: 0 on the first text, 1 on the second. Tokenize both "
            "together: tokenizer(premises, hypotheses, ...)"
        )
    check_one_per_token("token_type_ids", token_type_ids, embeds)
    sides = tokens_of_sides(real, token_type_ids)
    outputs = encoder(
        attention_mask=sides.flatten(0, 1),  # (2B, T): first and second texts by turns
        inputs_embeds=embeds.repeat_interleave(2, 0),
        rationale=None if rationale is None else rationale.repeat_interleave(2, 0),
        **options,
    )
    pairs: Any = tree_map(lambda of_texts: of_texts.unflatten(0, (-1, 2)), outputs)
    pairs.penalty = pairs.penalty.sum(1)
    if rationale is not None:
        pairs.rationale_cost = pairs.rationale_cost.sum(1)
    return pairs
