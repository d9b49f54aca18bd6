"""How many sentences lie nearest to their translation, layer by layer?

    python scripts/lab/nearest_neighbours.py runs/both --file data/multi30k_en_fr.dev.jsonl.gz
        --text_column_names en,fr --record neighbours.json --plot neighbours.svg

The command measures any model that AutoModel loads, or the encoder of an encoder-decoder, without
running code in the checkpoint. A sentence is the mean of the states of a layer; each row of a
sentence matrix and the embedding are measured too. The table shows the accuracy without a shift and
with the mean difference between the languages added, estimated on the half of the pairs without the
sentence (other). The record also holds the shift over all pairs (same), as in section 5 of Pires,
Schlinger and Garrette, How multilingual is Multilingual BERT? (ACL 2019). --random_weights measures
the untrained model. The plot needs pip install 'sase_hf[lab]'.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from charts import check_figure_path, lines_figure, save_figure
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer, set_seed
from transformers.utils import logging

from sase_hf.data.arguments import PairArguments
from sase_hf.data.rows import load_rows
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.utils.cli import add_text_column_names, errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import check_output
from sase_hf.utils.loading import EAGER, load_any_model, name_checkpoints, reraise_naming

SEED = 42
BLOCK = 512  # source rows that are compared at once
SHIFTS = ("none", "other", "same")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a table for each checkpoint, write record and plot."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoints", nargs="+", help="folders or names on the Hub")
    add("--file", required=True, help="file of sentences and their translations")
    add_text_column_names(parser)
    add("--names", nargs="+", help="names of the checkpoints; by default their last part")
    add("--random_weights", action="store_true", help="measure the models with new weights")
    add("--max_rows", type=positive_int, help="the first pairs only")
    add("--per_device_eval_batch_size", type=positive_int, default=32, help="(default: 32)")
    add("--record", type=Path, help="file for the record, .json")
    add("--plot", type=Path, help="file for the accuracy by layer, .png or .svg")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        inputs = [flags.file, *flags.checkpoints]
        check_output(flags.record, inputs)
        check_output(flags.plot, [flags.record, *inputs])
        if flags.plot is not None:
            check_figure_path(flags.plot)
        named = name_checkpoints(flags.checkpoints, flags.names)
        task = load_rows(
            PairArguments(
                validation_file=flags.file,
                text_column_names=flags.text_column_names,
                max_eval_samples=flags.max_rows,
            )
        )
        columns = task.text_columns
        sides = [task.splits["validation"][column][:] for column in ("text", "text_pair")]
        records, lines = {}, {}
        for name, checkpoint in named.items():
            start = time.perf_counter()
            model, tokenizer = load_encoder(checkpoint, flags.random_weights)
            batch_size = flags.per_device_eval_batch_size
            vectors = [layer_vectors(model, tokenizer, side, batch_size) for side in sides]
            layers = {
                layer: {
                    shift: [
                        nearest_neighbour_accuracy(source[layer], target[layer], shift)
                        for source, target in (vectors, vectors[::-1])
                    ]
                    for shift in SHIFTS
                }
                for layer in vectors[0]
            }
            records[name] = {"accuracy": layers} | measured_record(
                name=name,
                metrics={"best": max(share for ways in layers.values() for share in ways["other"])},
                split="validation",
                sources=task.sources,
                seed=SEED,
                arguments={"text_column_names": columns, "random_weights": flags.random_weights},
                config=model.config,
                num_parameters=model.num_parameters(),
                wall_seconds=time.perf_counter() - start,
            )
            means = [sum(a["other"]) / 2 for name, a in layers.items() if name.startswith("layer ")]
            lines[name] = [float(i) for i in range(len(means))], means
            print(*table(name, columns, layers), sep="\n")
        if flags.record is not None:
            write_record(records, flags.record)
        if flags.plot is not None:
            save_figure(lines_figure(lines, "layer", "nearest-neighbour accuracy"), flags.plot)


def load_encoder(checkpoint: str, random_weights: bool) -> tuple[Any, Any]:
    """Return the encoder of a checkpoint, in evaluation mode and float32, and its tokenizer."""
    auto_class: Any = AutoModel
    safe: Any = {"trust_remote_code": False}
    with reraise_naming(checkpoint):
        if random_weights:
            set_seed(SEED)
            config = AutoConfig.from_pretrained(checkpoint, **safe)
            model = auto_class.from_config(config, dtype=torch.float32, **safe, **EAGER).eval()
        else:
            model = load_any_model(checkpoint)
        tokenizer = AutoTokenizer.from_pretrained(checkpoint, **safe)
    return model.get_encoder() if model.config.is_encoder_decoder else model, tokenizer


def table(name: str, columns: Sequence[str], layers: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table: a row for each layer, with and without the shift."""
    ways = " to ".join(columns), " to ".join(reversed(columns))
    yield name
    yield " " * 12 + "".join(f"{way}, {shift}".rjust(20) for way in ways for shift in SHIFTS[:2])
    for layer, found in layers.items():
        cells = (found[shift][i] for i in range(2) for shift in SHIFTS[:2])
        yield f"{layer:<12}" + "".join(f"{cell:>20.1%}" for cell in cells)


