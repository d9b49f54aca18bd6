"""A new model on word vectors or on a pretrained encoder, for all tasks of texts; ranking."""

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from itertools import accumulate, chain
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedConfig, PreTrainedModel, TokenizersBackend
from transformers.trainer_utils import EvalLoopOutput

from ..data.batching import encode_rows
from ..data.rows import Rows
from ..data.table import texts_of
from ..data.tokenizer import (
    DEFAULTS,
    add_words,
    build_tokenizer,
    built_settings,
    choose_level,
    cut,
    untrained,
    with_texts_apart,
)
from ..data.vectors import WIDTH, has_tokens, load_word_vectors, own_word_vectors, vector_rows
from ..evaluation.baselines import ranks_by_words
from ..models import FAMILIES, RETRIEVAL, unit_rows
from ..models.layers_self_attentive import Rows as TokenRows
from ..retrieval.embed import ranking_metrics, ranks_of_own
from ..training.settings import AUTO_LEVEL, BY_TOKENS, NO_VECTORS, OWN_VECTORS
from ..training.task import ModelAndTokenizer, Task, TrainingSetup, untrained_model
from ..training.trainer import SelfAttentiveTrainer
from ..utils.loading import (
    build_on_encoder,
    check_tokenizer,
    reraise_naming,
    retrieval_head,
)
from ..utils.text import Table, refusal

logger = logging.getLogger(__name__)

READY = ("model_name_or_path", "encoder_name_or_path", "tokenizer_name")
# With fewer rows a pretrained encoder stays as it is: they would spoil more than they teach.
LEAST_TRAINED = 4_000
MOST_REMEMBERED = 5_000  # texts whose states are in memory


class RememberedStates:
    """`forward` of a frozen encoder that reads each text once, known by its word vectors."""

    def __init__(self, read: Callable[[Tensor, TokenRows], list[Tensor]]) -> None:
        self.read = read
        self.states: dict[bytes, Tensor] = {}  # (T, H) of each text, on the CPU

    def __call__(self, x: Tensor, rows: TokenRows) -> list[Tensor]:
        """Return the last states (B, S, H) from word vectors (B, S, d)."""
        if x.requires_grad:  # to follow what each word adds
            return self.read(x, rows)
        if len(self.states) > MOST_REMEMBERED:
            self.states.clear()
        states = [self._of_text(text[real]) for text, real in zip(x, rows.real, strict=True)]
        padded = pad_sequence(states, batch_first=True)
        return [F.pad(padded, (0, 0, 0, x.shape[1] - padded.shape[1])).to(x.device)]

    def _of_text(self, x: Tensor) -> Tensor:
        key = sha256(x.cpu().numpy().tobytes()).digest()
        if key not in self.states:
            row = TokenRows(x.new_ones(1, len(x), dtype=torch.bool))
            with torch.autocast(x.device.type, enabled=False):  # the model answers without it
                [states] = self.read(row.left(x.unsqueeze(0)), row)
            self.states[key] = states[0, : len(x)].cpu()
        return self.states[key]


