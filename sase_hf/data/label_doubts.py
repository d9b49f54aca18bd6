"""What may be wrong with the labels that a column has taught, for the log of a run."""

from collections.abc import Iterable, Iterator, Sequence

from ..models.answers import MULTI_LABEL, SINGLE_LABEL
from .joined_labels import names_with_others
from .label_values import is_like_missing, listed, looks, written
from .labels import LabelColumn


def label_doubts(labels: LabelColumn, drops_unlabelled: bool | None = None) -> Iterator[str]:
    """Yield what may be wrong with the names, with advice that fits the flags of the run."""
    yield from _doubts_of_twins(labels.names)
    is_inferred = labels.reader.kind is None
    is_multi_label = labels.kind == MULTI_LABEL
    if (is_multi_label or is_inferred) and not labels.reader.names:
        several = names_with_others(labels.names)
        if several:
            yield (
                f"labels that may be several: {listed(several)}; if they are, write their cells as "
                "lists, ['a', 'b']"
            )
    if is_multi_label and is_inferred and labels.reader.has_lists_of_one:
        yield (
            f"labels in lists of one item each are read as sets; --problem_type {SINGLE_LABEL} "
            "reads one a row"
        )
    missing = ", ".join(filter(is_like_missing, labels.names))
    if missing:
        way_out = "empty such cells"
        if is_multi_label:
            way_out = "write [] in their place"
        elif not drops_unlabelled:
            way_out += " and add --drop_unlabelled"
        yield f"labels that may mean none: {missing}; if they do, {way_out}"


def _doubts_of_twins(names: Iterable[str]) -> Iterator[str]:
    """Yield which names are alike but for the case of letters, and which look alike."""
    cases: list[str] = []
    others: list[str] = []
    for group in _alike(names):
        if len({name.lower() for name in group}) == 1:
            cases += group
        else:
            others += map(written, group)
    if cases:
        yield f"labels that differ only in case: {', '.join(cases)}; if they are one, write one"
    if others:
        yield f"labels that look alike: {', '.join(others)}; if they are one, write one"


def _alike(names: Iterable[str]) -> Iterator[Sequence[str]]:
    """Yield the groups of two or more names that look alike."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(looks(name), []).append(name)
    for group in groups.values():
        if len(group) > 1:
            yield group
