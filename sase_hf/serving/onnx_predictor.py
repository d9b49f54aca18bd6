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
        self.tokenizer.no_truncation()  # the graph reads no token beyond `max_tokens`
        self.tokenizer.enable_padding()
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

        The model reads the first `max_tokens` tokens of its config, of a pair those of each text.
        The answer to each input is that of the `text-classification` pipeline with `top_k=None`:
        all labels as `{"label": ..., "score": ...}`, the best first. A model without labels returns
        an embedding, shape (width,), or (inputs, width) for several inputs.

        Raises ValueError for one text if the model reads pairs, and KeyError for other dicts.
        """
        if isinstance(inputs, str | dict):
            return self([inputs])[0]
        outputs = self._outputs([self._texts(one) for one in inputs])
        if self.output.name == "sentence_embedding":
            return outputs
        results = []
        for scores in self._scores(outputs):
            best_first = np.argsort(-scores, kind="stable")
            labels = [{"label": self.labels[i], "score": float(scores[i])} for i in best_first]
            results.append(labels)
        return results

    def _texts(self, one: Input) -> str | tuple[str, str]:
        """Return an input in the form that the tokenizer reads."""
        if isinstance(one, dict):
            return one["text"], one["text_pair"]
        if "token_type_ids" in self.inputs:
            form = '{"text": ..., "text_pair": ...}'
            raise ValueError(f"the input {one!r:.80} is no pair; this model reads {form}")
        return one

    def _outputs(self, texts: list[Any]) -> Array:
        """Return the outputs for texts or pairs, (inputs, width)."""
        outputs = [np.zeros((0, self.output.shape[1]), np.float32)]
        for start in range(0, len(texts), BATCH_SIZE):
            encoded = self.tokenizer.encode_batch(texts[start : start + BATCH_SIZE])
            fields = {
                "input_ids": [one.ids for one in encoded],
                "attention_mask": [one.attention_mask for one in encoded],
                "token_type_ids": [one.type_ids for one in encoded],
            }
            # A column of padding, for texts without a token.
            wide = ((0, 0), (0, 1))
            feed = {name: np.pad(np.array(fields[name], np.int64), wide) for name in self.inputs}
            outputs += self.session.run([self.output.name], feed)
        return np.concatenate(outputs)

    def _scores(self, logits: Array) -> Array:
        """Return the probabilities of the labels, or the values of a regression.

        These are `Answers.scores`, computed here in numpy because this file runs without torch.
        """
        problem = self.config.get("problem_type")
        if problem == "regression":
            return logits
        if problem == "multi_label_classification":
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
    given = parser.parse_args()
    answer = Predictor()(given.text if given.text_pair is None else vars(given))
    print(json.dumps(answer, ensure_ascii=False, default=np.ndarray.tolist))


if __name__ == "__main__":
    main()
