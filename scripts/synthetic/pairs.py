"""A grammar of premises and hypotheses whose relation is not to be had from their words alone.

Every template is a premise, a hypothesis and the relation between them; the slots in braces are
filled once and mean the same on both sides. Each phenomenon has templates for all three relations,
made from the same words in other places: who did it to whom, which quantifier stands on which side,
what was added and what was left out. Both premise and hypothesis may be negated under every
relation, so neither sentence alone betrays it.

Nouns with a quantifier are taken to exist: "all the guests sang" entails "some of the guests sang".
A number with "exactly" is exact; "or" leaves open whether both did.
"""

from . import pair_words as words
from .draw import Draw

LABELS = ("entailment", "neutral", "contradiction")

Pairs = tuple[tuple[str, str], ...]

# Phenomenon, relation, then premise and hypothesis.
TEMPLATES: dict[str, dict[str, Pairs]] = {
    "roles": {
        "entailment": (
            ("{a} {did.past} {b}", "{b} was {did.past} by {a}"),
            ("{a} was {did.past} by {b}", "{b} {did.past} {a}"),
            ("{a} did not {did.base} {b}", "{b} was not {did.past} by {a}"),
            ("{a} was not {did.past} by {b}", "{b} did not {did.base} {a}"),
            ("{a} {met.past} {b}", "{b} {met.past} {a}"),
        ),
        "neutral": (
            ("{a} {did.past} {b}", "{b} {did.past} {a}"),
            ("{a} {did.past} {b}", "{a} was {did.past} by {b}"),
            ("{a} was {did.past} by {b}", "{b} was {did.past} by {a}"),
            ("{a} did not {did.base} {b}", "{b} did not {did.base} {a}"),
            ("{a} {did.past} {b}", "{a} was not {did.past} by {b}"),
        ),
        "contradiction": (
            ("{a} {did.past} {b}", "{a} did not {did.base} {b}"),
            ("{a} {did.past} {b}", "{b} was not {did.past} by {a}"),
            ("{a} did not {did.base} {b}", "{b} was {did.past} by {a}"),
            ("{a} was not {did.past} by {b}", "{b} {did.past} {a}"),
            ("{a} {met.past} {b}", "{b} did not {met.base} {a}"),
        ),
    },
    "comparison": {
        "entailment": (
            ("{a} was {more} than {b}", "{b} was {less} than {a}"),
            ("{a} was {less} than {b}", "{b} was {more} than {a}"),
            ("{a} was {more} than {b}", "{b} was not {more} than {a}"),
            ("{a} was {more} than {b}", "{a} was not {less} than {b}"),
        ),
        "neutral": (
            ("{a} was {more} than {b}", "{a} was {more} than {c}"),
            ("{a} was {less} than {b}", "{c} was {less} than {b}"),
            ("{a} was not {more} than {b}", "{a} was {less} than {b}"),
            ("{a} was not {less} than {b}", "{b} was not {more} than {a}"),
        ),
        "contradiction": (
            ("{a} was {more} than {b}", "{b} was {more} than {a}"),
            ("{a} was {less} than {b}", "{a} was {more} than {b}"),
            ("{a} was {more} than {b}", "{b} was not {less} than {a}"),
            ("{a} was not {more} than {b}", "{a} was {more} than {b}"),
        ),
    },
    "quantifiers": {
        "entailment": (
            ("all the {group} {v.past}", "some of the {group} {v.past}"),
            ("most of the {group} {v.past}", "some of the {group} {v.past}"),
            ("none of the {group} {v.past}", "some of the {group} did not {v.base}"),
            ("some of the {group} did not {v.base}", "not all the {group} {v.past}"),
            ("not all the {group} {v.past}", "some of the {group} did not {v.base}"),
        ),
        "neutral": (
            ("some of the {group} {v.past}", "all the {group} {v.past}"),
            ("most of the {group} {v.past}", "all the {group} {v.past}"),
            ("all the {group} {v.past}", "most of the {group} {w.past}"),
            ("none of the {group} {v.past}", "some of the {group} did not {w.base}"),
            ("some of the {group} did not {v.base}", "none of the {group} {v.past}"),
        ),
        "contradiction": (
            ("none of the {group} {v.past}", "some of the {group} {v.past}"),
            ("some of the {group} did not {v.base}", "all the {group} {v.past}"),
            ("most of the {group} {v.past}", "none of the {group} {v.past}"),
            ("all the {group} {v.past}", "some of the {group} did not {v.base}"),
            ("not all the {group} {v.past}", "all the {group} {v.past}"),
        ),
    },
    "kinds": {
        "entailment": (
            ("some of the {kind}s {v.past}", "some of the {family}s {v.past}"),
            ("all the {family}s {v.past}", "all the {kind}s {v.past}"),
            ("none of the {family}s {v.past}", "none of the {kind}s {v.past}"),
            ("{a} {got.past} a {good}", "{a} {got.past} a {sort}"),
            ("{a} did not {got.base} a {sort}", "{a} did not {got.base} a {good}"),
        ),
        "neutral": (
            ("some of the {family}s {v.past}", "some of the {kind}s {v.past}"),
            ("all the {kind}s {v.past}", "all the {family}s {v.past}"),
            ("none of the {kind}s {v.past}", "none of the {family}s {v.past}"),
            ("{a} {got.past} a {sort}", "{a} {got.past} a {good}"),
            ("{a} did not {got.base} a {good}", "{a} did not {got.base} a {sort}"),
        ),
        "contradiction": (
            ("some of the {kind}s {v.past}", "none of the {family}s {v.past}"),
            ("all the {family}s {v.past}", "none of the {kind}s {v.past}"),
            ("none of the {family}s {v.past}", "some of the {kind}s {v.past}"),
            ("{a} {got.past} a {good}", "{a} did not {got.base} a {sort}"),
            ("{a} did not {got.base} a {sort}", "{a} {got.past} a {good}"),
        ),
    },
    "modifiers": {
        "entailment": (
            ("{a} {got.past} a {adj} {thing}", "{a} {got.past} a {thing}"),
            ("{a} {got.past} a {thing} {how}", "{a} {got.past} a {thing}"),
            ("{a} did not {got.base} a {thing}", "{a} did not {got.base} a {adj} {thing}"),
            ("{a} did not {got.base} a {thing}", "{a} did not {got.base} a {thing} {how}"),
        ),
        "neutral": (
            ("{a} {got.past} a {thing}", "{a} {got.past} a {adj} {thing}"),
            ("{a} {got.past} a {thing}", "{a} {got.past} a {thing} {how}"),
            ("{a} did not {got.base} a {adj} {thing}", "{a} did not {got.base} a {thing}"),
            ("{a} did not {got.base} a {thing} {how}", "{a} did not {got.base} a {thing}"),
        ),
        "contradiction": (
            ("{a} {got.past} a {adj} {thing}", "{a} did not {got.base} a {thing}"),
            ("{a} {got.past} a {thing} {how}", "{a} did not {got.base} a {thing}"),
            ("{a} did not {got.base} a {thing}", "{a} {got.past} a {adj} {thing}"),
            ("{a} did not {got.base} a {thing}", "{a} {got.past} a {thing} {how}"),
        ),
    },
    "numbers": {
        "entailment": (
            ("at least {many} {group} {v.past}", "at least {few} {group} {v.past}"),
            ("exactly {many} {group} {v.past}", "more than {few} {group} {v.past}"),
            ("fewer than {few} {group} {v.past}", "fewer than {many} {group} {v.past}"),
            ("exactly {few} {group} {v.past}", "fewer than {many} {group} {v.past}"),
        ),
        "neutral": (
            ("at least {few} {group} {v.past}", "at least {many} {group} {v.past}"),
            ("exactly {few} {group} {v.past}", "exactly {many} {group} {w.past}"),
            ("fewer than {many} {group} {v.past}", "fewer than {few} {group} {v.past}"),
            ("exactly {many} {group} {v.past}", "more than {few} {group} {w.past}"),
        ),
        "contradiction": (
            ("exactly {few} {group} {v.past}", "at least {many} {group} {v.past}"),
            ("exactly {many} {group} {v.past}", "exactly {few} {group} {v.past}"),
            ("at least {many} {group} {v.past}", "fewer than {few} {group} {v.past}"),
            ("fewer than {few} {group} {v.past}", "more than {many} {group} {v.past}"),
        ),
    },
    "time": {
        "entailment": (
            ("{a} {v.past} before {b} {w.past}", "{b} {w.past} after {a} {v.past}"),
            ("{a} {v.past} after {b} {w.past}", "{b} {w.past} before {a} {v.past}"),
            ("{a} {v.past} before {b} {w.past}", "{b} {w.past}"),
            ("{a} {v.past} and {b} {w.past}", "{b} {w.past} and {a} {v.past}"),
        ),
        "neutral": (
            ("{a} {v.past} before {b} {w.past}", "{c} {w.past} after {a} {v.past}"),
            ("{a} {v.past} after {b} {w.past}", "{b} {w.past} before {c} {v.past}"),
            ("{a} {v.past} and {b} {w.past}", "{a} {v.past} before {b} {w.past}"),
            ("{a} {v.past} before {b} {w.past}", "{b} {v.past}"),
        ),
        "contradiction": (
            ("{a} {v.past} before {b} {w.past}", "{a} {v.past} after {b} {w.past}"),
            ("{a} {v.past} after {b} {w.past}", "{b} {w.past} after {a} {v.past}"),
            ("{a} {v.past} before {b} {w.past}", "{b} {w.past} before {a} {v.past}"),
            ("{a} {v.past} and {b} {w.past}", "{b} did not {w.base}"),
        ),
    },
    "joining": {
        "entailment": (
            ("{a} and {b} {v.past}", "{b} {v.past}"),
            ("{a} {v.past} but {b} did not", "{b} did not {v.base}"),
            ("{a} did not {v.base} but {b} did", "{b} {v.past}"),
            ("neither {a} nor {b} {v.past}", "{b} did not {v.base}"),
            ("{a} or {b} {v.past}", "{b} or {a} {v.past}"),
        ),
        "neutral": (
            ("{a} or {b} {v.past}", "{b} {v.past}"),
            ("{a} or {b} {v.past}", "{a} did not {v.base}"),
            ("{a} and {b} {v.past}", "{b} and {c} {v.past}"),
            ("{a} did not {v.base} but {b} did", "{b} {w.past}"),
            ("neither {a} nor {b} {v.past}", "neither {a} nor {c} {v.past}"),
        ),
        "contradiction": (
            ("{a} and {b} {v.past}", "{b} did not {v.base}"),
            ("{a} {v.past} but {b} did not", "{b} {v.past}"),
            ("{a} did not {v.base} but {b} did", "{a} {v.past}"),
            ("neither {a} nor {b} {v.past}", "{a} or {b} {v.past}"),
            ("{a} or {b} {v.past}", "neither {b} nor {a} {v.past}"),
        ),
    },
    "attempts": {
        "entailment": (
            ("{a} {could.past} to {v.base}", "{a} {v.past}"),
            ("{a} {failed.past} to {v.base}", "{a} did not {v.base}"),
            ("{a} did not {could.base} to {v.base}", "{a} did not {v.base}"),
            ("{a} did not {failed.base} to {v.base}", "{a} {v.past}"),
            ("{a} {could.past} to {v.base} but {b} {failed.past} to", "{a} {v.past}"),
            ("{a} and {b} {tried.past} to {v.base}", "{b} {tried.past} to {v.base}"),
        ),
        "neutral": (
            ("{a} {tried.past} to {v.base}", "{a} {v.past}"),
            ("{a} {tried.past} to {v.base}", "{a} did not {v.base}"),
            ("{a} did not {failed.base} to {v.base}", "{a} did not {w.base}"),
            ("{a} {could.past} to {v.base}", "{b} {v.past}"),
            ("{a} {failed.past} to {v.base}", "{b} {tried.past} to {v.base}"),
            ("{a} {could.past} to {v.base} but {b} {failed.past} to", "{a} {w.past}"),
        ),
        "contradiction": (
            ("{a} {could.past} to {v.base}", "{a} did not {v.base}"),
            ("{a} {failed.past} to {v.base}", "{a} {v.past}"),
            ("{a} did not {could.base} to {v.base}", "{a} {v.past}"),
            ("{a} did not {failed.base} to {v.base}", "{a} did not {v.base}"),
            ("{a} {could.past} to {v.base} but {b} {failed.past} to", "{b} {v.past}"),
            ("{a} {tried.past} to {v.base}", "{a} did not {tried.base} to {v.base}"),
        ),
    },
}


