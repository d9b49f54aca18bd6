"""Classify or embed texts with an exported model, without torch.

    python predictor.py "The room was small, but not bad."
    python predictor.py "The cook thanked the guest." "The guest thanked the cook."

    from predictor import Predictor
    predict = Predictor()

`scripts/export.py` puts a copy of this file beside the model. It needs onnxruntime, tokenizers and
numpy only.
"""

import argparse
import hashlib
import json
import logging
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

logger = logging.getLogger(__name__)

Array = npt.NDArray[np.floating]
Ids = npt.NDArray[np.int64]

RECORD = "export.json"
MODEL = "model.onnx"
INT8_MODEL = "model_int8.onnx"

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_BEST = "best"
MAX_CHARACTERS = 2**20  # of a text that are read
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Predictor:
    """An exported model.

    Raises FileNotFoundError if a file of it is missing, and ValueError if a file is not the one
    that was exported with the others; an export without `export.json`, or of an older version, is
    not compared.

    The folder is by default that of this file. With 0 `num_threads` onnxruntime chooses. A batch
    has at most `batch_tokens` tokens, padding included; a longer text is read alone. Larger batches
    outgrow the caches of a CPU and are slower. Several threads can share a predictor.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        int8: bool = False,
        num_threads: int = 0,
        batch_tokens: int = 2_048,
    ) -> None:
        try:
            import onnxruntime
        except ImportError as reason:
            raise ImportError("Predictor needs onnxruntime: pip install onnxruntime") from reason
        self.batch_tokens = batch_tokens
        self.folder = Path(__file__).parent if folder is None else Path(folder)
        self._digests = self._read_digests()
        model = self._file(INT8_MODEL if int8 else MODEL)
        self.config: dict[str, Any] = json.loads(self._file("config.json").read_text("utf-8"))
        settings = json.loads(self._file("tokenizer_config.json").read_text("utf-8"))
        self.tokenizer = Tokenizer.from_file(str(self._file("tokenizer.json")))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        # Whether `[PAD]` in a text is a word.
        self.tokenizer.encode_special_tokens = bool(settings.get("split_special_tokens"))
        self._has_warned_of_truncation = False
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads
        self.session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        self.inputs = [tensor.name for tensor in self.session.get_inputs()]
        self.output = self.session.get_outputs()[0].name
        self.labels: list[str] | None = None
        if self.output == "logits":
            names = self.config["id2label"]
            self.labels = [names[index] for index in sorted(names, key=int)]

    def __call__(
        self, inputs: str | dict[str, str] | Iterable[str | dict[str, str]], top_k: Any = _BEST
    ) -> Any:
        """Read a text, a pair `{"text": ..., "text_pair": ...}`, or several of either.

        Of a text the model reads the first `max_tokens` tokens of its config, of a pair those of
        each; the answers to a longer one have `truncated`, the number of the other tokens. The
        answer is that of the `text-classification` pipeline: for each input the best
        `{"label": ..., "score": ...}`, or the `top_k` best, None for all. A model without labels
        returns an embedding, shape (width,), or (inputs, width) for several inputs.
        """
        is_one = isinstance(inputs, str | dict)
        rows, num_cut = self._encode([inputs] if is_one else inputs)  # type: ignore[list-item]
        outputs = self._outputs(rows)
        if self.labels is None:
            return outputs[0] if is_one else outputs
        results: list[object] = []
        for scores, count in zip(self._scores(outputs), num_cut, strict=True):
            best = np.argsort(-scores, kind="stable")[: 1 if top_k == _BEST else top_k]
            found = [{"label": self.labels[index], "score": float(scores[index])} for index in best]
            if count:
                found = [{**answer, "truncated": count} for answer in found]
            results.append(found[0] if top_k == _BEST else found)
        if not is_one:
            return results
        return results if isinstance(inputs, str) and top_k == _BEST else results[0]

    def explain(self, *_: object, **__: object) -> Any:
        """Raise NotImplementedError, which says where answers are explained."""
        raise NotImplementedError(
            "the graph holds the way from a text to its answer and not the way back to the words; "
            "explain answers by pipeline('self-attention', ...) with the checkpoint, or in the "
            "HTML page that holds the model (sase_hf export CHECKPOINT model.html)"
        )

    def read(self, inputs: Iterable[str | dict[str, str]]) -> Array:
        """Return the logits or embeddings of several inputs, shape (inputs, width)."""
        return self._outputs(self._encode(inputs)[0])

    def _outputs(self, rows: list[Ids]) -> Array:
        outputs: dict[int, Array] = {}
        for numbers, feed in self._batches(rows):
            (found,) = self.session.run([self.output], feed)
            outputs.update(zip(numbers, found, strict=True))
        if not outputs:
            width = self.config["projection_dim"] if self.labels is None else len(self.labels)
            return np.zeros((0, width), np.float32)
        return np.stack([outputs[row] for row in range(len(outputs))])

    def batches(
        self, inputs: Iterable[str | dict[str, str]]
    ) -> Iterator[tuple[list[int], dict[str, Ids]]]:
        """Yield batches, the longest first: positions of inputs, and padded tensors (B, T)."""
        return self._batches(self._encode(inputs)[0])

    def _encode(self, inputs: Iterable[str | dict[str, str]]) -> tuple[list[Ids], list[int]]:
        """Return the tokens of each input that the model reads, and how many it does not."""
        texts = [self._texts(number, one) for number, one in enumerate(inputs)]
        encodings = self.tokenizer.encode_batch_fast(
            [one[0] if len(one) == 1 else one for one in texts]
        )
        rows = [self._first_tokens(encoding) for encoding in encodings]
        num_cut = [len(every) - row.shape[1] for every, row in zip(encodings, rows, strict=True)]
        if any(num_cut) and not self._has_warned_of_truncation:
            self._has_warned_of_truncation = True
            logger.warning(
                "A text was truncated: its last %d tokens are not read. Each answer to such a text "
                "has this count as `truncated`; this warning comes only once.",
                max(num_cut),
            )
        return rows, num_cut

    def _first_tokens(self, encoding: Encoding) -> Ids:
        """Return ids and types, (2, T), of the first tokens of a text, or of each of a pair."""
        row = np.array([encoding.ids, encoding.type_ids], np.int64)
        sides = row[1] if "token_type_ids" in self.inputs else np.zeros_like(row[1])
        limit = self.config["max_tokens"]
        read = [np.flatnonzero(sides == side)[:limit] for side in (0, 1)]
        return row[:, np.concatenate(read)]

    def _batches(self, rows: list[Ids]) -> Iterator[tuple[list[int], dict[str, Ids]]]:
        order = sorted(range(len(rows)), key=lambda row: -rows[row].shape[1])
        while order:
            longest = max(rows[order[0]].shape[1], 1)  # T = 0 is not allowed
            size = max(self.batch_tokens // longest, 1)
            batch, order = order[:size], order[size:]
            feed = {name: np.zeros((len(batch), longest), np.int64) for name in INPUTS}
            feed["input_ids"] += self.config.get("pad_token_id") or 0
            for place, number in enumerate(batch):
                ids, types = rows[number]
                feed["input_ids"][place, : len(ids)] = ids
                feed["token_type_ids"][place, : len(ids)] = types
                feed["attention_mask"][place, : len(ids)] = 1
            yield batch, {name: feed[name] for name in self.inputs}

    def _texts(self, number: int, one: object) -> tuple[str, ...]:
        """Return the text of an input, or its two."""
        values: list[object] = [one]
        if isinstance(one, dict) and one.keys() in ({"text"}, {"text", "text_pair"}):
            values = [one[name] for name in ("text", "text_pair") if name in one]
        texts = [value for value in values if isinstance(value, str)]
        allowed = {2} if "token_type_ids" in self.inputs else {1, 2} if self.labels else {1}
        if len(values) not in allowed or len(texts) < len(values):
            form = '{"text": ..., "text_pair": ...}' if allowed == {2} else "a text"
            raise ValueError(f"input {number} (from 0) is {one!r:.80}; this model reads {form}")
        readable = (text[:MAX_CHARACTERS] for text in texts)
        return tuple(_LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text) for text in readable)

    def _scores(self, logits: Array) -> Array:
        """Return the probabilities of the labels, or the values of a regression.

        These are `Answers.scores`, computed here in numpy because this file runs without torch.
        """
        problem = self.config.get("problem_type")
        if problem == "regression":
            return logits
        if problem == "multi_label_classification" or logits.shape[1] == 1:
            return 1 / (1 + np.exp(-logits))
        powers = np.exp(logits - logits.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    def _file(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            flag = " --int8" if name == INT8_MODEL else ""
            raise FileNotFoundError(
                f"{self.folder} has no {name}; scripts/export.py{flag} writes it"
            )
        if self._digests.get(name) not in (None, _sha256_of(path)):
            raise ValueError(
                f"{path} is not as it was exported: its SHA-256 is not in {RECORD}, so the answers "
                "could be wrong. Export again with scripts/export.py; if it was changed on "
                f"purpose, delete {RECORD}"
            )
        return path

    def _read_digests(self) -> dict[str, str]:
        """Return the SHA-256 of the files when they were exported; none if that is not known."""
        path = self.folder / RECORD
        if not path.is_file():
            return {}
        try:
            record = json.loads(path.read_text("utf-8"))
            return dict(record.get("sha256", {}))
        except (AttributeError, TypeError, ValueError) as reason:
            raise ValueError(f"{path} is damaged: {reason}. Restore it, or delete it") from reason


def _sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file; line ends of JSON count as git has them, not Windows."""
    if path.suffix == ".json":
        return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    """Print as JSON the labels with their scores, or the embedding, of a text or a pair."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text")
    parser.add_argument("text_pair", nargs="?")
    parser.add_argument("--int8", action="store_true", help="use the graph with int8 weights")
    flags = parser.parse_args()
    pair = {"text": flags.text, "text_pair": flags.text_pair}
    try:
        answer = Predictor(int8=flags.int8)(flags.text if flags.text_pair is None else pair, None)
    except (OSError, ValueError, ImportError) as error:
        sys.exit(f"predictor.py: {error}")
    answer = answer.tolist() if isinstance(answer, np.ndarray) else answer
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
