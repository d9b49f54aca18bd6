"""RNNsearch and its baseline RNNencdec, to be read from top to bottom.

Bahdanau, Cho and Bengio, *Neural Machine Translation by Jointly Learning to Align and Translate*,
ICLR 2015, https://arxiv.org/abs/1409.0473.

Shapes, everywhere in this file: B sentences, T source tokens, L target tokens, m width of the word
vectors, n units, a units of the alignment model (n' in the paper), l maxout units, D directions of
the encoder (2, or 1 for RNNencdec), K words.

Data flow: source ids -> `encoder`: h (B, T, D n) -> `decoder`, L steps: alignment (B, T), state
(B, n) -> `readout` of all steps at once: maxout (B, L, l) -> logits (B, L, K), loss.

Terms that do not depend on the previous state are one product outside the loop: the word vectors
through all gates, and the annotations h_j through the alignment model and the decoder's gates,
since C c_i = sum_j alpha_ij C h_j. Padding shuts the update gate, which carries the state along, so
that results do not depend on where the padding is.

Each module reads its weights in its own `forward` and returns the weights that the loop needs,
because hooks that fetch weights from a disk or another device run only in `forward`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Cache, GenerationMixin
from transformers import initialization as init
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils.generic import ModelOutput, can_return_tuple

from .checkpoint import (
    CheckedPreTrainedModel,
    check_one_per_token,
    first_tokens,
    real_tokens,
    wide,
)
from .configuration_rnnsearch import RNNSearchConfig

if TYPE_CHECKING:  # transformers copies every file that an import names; only `pipeline` runs it
    from .pipeline_rnnsearch import AlignedTranslationPipeline  # noqa: F401

IGNORED_LABEL = -100
# The names of a cache among the outputs of transformers: the second one up to version 5.23.
CACHE_NAMES = ("cache", "past_key_values")
CACHE_NAME = next(name for name in CACHE_NAMES if name in Seq2SeqLMOutput.__dataclass_fields__)


@dataclass
class RNNSearchModelOutput(ModelOutput):
    """The output of the encoder, and what every step of the decoder reads of it."""

    last_hidden_state: Tensor | None = None  # the annotations h, zero on padding, (B, T, D n)
    # The last state of each direction, [-> h_T ; <- h_1], (B, D n). Its last n numbers give s_0;
    # for RNNencdec they are the context c.
    sentence_embedding: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None  # if asked for: word vectors (B, T, m), and h
    # Of `get_encoder()` alone:
    alignment_keys: Tensor | None = None  # U_a h_j, (B, T, a); None for RNNencdec
    gate_values: Tensor | None = None  # C h_j for all gates, (B, T, 3n), or C c, (B, 1, 3n)


@dataclass
class RNNSearchOutput(Seq2SeqLMOutput):
    """The output of the translation model.

    Attributes:
        loss: Cross-entropy per target word in nats, a scalar; see `translation_loss`.
        logits: Shape (B, L, K).
        nll: Mean negative log-likelihood of a target word of each sentence, shape (B,).
        cache: The decoder's state, an `RNNSearchCache`; `past_key_values` before transformers 5.24.
        cross_attentions: One tensor alpha, float32, zero on padding, shape (B, 1, L, T); None for
            RNNencdec.
        encoder_last_hidden_state: The annotations h, in training after dropout, shape (B, T, D n).
        encoder_hidden_states: As `RNNSearchModelOutput.hidden_states`.
        decoder_hidden_states: One tensor, the maxout layer, shape (B, L, l); None unless asked for.
    """

    nll: Tensor | None = None


class RNNSearchCache(Cache):
    """The decoder between two calls of the model.

    Attributes:
        state: s_i, shape (B, n); None before the first word.
        num_words: How many target words it has read.
    """

    is_compileable = False

    def __init__(self, state: Tensor | None = None, num_words: int = 0) -> None:
        super().__init__(layers=[])
        self.state: Any = state  # None before the first word, where no beams are reordered
        self.num_words = num_words

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of target words read."""
        return self.num_words

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Take the states of the beams that go on."""
        self.state = self.state.index_select(0, beam_idx.to(self.state.device))


def decoder_cache(inputs: Mapping[str, object]) -> RNNSearchCache:
    """Return the cache of the decoder among inputs, whatever its name; a new one without one.

    `generate` begins with an empty cache of another kind, which counts as none.

    Raises:
        ValueError: If a cache is of another model.
    """
    for name, cache in inputs.items():
        if isinstance(cache, RNNSearchCache):
            return cache
        is_empty = isinstance(cache, Cache) and cache.get_seq_length() == 0
        if name in CACHE_NAMES and cache is not None and not is_empty:
            raise ValueError(
                f"{name} is a {type(cache).__name__}; it must be the RNNSearchCache that this "
                f"model returned as {CACHE_NAME}"
            )
    return RNNSearchCache()


# ---- recurrence ----------------------------------------------------------------------------------


class GatedUnit(nn.Module):
    """The gated hidden unit (appendix A.1.1): reset before the product, unlike `nn.GRU`.

    r = sigmoid(W_r x + U_r h + b_r), z = sigmoid(W_z x + U_z h + b_z),
    h~ = tanh(W x + U [r o h] + b), h' = (1 - z) o h + z o h~.
    """

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.input = nn.Linear(input_size, 3 * units)  # W_r, W_z and W, with the biases
        self.gates_weight = nn.Parameter(torch.empty(2 * units, units))  # U_r and U_z
        self.state_weight = nn.Parameter(torch.empty(units, units))  # U

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the terms of the inputs (B, T, width) in gates and candidate (B, T, 3n), U_rz, U.

        On padding the update gate is shut, z = 0 and h' = h.
        """
        projected = self.input(x)
        if mask is not None:
            units = self.state_weight.shape[0]
            shut = F.pad((~mask).unsqueeze(-1).expand(-1, -1, units), (units, units))
            projected = projected.masked_fill(shut, float("-inf"))
        return projected, self.gates_weight, self.state_weight


