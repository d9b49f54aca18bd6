"""Check a checkpoint and publish it on the Hugging Face Hub.

    sase_hf push runs/mine OWNER/NAME --license apache-2.0 --language en --dry_run
    sase_hf push runs/mine OWNER/NAME

Before anything is sent, the model is loaded and checked: finite weights, the code of this
package, a card with a licence and a language, no tokens. Only the files that SHA256SUMS lists
go up, and the card, which says how to load the model.
--space publishes a page that holds the model, as `sase_hf export` writes it, and no checkpoint.
--onnx exports the model for ONNX Runtime into the folder onnx of the checkpoint, whose list names
its files; they go up, too. Log in first with `hf auth login`.
--private makes a new repository private.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..hub import Push, push
from ..models.checkpoint import saved_digests
from ..serving.html_export import live_page
from ..serving.onnx_export import MODEL, export
from ..utils.cli import errors_in_one_line, make_parser


def main(argv: Sequence[str] | None = None) -> None:
    """Push, and print the uploaded files and where the model is."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder with a model, its tokenizer and its README.md")
    add("repo_id", metavar="OWNER/NAME", help="the repository, created if it does not exist")
    add("--private", action="store_true", help="make the repository private")
    add("--license", help="such as apache-2.0 (default: that of the card)")
    add("--language", help="such as en (default: that of the card)")
    add("--dry_run", "--dry-run", action="store_true", help="check and list all, send nothing")
    either = parser.add_mutually_exclusive_group()
    space = "publish one HTML file that holds the model, as a static Space of nothing else"
    either.add_argument("--space", action="store_true", help=space)
    export_help = "add an export for ONNX Runtime, as onnx/"
    either.add_argument("--onnx", action="store_true", help=export_help)
    flags = vars(parser.parse_args(argv))
    with errors_in_one_line(__file__):
        done = publish(**flags)
    for name, size in done.files.items():
        note = "; holds the weights and all words" if name == "index.html" else ""
        print(f"{'goes up':<12}{name} ({size:,} bytes{note})")
    if done.commit is None:
        print(f"{'checked':<12}fit for {done.repo_id}; nothing was sent")
    else:
        print(f"{'page':<12}{done.url}")
        print(f"{'commit':<12}{done.commit}")


def publish(*, space: bool, onnx: bool, **flags: Any) -> Push:
    """Push a checkpoint, perhaps with an export, or its page."""
    about = {name: flags.pop(name) for name in ("license", "language")}
    folder = Path(flags["checkpoint"])
    if space:
        name = flags["repo_id"].rpartition("/")[2]  # not that of a folder of this machine
        flags["page"] = live_page(flags["checkpoint"], title=name, about=about)
    if onnx:
        if f"onnx/{MODEL}" in saved_digests(folder):
            shutil.rmtree(folder / "onnx")
        export(flags["checkpoint"], folder / "onnx")
    return push(**flags, about=about)
