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
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

Array = npt.NDArray[Any]
Input = str | dict[str, str]  # a text, or a pair `{"text": ..., "text_pair": ...}`

RECORD = "export.json"
MODEL = "model.onnx"
INT8_MODEL = "model_int8.onnx"

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_BEST = "best"
MAX_CHARACTERS = 2**20  # of a text that are read
# Of a batch, padding included. Larger batches outgrow the caches of a CPU and are slower.
BATCH_TOKENS = 2_048


class Predictor:
    """An exported model.

    Raises FileNotFoundError if a folder has no `export.json`, and ValueError if another file is
    missing, or not the one that was exported with the others.

    The folder is by default that of this file. With 0 `num_threads` onnxruntime chooses. Several
    threads can share a predictor.
    """

    def __init__(
        self,
        folder: str | Path = Path(__file__).parent,
        *,
        int8: bool = False,
        num_threads: int = 0,
    ) -> None:
        import onnxruntime  # here, because `onnx_export` imports this module without it

        self.folder = Path(folder)
        self._digests = json.loads((self.folder / RECORD).read_text("utf-8"))["sha256"]
        self.config = json.loads(self._content("config.json"))
        settings = json.loads(self._content("tokenizer_config.json"))
        self.tokenizer = Tokenizer.from_buffer(self._content("tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        # Whether `[PAD]` in a text is a word.
        self.tokenizer.encode_special_tokens = settings.get("split_special_tokens", False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads
        self.session = onnxruntime.InferenceSession(
            self._content(INT8_MODEL if int8 else MODEL),
            options,
            providers=["CPUExecutionProvider"],
        )
        self.inputs = [tensor.name for tensor in self.session.get_inputs()]
        output = self.session.get_outputs()[0]
        self.output, self.width = output.name, output.shape[1]
        self.labels = list(self.config["id2label"].values())  # written in the order of their ids

    def __call__(self, inputs: Input | Iterable[Input], top_k: Any = _BEST) -> Any:
        """Read a text, a pair `{"text": ..., "text_pair": ...}`, or several of either.

        Of a text the model reads the first `max_tokens` tokens of its config, of a pair those of
        each; the answers to a longer one have `truncated`, the number of the other tokens. The
        answer is that of the `text-classification` pipeline: for each input the best
        `{"label": ..., "score": ...}`, or the `top_k` best, None for all. A model without labels
        returns an embedding, shape (width,), or (inputs, width) for several inputs.

        Raises ValueError for one text if the model reads pairs, and TypeError for other inputs.
        """
        is_one = isinstance(inputs, str | dict)
        rows, num_cut = self._encode([inputs] if is_one else inputs)  # type: ignore[list-item]
        outputs = self._outputs(rows)
        if self.output == "sentence_embedding":
            return outputs[0] if is_one else outputs
        results: list[object] = []
        for scores, count in zip(self._scores(outputs), num_cut, strict=True):
            best = np.argsort(-scores, kind="stable")[: 1 if top_k == _BEST else top_k]
            rest = {"truncated": count} if count else {}
            found = [
                {"label": self.labels[index], "score": float(scores[index]), **rest}
                for index in best
            ]
            results.append(found[0] if top_k == _BEST else found)
        if not is_one:
            return results
        return results if isinstance(inputs, str) and top_k == _BEST else results[0]

    def read(self, inputs: Iterable[Input]) -> Array:
        """Return the logits or embeddings of several inputs, shape (inputs, width)."""
        return self._outputs(self._encode(inputs)[0])

    def _encode(self, inputs: Iterable[Input]) -> tuple[list[Array], list[int]]:
        """Return the tokens of each input that are read, and how many are not.

        A row of an array (T, 2 or 3) has for one token all that the graph reads.
        """
        texts = [
            self._texts(**one) if isinstance(one, dict) else self._texts(one) for one in inputs
        ]
        limit = self.config["max_tokens"]
        rows: list[Array] = []
        num_cut: list[int] = []
        for encoding in self.tokenizer.encode_batch_fast(texts):
            columns = [encoding.ids, encoding.attention_mask, encoding.type_ids]
            tokens = np.array(columns[: len(self.inputs)], np.int64).T
            # The types of a model of pairs; otherwise the mask, which has all tokens on one side.
            sides = tokens[:, -1]
            read = np.concatenate([np.flatnonzero(sides == side)[:limit] for side in (0, 1)])
            rows.append(tokens[read])
            num_cut.append(len(tokens) - len(read))
        if any(num_cut):
            warnings.warn(f"only the first {limit} tokens of a text are read", stacklevel=3)
        return rows, num_cut

    def _texts(self, text: str, text_pair: str | None = None) -> str | tuple[str, str]:
        """Return an input in the form that the tokenizer reads."""
        if text_pair is not None:
            return _readable(text), _readable(text_pair)
        if "token_type_ids" in self.inputs:
            form = '{"text": ..., "text_pair": ...}'
            raise ValueError(f"the input {text!r:.80} is no pair; this model reads {form}")
        return _readable(text)

    def _outputs(self, rows: list[Array]) -> Array:
        """Return the outputs for encoded inputs, (inputs, width); the longest are read first."""
        outputs = np.zeros((len(rows), self.width), np.float32)
        order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
        while order:
            longest = max(len(rows[order[0]]), 1)  # T = 0 is not allowed
            size = max(BATCH_TOKENS // longest, 1)
            batch, order = order[:size], order[size:]
            feed = np.zeros((len(batch), longest, len(self.inputs)), np.int64)
            feed[..., 0] = self.config["pad_token_id"] or 0
            for place, number in enumerate(batch):
                feed[place, : len(rows[number])] = rows[number]
            named = dict(zip(self.inputs, np.moveaxis(feed, -1, 0), strict=True))
            outputs[batch] = self.session.run([self.output], named)[0]
        return outputs

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

    def _content(self, name: str) -> bytes:
        """Return the bytes of a file; ValueError if they are not those that were exported."""
        path = self.folder / name
        content = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(content).hexdigest() != self._digests.get(name):
            raise ValueError(
                f"{path} is not as it was exported: its SHA-256 is not in {RECORD}, so the answers "
                f"could be wrong; export again, with --int8 for {INT8_MODEL}"
            )
        return content


def _readable(text: str) -> str:
    """Return the part of a text that is read; TypeError if it is no text."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text[:MAX_CHARACTERS])


def main() -> None:
    """Print as JSON the labels with their scores, or the embedding, of a text or a pair."""
    parser = argparse.ArgumentParser()
    parser.add_argument("text")
    parser.add_argument("text_pair", nargs="?")
    texts = vars(parser.parse_args())
    try:
        answer = Predictor()(texts, None)
    except (OSError, ValueError) as reason:  # of a file that is not that of the export
        parser.error(str(reason))
    print(json.dumps(answer, ensure_ascii=False, default=np.ndarray.tolist))


if __name__ == "__main__":
    main()
