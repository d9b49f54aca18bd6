"""Draw the README's heatmap, light and dark, from a model of star ratings.

    python scripts/lab/study.py run "scripts/lab/recipes/yelp5.yaml#focused"
    python scripts/lab/figures.py runs/study/yelp5/focused-seed42

The files are heatmap_light.svg and heatmap_dark.svg. The same model gives the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path

from sase_hf.utils.cli import errors_in_one_line, make_parser
from sase_hf.utils.loading import load_pipeline
from sase_hf.visualization import attention_figure, save_figure

MODEL_CARDS = Path(__file__).parents[2] / "model_cards"
TEXT = "We waited an hour and the soup was cold, but the dessert was delicious and our waiter kind."


def main(argv: Sequence[str] | None = None) -> None:
    """Draw the figures and print where they are."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    add("--text", default=TEXT, help="the text that the model reads (default: %(default)s)")
    add("--output_dir", type=Path, default=MODEL_CARDS, help="a folder (default: model_cards)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        result = load_pipeline(flags.checkpoint)(flags.text)
        for theme in ("light", "dark"):
            figure = attention_figure(result, theme=theme)
            figure.set_facecolor("none")  # the page's own background
            path = flags.output_dir / f"heatmap_{theme}.svg"
            save_figure(figure, path)
            print(path)


if __name__ == "__main__":
    main()
