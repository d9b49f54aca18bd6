"""How many sentences lie nearest to their translation, layer by layer?

    python scripts/nearest_neighbours.py runs/both --parallel data/multi30k_en_fr.dev.jsonl.gz
        --text_column_names en,fr --record neighbours.json --figure neighbours.svg

The command measures any model that AutoModel loads, or the encoder of an encoder-decoder, without
running code in the checkpoint. A sentence is the mean of the states of a layer; each row of a
sentence matrix and the embedding are measured too. The table shows the accuracy without a shift and
with the mean difference between the languages added, estimated on the half of the pairs without the
sentence (other). The record also holds the shift over all pairs, as in Pires et al. (2019) (same).
--random_weights measures the untrained model. The figure needs pip install 'sase_hf[viz]'.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, set_seed

from sase_hf.data.arguments import PairArguments
from sase_hf.data.splits import load_pairs
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.retrieval.neighbours import SHIFTS, accuracy_by_layer, layer_vectors
from sase_hf.utils.cli import column_names, errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import check_output
from sase_hf.utils.loading import EAGER, load_any_model, name_checkpoints, reraise_naming
from sase_hf.visualization import check_figure_path, lines_figure, save_figure

SEED = 42


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a table for each checkpoint, write record and figure."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoints", nargs="+", help="folders or names on the Hub")
    add("--parallel", required=True, help="file of sentences and their translations")
    add("--text_column_names", type=column_names, required=True, metavar="NAMES", help="en,fr")
    add("--names", nargs="+", help="names of the checkpoints; by default their last part")
    add("--random_weights", action="store_true", help="measure the models with new weights")
    add("--max_rows", type=positive_int, help="the first pairs only")
    add("--per_device_eval_batch_size", type=positive_int, default=32, help="(default: 32)")
    add("--record", type=Path, help="file for the record, .json")
    add("--figure", type=Path, help="file for the figure of accuracy by layer, .png or .svg")
    flags = parser.parse_args(argv)
    columns = flags.text_column_names
    with errors_in_one_line(__file__):
        check_output(flags.record)
        if flags.figure is not None:
            check_figure_path(flags.figure)
        named = name_checkpoints(flags.checkpoints, flags.names)
        task = load_pairs(
            PairArguments(
                validation_file=flags.parallel,
                text_column_names=columns,
                max_eval_samples=flags.max_rows,
            )
        )
        sides = [task.splits["validation"][column][:] for column in ("text", "text_pair")]
        records, lines = {}, {}
        for name, checkpoint in named.items():
            start = time.perf_counter()
            model, tokenizer = load_encoder(checkpoint, flags.random_weights)
            batch_size = flags.per_device_eval_batch_size
            layers = accuracy_by_layer(
                *(layer_vectors(model, tokenizer, side, batch_size) for side in sides)
            )
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
        if flags.figure is not None:
            save_figure(lines_figure(lines, "layer", "nearest-neighbour accuracy"), flags.figure)


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


if __name__ == "__main__":
    main()
