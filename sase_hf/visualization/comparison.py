"""Two or more models on the same texts, side by side in one page."""

from collections.abc import Mapping, Sequence

from .markup import MAX_HOP_WEIGHTS, Allowance, escaped, joined
from .page import READ_LIKE_THIS, document, num_views, picture, prediction, verdict
from .readings import Reading, Result, read_results

Read = list[tuple[Result, list[Reading]]]


def comparison_html(
    results: Mapping[str, Result | Sequence[Result]], title: str = "Attention compared"
) -> str:
    """Show where several models looked in the same texts: one stand-alone page, without scripts.

    Args:
        results: By the name of each model, what the `self-attention` pipeline returned for the
            texts, in the same order. With a model trained with the penalty and one trained without
            this is Figure 4 of the paper.
        title: The heading.

    Returns:
        The page; as `sase_hf.visualization.attention_html`, with a column for each model.

    Raises:
        ValueError: If there are fewer than two models, their texts are not the same, or a result is
            not one of that pipeline.
    """
    if len(results) < 2:
        raise ValueError(
            f"the results of {len(results)} model(s) came; to compare, give those of two or more "
            "as {name: results}. For one model there is attention_html"
        )
    read = {name: read_results(own) for name, own in results.items()}
    _require_same_texts(read)
    allowance = Allowance(MAX_HOP_WEIGHTS)
    groups = [
        _group(number, dict(zip(read, rows, strict=True)), allowance)
        for number, rows in enumerate(zip(*read.values(), strict=True), start=1)
    ]
    return document(joined(*groups), title, max(map(num_views, read.values())), READ_LIKE_THIS)


def _require_same_texts(read: Mapping[str, Read]) -> None:
    """Raise if the models were not given the same texts."""
    first, *others = read
    for other in others:
        if len(read[first]) != len(read[other]):
            raise ValueError(
                f"{first!r} has {len(read[first])} results and {other!r} {len(read[other])}; give "
                "both the same texts"
            )
        for place, ((one, _), (two, _)) in enumerate(zip(read[first], read[other], strict=True)):
            if one["text"] != two["text"]:
                raise ValueError(
                    f"result {place} (counted from 0) of {first!r} is about {one['text']!r:.80} "
                    f"and that of {other!r} about {two['text']!r:.80}; give both the same texts in "
                    "the same order"
                )


def _group(
    number: int, rows: Mapping[str, tuple[Result, list[Reading]]], allowance: Allowance
) -> str:
    """Show what each model makes of one text."""
    columns = []
    for place, (name, (result, readings)) in enumerate(rows.items(), start=1):
        kind = "result pair" if len(readings) > 1 else "result"
        columns.append(
            joined(
                f'<article class="{kind}">\n<header>\n<h3><bdi>{escaped(name)}</bdi></h3>',
                f"<p>{prediction(result)}</p>{verdict(result)}",
                "</header>",
                picture(result, readings, f"text-{number}-{place}", allowance),
                "</article>",
            )
        )
    return joined(
        f'<section class="group" id="text-{number}">\n<h2>Text {number}</h2>\n<div class="models">',
        *columns,
        "</div>\n</section>",
    )


__all__ = ["comparison_html"]