def draw_pair(draw: Draw, label: str) -> dict[str, str]:
    """Make up a premise and a hypothesis that stand in the relation.

    Args:
        draw: Where the choices come from.
        label: One of `LABELS`.

    Returns:
        The `premise`, the `hypothesis` and the `phenomenon` that their relation turns on.
    """
    phenomenon = draw.pick(list(TEMPLATES))
    templates = draw.pick(TEMPLATES[phenomenon][label])
    scene = _draw_scene(draw)
    premise, hypothesis = (template.format(**scene) for template in templates)
    if draw.chance(0.5):
        setting = draw.pick(words.SETTINGS)
        premise, hypothesis = f"{setting} {premise}", f"{setting} {hypothesis}"
    if draw.chance(0.3):
        premise = f"{premise}, and {draw.pick(words.ASIDES)}"
    return {
        "premise": premise[0].upper() + premise[1:] + ".",
        "hypothesis": hypothesis[0].upper() + hypothesis[1:] + ".",
        "phenomenon": phenomenon,
    }


def _draw_scene(draw: Draw) -> dict[str, str | words.Verb]:
    """Draw a filling for every slot that a template may use."""
    a, b, c, group = draw.some(words.PEOPLE, 4)
    v, w = draw.some(words.ACTS, 2)
    more, less = draw.pick(words.OPPOSITES)
    if draw.chance(0.5):
        more, less = less, more
    many = draw.pick(range(1, len(words.NUMBERS)))
    family, kinds = draw.pick(words.KINDS)
    sort, goods = draw.pick(words.GOODS)
    return {
        "a": f"the {a}",
        "b": f"the {b}",
        "c": f"the {c}",
        "group": f"{group}s",
        "v": v,
        "w": w,
        "did": draw.pick(words.DEEDS),
        "met": draw.pick(words.MUTUAL_DEEDS),
        "got": draw.pick(words.CHORES),
        "could": draw.pick(words.SUCCEEDED),
        "failed": draw.pick(words.FAILED),
        "tried": draw.pick(words.INTENDED),
        "thing": draw.pick(words.OBJECTS),
        "adj": draw.pick(words.ADJECTIVES),
        "how": draw.pick(words.ADVERBS),
        "more": more,
        "less": less,
        "few": words.NUMBERS[draw.pick(range(many))],
        "many": words.NUMBERS[many],
        "family": family,
        "kind": draw.pick(kinds),
        "sort": sort,
        "good": draw.pick(goods),
    }