def next_state(x: Tensor, h: Tensor, gates_weight: Tensor, state_weight: Tensor) -> Tensor:
    """Return h' (D, B, n) from projected inputs (D, B, 3n) and h.

    `gates_weight` is U_r and U_z, shape (D, 2n, n); `state_weight` is U, shape (D, n, n).
    """
    units = h.shape[-1]
    gates = torch.baddbmm(x[..., : 2 * units], h, gates_weight.mT).sigmoid()
    reset, update = gates.chunk(2, -1)
    candidate = torch.baddbmm(x[..., 2 * units :], reset * h, state_weight.mT).tanh()
    return h + update * (candidate - h)


class Alignment(nn.Module):
    """The weights of e_ij = v_a^T tanh(W_a s_{i-1} + U_a h_j) (appendix A.1.2)."""

    def __init__(self, config: RNNSearchConfig) -> None:
        super().__init__()
        units = config.attention_size
        self.query_weight = nn.Parameter(torch.empty(units, config.hidden_size))  # W_a
        self.key_weight = nn.Parameter(torch.empty(units, config.projection_dim))  # U_a
        self.key_bias = nn.Parameter(torch.empty(units))
        self.score_weight = nn.Parameter(torch.empty(units))  # v_a

    def forward(self, states: Tensor | None = None) -> tuple[Tensor | None, Tensor, Tensor]:
        """Return U_a h_j of annotations (B, T, D n), if given, as (B, T, a); and W_a, v_a."""
        keys = None if states is None else F.linear(states, self.key_weight, self.key_bias)
        return keys, self.query_weight, self.score_weight