@torch.inference_mode()
def layer_vectors(
    model: Any, tokenizer: Any, texts: Sequence[str], batch_size: int = 32
) -> dict[str, Tensor]:
    """Return the vectors (N, H) of N texts by the name of their layer.

    `layer 0` is the mean word vector and `layer i` the mean state of layer i, without special
    tokens; a text without tokens has the vector 0. `hop i` is row i of a sentence matrix, and
    `sentence` the sentence embedding, if the model (an encoder in evaluation mode) has them.
    """
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]), reverse=True)
    parts: dict[str, list[Tensor]] = {}
    config = model.config
    hops = config.num_hops if hasattr(config, "num_hops") and config.has_attention else 1
    for start in logging.tqdm(range(0, len(order), batch_size), desc="Encoding", delay=1):
        batch = tokenizer(
            [texts[row] for row in order[start : start + batch_size]],
            padding=True,
            return_special_tokens_mask=True,
            return_tensors="pt",
        ).to(model.device)
        counts = batch["attention_mask"].bool() & ~batch.pop("special_tokens_mask").bool()
        outputs = model(**batch, output_hidden_states=True)
        states = outputs.hidden_states
        weights = (counts / counts.sum(1, keepdim=True).clamp(min=1)).unsqueeze(-1)
        found = {f"layer {i}": (layer.float() * weights).sum(1) for i, layer in enumerate(states)}
        if (embedding := outputs.get("sentence_embedding")) is not None:
            rows = embedding.float().chunk(hops, 1)
            found |= {f"hop {i + 1}": row for i, row in enumerate(rows) if hops > 1}
            found["sentence"] = embedding.float()
        for name, vectors in found.items():
            parts.setdefault(name, []).append(vectors.cpu())
    place = torch.tensor(order).argsort()
    return {name: torch.cat(vectors)[place] for name, vectors in parts.items()}


def nearest_neighbour_accuracy(source: Tensor, target: Tensor, shift: str = "other") -> float:
    """Return the share of source rows (N, H) whose nearest target row, in L2, has the same number.

    Row i of the target (N, H) translates row i of the source. The `shift`, the mean of target minus
    source, is added to a source row first: over all pairs (`same`, as in the paper), over the half
    without the row (`other`, which leaks nothing), or `none`. ValueError: fewer than two pairs.
    """
    if len(source) < 2:
        raise ValueError(f"there are {len(source)} pairs; give at least 2")
    source, target = source.double(), target.double()
    difference = target - source
    if shift == "same":
        source = source + difference.mean(0)
    elif shift == "other":
        is_odd = (torch.arange(len(source)) % 2 == 1).unsqueeze(1)
        source = source + torch.where(is_odd, difference[::2].mean(0), difference[1::2].mean(0))
    right = 0
    for start in range(0, len(source), BLOCK):
        nearest = torch.cdist(source[start : start + BLOCK], target).min(1).indices
        right += int((nearest == torch.arange(start, start + len(nearest))).sum())
    return right / len(source)


if __name__ == "__main__":
    main()