class EncoderTask(Task):
    """A task whose model reads texts by the encoder that the settings describe.

    few_tokens: the tokens below which words that occur once stay, where the settings leave it open.
        Of 19,000 tokens (1,000 sentences) they gain 1.7 points by the linear part; of 50,000 the
        hops lose three, since what is new in later texts shares a vector that was never trained.
    least_own_tokens: the tokens from which on a new model starts from vectors of its own texts.
        Vectors of 20,000 tokens cost four points of accuracy, of 50,000 to 90,000 they change
        nothing, and of 130,000 they gain two. A ranker of 1,300 pairs finds twice as much.
    """

    few_tokens: ClassVar[int] = 25_000
    least_own_tokens: ClassVar[int] = 100_000

    def vectors_for(self, rows: Rows, tokenizer: TokenizersBackend) -> list[str]:
        """Return the word vectors that a new model starts from, as `--word_vectors` names them."""
        model = self.settings
        if model.word_vectors is not None:
            return [name for name in dict.fromkeys(model.word_vectors) if name != NO_VECTORS]
        is_new = model.model_name_or_path is None and model.encoder_name_or_path is None
        if not is_new or "train" not in rows.splits:
            return []
        are_enough = has_tokens(rows.texts_to_learn_from(), tokenizer, self.least_own_tokens)
        return [OWN_VECTORS] if are_enough else []

    def first_vectors(self, setup: TrainingSetup) -> list[str]:
        """Return them as `--word_vectors` names them."""
        return list(setup.vectors_found) or self.vectors_for(setup.rows, setup.tokenizer)

    def prepare(self, setup: TrainingSetup) -> None:
        """Let a frozen encoder read each text once."""
        super().prepare(setup)
        config = setup.model.config
        if self.args.do_train and config.encoder == "auto_model" and config.freeze_embeddings:
            encoder: Any = setup.model.base_model.token_encoder
            encoder.forward = RememberedStates(encoder.forward)

    def after_evaluation(self, setup: TrainingSetup) -> bool:
        """Forget the states of a frozen encoder."""
        vars(setup.model.base_model.token_encoder).pop("forward", None)
        return super().after_evaluation(setup)

    def know_held_out_words(self, setup: TrainingSetup) -> None:
        """Let the tokenizer of a new model know the words that only held-out rows have, too.

        The encoder reads them as it reads unknown ones: what was measured of it holds.
        """
        rows, tokenizer, model = setup.rows, setup.tokenizer, setup.model
        built = built_settings(tokenizer) or {}
        if self.settings.given(READY) or built.get("level") != "word":
            return
        counts: Counter[str] = Counter()
        held_out = texts_of(rows.splits["validation"])
        for text in chain.from_iterable(row.values() for row in held_out):
            counts.update(cut(text, tokenizer.backend_tokenizer))
        least = self._least_frequency(rows)
        words = [word for word, count in sorted(counts.items()) if count >= least]
        add_words(tokenizer, words, self.settings.vocab_size or DEFAULTS["word"][0])
        num_known = model.config.vocab_size
        vectors = model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        weight = vectors.get_parameter("weight").data
        weight[num_known:] = weight[tokenizer.unk_token_id]
        setup.tokens.update(encode_rows(rows, tokenizer, model.config.max_tokens))

    def build(self, head: type[PreTrainedModel], rows: Rows) -> ModelAndTokenizer:
        """Return a new model and its tokenizer; a flag overrides an entry of `fields_of`."""
        model = self.settings
        encoder = model.encoder_name_or_path
        if model.word_vectors and encoder is not None:
            raise refusal("--encoder_name_or_path brings word vectors", "leave out --word_vectors")
        tokenizer = self.new_tokenizer(rows, partial(self._build_tokenizer, rows), ready=encoder)
        config_fields = {
            **self.fields_of(head, rows, len(tokenizer)),
            **model.given(model.config_fields),
            "pad_token_id": tokenizer.pad_token_id,
        }
        if encoder is None:
            config_fields["vocab_size"] = len(tokenizer)
            return self._model_on_vectors(head, rows, tokenizer, config_fields)
        if config_fields.pop("encoder", "auto_model") != "auto_model":
            raise refusal(
                "--encoder builds a new encoder, but --encoder_name_or_path loads one",
                "give only one of the two",
            )
        are_few = len(rows.splits.get("train", ())) < LEAST_TRAINED
        config_fields.setdefault("freeze_embeddings", are_few)
        on_encoder = build_on_encoder(head, encoder, **config_fields)
        with reraise_naming(encoder, "the tokenizer for "):
            check_tokenizer(tokenizer, on_encoder.config.vocab_size)
        return ModelAndTokenizer(on_encoder, tokenizer)

    def fields_of(self, head: type[PreTrainedModel], rows: Rows, num_words: int) -> dict[str, Any]:
        """Return fields of a new model that follow from its head, its rows and its words."""
        return {}

    def _build_tokenizer(self, rows: Rows, texts: list[str], **options: Any) -> TokenizersBackend:
        """Return a new tokenizer of the asked level.

        One of words has those left out of the rows, and those that have a vector.
        """
        options["min_frequency"] = self._least_frequency(rows)
        model = self.settings
        is_measured = model.level == AUTO_LEVEL and not model.vector_files
        if is_measured and len(rows.text_columns) == 1:
            options["level"] = choose_level(texts)
        if options.get("level") == "subword":
            del options["min_frequency"]  # of words
            return build_tokenizer(texts, **options)
        words_of_files = (word for path in model.vector_files for word, _ in vector_rows(path))
        options["extra_words"] = chain(rows.left_out, words_of_files)
        return build_tokenizer(texts, **options)

    def _least_frequency(self, rows: Rows) -> int:
        """Return how often a word must occur: if none was asked for, more than once in many."""
        asked = self.settings.min_frequency
        if asked != BY_TOKENS:
            return asked or 1
        tokenizer = untrained()
        counts = accumulate(len(cut(text, tokenizer)) for text in rows.texts_to_learn_from())
        return 2 if any(count >= self.few_tokens for count in counts) else 1

    def _model_on_vectors(
        self,
        head: type[PreTrainedModel],
        rows: Rows,
        tokenizer: TokenizersBackend,
        config_fields: dict[str, Any],
    ) -> ModelAndTokenizer:
        """Return a model that starts from word vectors, or from random ones if there are none."""
        names = self.vectors_for(rows, tokenizer)
        vectors = {
            name: load_word_vectors(name, tokenizer) for name in names if name != OWN_VECTORS
        }
        width_of_files = sum(matrix.shape[1] for matrix, _ in vectors.values())
        if names:
            own_width = WIDTH if OWN_VECTORS in names else 0  # wider or narrower if it is asked for
            config_fields.setdefault("embedding_size", width_of_files + own_width)
        model = untrained_model(head, **config_fields)
        config = model.config
        if OWN_VECTORS in names:
            vectors[OWN_VECTORS] = own_word_vectors(
                rows.texts_to_learn_from(),
                tokenizer,
                width=config.embedding_size - width_of_files,
                std=config.initializer_range,
                seed=self.args.seed,
            )
        if names:
            weight = model.get_input_embeddings().get_parameter("weight")
            weight.data.copy_(torch.cat([matrix for matrix, _ in vectors.values()], dim=1))
        found = {name: share for name, (_, share) in vectors.items()}
        return ModelAndTokenizer(model, tokenizer, found)


