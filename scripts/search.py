"""Search for good settings: train with one after the other, and write the best as a recipe.

    python scripts/search.py scripts/recipes/yelp5.yaml --trials 20 --output_dir runs/search
    python scripts/train.py runs/search/best.yaml

Everything but --trials, by default 20, is a flag of scripts/train.py. Searched are learning rate,
dropouts, hops, attention size and the coefficient of the penalty, by Optuna; what is searched for
is --metric_for_best_model on the validation rows, by default accuracy, or mse for regressions. It
cannot be the loss while the coefficient is drawn: the loss holds the penalty, so that small ones
would win. The same command goes on after a stop, and with more --trials it adds to those that are
there. A trial that lags behind is broken off at an evaluation, so give --eval_strategy epoch. Needs
Optuna: pip install 'sase_hf[optuna]'
"""

import argparse
import logging
import sys
from collections.abc import Sequence

from sase_hf.training.command_line import parse_arguments
from sase_hf.training.search import search


def main(argv: Sequence[str] | None = None) -> None:
    """Search, and print the best settings and where everything lies.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--trials", type=int, default=20)
    flags, words = parser.parse_known_args(argv)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("sase_hf.training.run").setLevel(logging.INFO)
    try:
        if flags.trials < 1:
            raise ValueError(f"--trials is {flags.trials}; it must be 1 or more")
        best = search(*parse_arguments(words, description=__doc__), flags.trials)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"search.py: {error}")
    except KeyboardInterrupt:
        sys.exit("search.py: stopped; the same command goes on")
    results = {"trial": best["number"], best["metric"]: f"{best['value']:.4g}", **best["settings"]}
    for name, value in {**results, "trials": best["trials"], "recipe": best["recipe"]}.items():
        print(f"{name:<32}{value}")


if __name__ == "__main__":
    main()