class Decoder(nn.Module):
    """Alignment, state and deep output of the decoder (appendix A.2.2)."""

    def __init__(self, config: RNNSearchConfig) -> None:
        super().__init__()
        m, n, context = config.embedding_size, config.hidden_size, config.projection_dim
        self.embeddings = nn.Embedding(config.vocab_size, m, padding_idx=config.pad_token_id)
        self.dropout = nn.Dropout(config.dropout)
        self.first_state = nn.Linear(n, n)  # W_s
        self.unit = GatedUnit(m, n)
        self.context = nn.Linear(context, 3 * n, bias=False)  # C_r, C_z and C
        self.alignment = Alignment(config) if config.has_attention else None
        self.readout = nn.Linear(n + m + context, 2 * config.maxout_size)  # U_o, V_o and C_o

    def read(self, encoded: RNNSearchModelOutput) -> RNNSearchModelOutput:
        """Return the encoded source with the products that every step uses."""
        states = self.dropout(encoded.last_hidden_state)
        last = encoded.sentence_embedding
        if self.alignment is None:
            last = self.dropout(last)
            keys = None
            values = self.context(last).unsqueeze(1)
        else:
            keys, _, _ = self.alignment(states)
            values = self.context(states)
        return RNNSearchModelOutput(states, last, encoded.hidden_states, keys, values)

    def forward(
        self,
        input_ids: Tensor,
        source: Any,
        source_mask: Tensor,
        mask: Tensor | None,
        state: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Run the L steps that read `input_ids` (B, L), y_0 to y_{L-1}, for what `read` returned.

        The masks are True on real tokens, (B, T) and (B, L). Without `state` (B, n) the steps begin
        with s_0 of the source. The result is the maxout layer t (B, L, l), the last state s_L
        (B, n), and alpha (B, L, T), float32.
        """
        h = source.last_hidden_state
        last = source.sentence_embedding
        keys = source.alignment_keys
        values = source.gate_values
        words = self.dropout(self.embeddings(input_ids))
        inputs, *weights = self.unit(words, mask)
        weights = [weight.unsqueeze(0) for weight in weights]
        if self.alignment is not None:
            _, query_weight, score_weight = self.alignment()
        if state is None:
            state = torch.tanh(self.first_state(last[:, -self.first_state.in_features :]))
        # Added to the scores of the alignment, in float32 or wider.
        shut = wide(h.new_zeros(h.shape[:2]))
        shut = shut.masked_fill(~source_mask, torch.finfo(shut.dtype).min)
        states = [state]
        alphas = []
        for x in inputs.unbind(1):
            context = values
            if self.alignment is not None:
                hidden = torch.tanh(keys + F.linear(states[-1], query_weight).unsqueeze(1))
                alphas.append((torch.matmul(hidden, score_weight) + shut).softmax(-1))
                context = torch.bmm(alphas[-1].unsqueeze(1).to(values.dtype), values)
            x = (x + context.squeeze(1)).unsqueeze(0)
            states.append(next_state(x, states[-1].unsqueeze(0), *weights).squeeze(0))
        alignment = None
        contexts = last.unsqueeze(1).expand(-1, inputs.shape[1], -1)
        if alphas:
            # A row without any token would be read evenly.
            alignment = torch.stack(alphas, 1) * source_mask.unsqueeze(1)
            contexts = torch.bmm(alignment.to(h.dtype), h)
        states_before = torch.stack(states[:-1], 1)
        readout = self.readout(torch.cat([states_before, words, contexts], -1))
        pairs = readout.unflatten(-1, (-1, 2))
        maxout = self.dropout(torch.maximum(pairs[..., 0], pairs[..., 1]))
        return maxout, states[-1], alignment


# ---- loss ----------------------------------------------------------------------------------------


def translation_loss(
    logits: Tensor,
    labels: Tensor,
    label_smoothing: float = 0.0,
    num_items_in_batch: Tensor | int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy per target word, and that of each sentence (B,) without smoothing.

    Both are in float32 or wider. The first is a sum over the counted words divided by their number.
    With `num_items_in_batch`, the labels that `Trainer` counted over all accumulated batches and
    processes, the parts of a split batch therefore add up to the loss and gradient of the whole.

    Args:
        logits: Shape (B, L, K).
        labels: Ids, or -100 where nothing counts, shape (B, L).
        label_smoothing: Share of the target probability spread over the vocabulary.
        num_items_in_batch: Labels in the whole batch; by default those counted here.
    """
    log_probs = wide(logits).log_softmax(-1)
    counted = labels != IGNORED_LABEL
    losses = F.nll_loss(
        log_probs.flatten(0, 1), labels.flatten(), ignore_index=IGNORED_LABEL, reduction="none"
    ).view_as(labels)
    nll = losses.detach().sum(1) / counted.sum(1).clamp(min=1)
    if label_smoothing:
        even = -log_probs.mean(-1).masked_fill(~counted, 0)
        losses = (1 - label_smoothing) * losses + label_smoothing * even
    count = counted.sum() if num_items_in_batch is None else num_items_in_batch
    return losses.sum() / torch.as_tensor(count, device=losses.device).clamp(min=1), nll


# ---- models --------------------------------------------------------------------------------------


class RNNSearchPreTrainedModel(CheckedPreTrainedModel):
    """Initialisation, loading and saving, shared by the encoder and the translation model."""

    config_class = RNNSearchConfig
    auto_class_of_heads = "AutoModelForSeq2SeqLM"
    code_module = "modeling_rnnsearch"
    usual_head = "RNNSearchForConditionalGeneration"
    pipelines: ClassVar[dict[str, str]] = {
        "aligned-translation": "pipeline_rnnsearch.AlignedTranslationPipeline",
        # `transformers` has no translation pipeline of its own since version 5.
        "translation": "pipeline_rnnsearch.AlignedTranslationPipeline",
    }
    _is_stateful = True
    _no_split_modules = ["RNNSearchModel", "Decoder"]
    config: RNNSearchConfig

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Start as appendix B.1: recurrent squares orthogonal, v_a and biases 0, the rest normal.

        The deviation is 0.001 for W_a and U_a, and `initializer_range` for all others.
        """
        if isinstance(module, GatedUnit):
            units = module.state_weight.shape[0]
            init.orthogonal_(module.state_weight)
            # `init` leaves a weight that a checkpoint has filled as it is. It knows whole weights
            # and no parts of them, so both squares are drawn beside the weight.
            squares = torch.empty_like(module.gates_weight)
            for square in squares.split(units):
                init.orthogonal_(square)
            init.copy_(module.gates_weight, squares)
        elif isinstance(module, Alignment):
            init.normal_(module.query_weight, std=0.001)
            init.normal_(module.key_weight, std=0.001)
            init.zeros_(module.key_bias)
            init.zeros_(module.score_weight)
        elif isinstance(module, nn.Linear):
            init.normal_(module.weight, std=self.config.initializer_range)
            if module.bias is not None:
                init.zeros_(module.bias)
        else:
            super()._init_weights(module)


class RNNSearchModel(RNNSearchPreTrainedModel):
    """The encoder: word vectors and gated units in both directions (appendix A.2.1).

    Without attention, this is the one-way encoder of RNNencdec. The encoder of a translation model
    embeds sentences.
    """

    # An encoder loaded from the checkpoint of a translation model leaves the other weights out.
    _keys_to_ignore_on_load_unexpected = [r"^decoder\.", r"^lm_head\."]
    _input_embed_layer = "embeddings"

    def __init__(self, config: RNNSearchConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(
            config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id
        )
        self.dropout = nn.Dropout(config.dropout)
        directions = 2 if config.has_attention else 1
        self.units = nn.ModuleList(
            GatedUnit(config.embedding_size, config.hidden_size) for _ in range(directions)
        )
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: object,
    ) -> RNNSearchModelOutput:
        """Encode sentences: ids (B, T), T >= 0, or their word vectors (B, T, m).

        The mask (B, T) is nonzero on real tokens, anywhere in a row; without it every token is
        real, and ids of padding are logged as a warning. Other keywords are ignored, as in
        transformers.

        Raises:
            ValueError: If not exactly one of ids and word vectors is given, or if they or the mask
                have another shape.
        """
        words, real = self.embed(input_ids, inputs_embeds, attention_mask)
        words = self.dropout(words)
        x = words
        num_tokens = words.shape[1]
        mask = first_tokens(real, self.config.max_tokens)
        if num_tokens == 0:  # read one token of padding, so that there is a last state
            x = F.pad(x, (0, 0, 0, 1))
            mask = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        projected, *weights = zip(*(unit(x, mask) for unit in self.units), strict=True)
        forwards, *backwards = projected
        inputs = torch.stack([forwards, *(x.flip(1) for x in backwards)])  # (D, B, T, 3n)
        gates_weight, state_weight = map(torch.stack, weights)
        state = inputs.new_zeros(*inputs.shape[:2], self.config.hidden_size)
        states = []
        for x in inputs.unbind(2):
            state = next_state(x, state, gates_weight, state_weight)
            states.append(state)
        forwards, *backwards = torch.stack(states, 2)
        annotations = torch.cat([forwards, *(h.flip(1) for h in backwards)], -1)
        annotations = annotations.masked_fill(~mask.unsqueeze(-1), 0)[:, :num_tokens]
        _, shows_states = self.asked_outputs(None, output_hidden_states)
        return RNNSearchModelOutput(
            last_hidden_state=annotations,
            sentence_embedding=state.transpose(0, 1).flatten(1),
            hidden_states=(words, annotations) if shows_states else None,
        )


class SourceReader(nn.Module):
    """The encoder and the part of the decoder that is computed once per sentence."""

    def __init__(self, encoder: RNNSearchModel, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, *args: object, **kwargs: object) -> RNNSearchModelOutput:
        """Read source sentences; arguments and errors as in `RNNSearchModel.forward`."""
        return self.decoder.read(self.encoder(*args, **{**kwargs, "return_dict": True}))


class RNNSearchForConditionalGeneration(RNNSearchPreTrainedModel, GenerationMixin):
    """The translation model: encoder, decoder and output layer."""

    summary = "A translation model."

    def __init__(self, config: RNNSearchConfig) -> None:
        super().__init__(config)
        self.encoder = RNNSearchModel(config)
        self.decoder = Decoder(config)
        self.lm_head = nn.Linear(config.maxout_size, config.vocab_size)  # W_o
        self.post_init()

    def get_encoder(self, modality: str | None = None) -> SourceReader:
        """Return the module that `generate` calls once per source sentence."""
        return SourceReader(self.encoder, self.decoder)

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Resize both embedding matrices and the output layer, as transformers does one."""
        resized: nn.Embedding = super().resize_token_embeddings(*args, **kwargs)
        rows = resized.weight.shape[0]
        self.decoder.embeddings = self._get_resized_embeddings(self.decoder.embeddings, rows)
        return resized

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, next_sequence_length: int | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return what `forward` reads next: the target words after those that the state has read.

        `generate` calls this with all target words (B, L) before each step. The state is found by
        its class, because transformers renames the argument that holds it, and the words left to
        read by the state. Without a state all are read again, which is slow and right.

        Raises:
            ValueError: If the cache is of another model.
        """
        cache = decoder_cache(kwargs)
        others = {name: value for name, value in kwargs.items() if not isinstance(value, Cache)}
        unread = input_ids[:, cache.get_seq_length() :]
        stock: Any = super()
        inputs: dict[str, object] = stock.prepare_inputs_for_generation(unread, **others)
        inputs[CACHE_NAME] = cache
        return inputs

    def prepare_decoder_input_ids_from_labels(self, labels: Any) -> Tensor:
        """Return y_0 to y_{L-1}: the labels moved to the right, shape (B, L)."""
        start = self.config.decoder_start_token_id
        words = labels.masked_fill(labels == IGNORED_LABEL, start)  # y_0 after padding on the left
        return F.pad(words[:, :-1], (1, 0), value=start)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: RNNSearchModelOutput | None = None,
        cache: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        past_key_values: Cache | None = None,
        **kwargs: object,
    ) -> RNNSearchOutput:
        """Score target words, given the source and the target words before each.

        The source is `input_ids` (B, T), T >= 0, or `inputs_embeds` (B, T, m), with its mask, or
        the output of `get_encoder()`. If `decoder_input_ids` (B, L) are missing,
        the model derives y_0 to y_{L-1} from the labels y_1 to y_L (-100: not counted). If
        `decoder_attention_mask` also covers the words that the cache has read, the model reads its
        last L entries; by default the labels give the mask. Only padding on the left changes a
        result. `cache` holds the state after the words before these, as the model always returns
        it; it is read by any name, such as `past_key_values` of transformers before 5.24, and
        without it the words are the first. `Trainer` gives `num_items_in_batch`: see
        `translation_loss`. Other keywords are ignored, as in transformers.

        Raises:
            ValueError: If the source is missing, inputs have other shapes, or a cache is of another
                model.
        """
        source: Any = encoder_outputs
        if source is None:
            encode = self.get_encoder()
            source = encode(input_ids, attention_mask, inputs_embeds, output_hidden_states)
        if decoder_input_ids is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        decoded = decoder_cache({"cache": cache, "past_key_values": past_key_values, **kwargs})
        mask = _mask_of_words(decoder_input_ids, decoder_attention_mask, labels, decoded)
        real = real_tokens(source.last_hidden_state, attention_mask)
        source_mask = first_tokens(real, self.config.max_tokens)
        hidden, state, alignment = self.decoder(
            decoder_input_ids, source, source_mask, mask, decoded.state
        )
        logits = self.lm_head(hidden)
        loss = nll = None
        if labels is not None:
            smoothing = self.config.label_smoothing if self.training else 0.0
            labels = labels.to(logits.device)
            loss, nll = translation_loss(logits, labels, smoothing, num_items_in_batch)
        returned: dict[str, Any] = {
            CACHE_NAME: RNNSearchCache(state, decoded.num_words + decoder_input_ids.shape[1])
        }
        attends, shows_states = self.asked_outputs(output_attentions, output_hidden_states)
        has_alignment = attends and alignment is not None
        return RNNSearchOutput(
            loss=loss,
            logits=logits,
            cross_attentions=(alignment[:, None],) if has_alignment else None,
            encoder_last_hidden_state=source.last_hidden_state,
            encoder_hidden_states=source.hidden_states,
            decoder_hidden_states=(hidden,) if shows_states else None,
            nll=nll,
            **returned,
        )


def _mask_of_words(
    words: Tensor, mask: Tensor | None, labels: Tensor | None, decoded: Any
) -> Tensor | None:
    """Return True on the real ones of target words (B, L), None if all are; as `forward` says."""
    if labels is not None:
        check_one_per_token("labels", labels, words)
        if mask is None:
            mask = (labels != IGNORED_LABEL).long().cummax(1).values
    if mask is None:
        return None
    if decoded.num_words > 0:  # the mask may also be of those that it has read
        mask = mask[:, -words.shape[1] :]
    check_one_per_token("decoder_attention_mask", mask, words)
    return mask != 0