# ---- ranking: each query of a batch learns to find its own document ------------------------------


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

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate; the predictions are the scores and the matrices (B, 2, r * H)."""
        kwargs["ignore_keys"] = ["penalty", "attentions", "hidden_states", "last_hidden_state"]
        return super().evaluation_loop(*args, **kwargs)

    def metrics_of(self, output: EvalLoopOutput, prefix: str) -> dict[str, float]:
        """Return recall and mean reciprocal rank."""
        _, matrices = map(torch.from_numpy, output.predictions)
        queries, documents = unit_rows(matrices, self.model.config).unbind(1)
        return ranking_metrics(ranks_of_own(queries, documents))


class RetrievalTask(EncoderTask):
    """Ranking of documents for queries, from pairs without labels."""

    names = (RETRIEVAL,)
    trainer = RetrievalTrainer

    def choose_head(self, rows: Rows, config: PreTrainedConfig | None) -> type[PreTrainedModel]:
        """Return the ranker; a checkpoint may be that of another head, or of a base model."""
        if config is not None:
            return retrieval_head(str(config.name_or_path), config)
        return FAMILIES["self_attentive"].heads[RETRIEVAL]

    def evaluate(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup
    ) -> tuple[dict[str, float], list[Table]]:
        """Return the metrics, and log how TF-IDF of words ranks the same rows."""
        rows = setup.rows.splits["validation"]
        ranks = ranks_by_words(rows["text"][:], rows["text_pair"][:])
        of_words = (f"{name} {value:.4g}" for name, value in ranking_metrics(ranks).items())
        logger.info(f"TF-IDF of the words of the held-out rows has {', '.join(of_words)}")
        return super().evaluate(trainer, setup)

    def adapted(self, tokenizer: Any) -> TokenizersBackend:
        """Return a tokenizer that reads each text of a pair as `Embedder` reads it alone."""
        return with_texts_apart(super().adapted(tokenizer))
