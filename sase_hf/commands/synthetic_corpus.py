"""Write the synthetic corpus of the quickstart: reviews with stars and pairs of sentences.

sase_hf synthetic_corpus data/synthetic [--seed 0]
"""

import os
import sys
from collections.abc import Sequence

from ..utils.cli import make_parser
from .synthetic import write_corpus


def main(argv: Sequence[str] | None = None) -> None:
    """Write the corpus to the folder named on the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", help="where to write the .jsonl files and their README.md")
    parser.add_argument("--seed", type=int, default=0, help="which corpus (default: %(default)s)")
    arguments = parser.parse_args(argv)
    try:
        write_corpus(os.path.expanduser(arguments.folder), seed=arguments.seed)
    except OSError as error:
        sys.exit(f"synthetic_corpus.py: {error}")
