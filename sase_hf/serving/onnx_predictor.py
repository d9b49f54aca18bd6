"""Classify or embed texts with an exported model, without torch.

    python predictor.py "The room was small, but not bad."
    python predictor.py "The cook thanked the guest." "The guest thanked the cook."

    from predictor import Predictor
    predict = Predictor()

`sase_hf export` puts a copy of this file beside the model. It needs onnxruntime, tokenizers and
numpy only.
"""

import argparse
import hashlib
import json
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
BATCH_SIZE = 16  # texts; larger batches outgrow the caches of a CPU and are slower


class Predictor:
    """An exported model, from the folder of this file or another.

    Raises FileNotFoundError if the folder has no `export.json`, and ValueError if another file is
    missing, or not the one that was exported with the others. Several threads can share a
    predictor.
    """

    def __init__(self, folder: str | Path = Path(__file__).parent) -> None:
        self.folder = Path(folder)
        self._digests = json.loads((self.folder / RECORD).read_text("utf-8"))["sha256"]
        self.config = json.loads(self._content("config.json"))
        settings = json.loads(self._content("tokenizer_config.json"))
        self.tokenizer = Tokenizer.from_buffer(self._content("tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        # Whether `[PAD]` in a text is a word.
        self.tokenizer.encode_special_tokens = settings.get("split_special_tokens", False)
        import onnxruntime  # of an extra

        self.session = onnxruntime.InferenceSession(
            self._content("model.onnx"), providers=["CPUExecutionProvider"]
        )
        self.inputs = [tensor.name for tensor in self.session.get_inputs()]
        self.output = self.session.get_outputs()[0]
        self.labels = list(self.config["id2label"].values())  # written in the order of their ids

    def __call__(self, inputs: Input | Iterable[Input]) -> Any:
        """Read a text, a pair `{"text": ..., "text_pair": ...}`, or several of either.

        Of a text the model reads the first `max_tokens` tokens of its config, of a pair those of
        each; a longer one is a warning. The answer to each input is that of the
        `text-classification` pipeline with `top_k=None`: all labels as
        `{"label": ..., "score": ...}`, the best first. A model without labels returns an embedding,
        shape (width,), or (inputs, width) for several inputs.

        Raises ValueError for one text if the model reads pairs, and TypeError for other inputs.
        """
        if isinstance(inputs, str | dict):
            return self([inputs])[0]
        outputs = self._outputs(self._encode(inputs))
        if self.output.name == "sentence_embedding":
            return outputs
        results = []
        for scores in self._scores(outputs):
            best_first = np.argsort(-scores, kind="stable")
            labels = [{"label": self.labels[i], "score": float(scores[i])} for i in best_first]
            results.append(labels)
        return results

    def _encode(self, inputs: Iterable[Input]) -> list[Array]:
        """Return the tokens of each input that are read.

        A row of an array (T, 2 or 3) has for one token all that the graph reads.
        """
        texts = [
            self._texts(**one) if isinstance(one, dict) else self._texts(one) for one in inputs
        ]
        limit = self.config["max_tokens"]
        rows: list[Array] = []
        for encoding in self.tokenizer.encode_batch_fast(texts):
            columns = [encoding.ids, encoding.attention_mask, encoding.type_ids]
            tokens = np.array(columns[: len(self.inputs)], np.int64).T
            # The types of a model of pairs; otherwise the mask, which has all tokens on one side.
            sides = tokens[:, -1]
            read = np.concatenate([np.flatnonzero(sides == side)[:limit] for side in (0, 1)])
            if len(read) < len(tokens):
                warnings.warn(f"only the first {limit} tokens of a text are read", stacklevel=3)
            rows.append(tokens[read])
        return rows

    def _texts(self, text: str, text_pair: str | None = None) -> str | tuple[str, str]:
        """Return an input in the form that the tokenizer reads."""
        if text_pair is not None:
            return text, text_pair
        if "token_type_ids" in self.inputs:
            form = '{"text": ..., "text_pair": ...}'
            raise ValueError(f"the input {text!r:.80} is no pair; this model reads {form}")
        return text

    def _outputs(self, rows: list[Array]) -> Array:
        """Return the outputs for encoded inputs, (inputs, width)."""
        outputs = [np.zeros((0, self.output.shape[1]), np.float32)]
        for start in range(0, len(rows), BATCH_SIZE):
            batch = rows[start : start + BATCH_SIZE]
            longest = max(1, *map(len, batch))  # T = 0 is not allowed
            feed = np.zeros((len(batch), longest, len(self.inputs)), np.int64)
            feed[..., 0] = self.config["pad_token_id"] or 0
            for place, row in enumerate(batch):
                feed[place, : len(row)] = row
            named = dict(zip(self.inputs, np.moveaxis(feed, -1, 0), strict=True))
            outputs += self.session.run([self.output.name], named)
        return np.concatenate(outputs)

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
                "could be wrong; export again"
            )
        return content


def main() -> None:
    """Print as JSON the labels with their scores, or the embedding, of a text or a pair."""
    parser = argparse.ArgumentParser()
    parser.add_argument("text")
    parser.add_argument("text_pair", nargs="?")
    answer = Predictor()(vars(parser.parse_args()))
    print(json.dumps(answer, ensure_ascii=False, default=np.ndarray.tolist))


if __name__ == "__main__":
    main()
