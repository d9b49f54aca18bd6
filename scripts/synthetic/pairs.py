"""A grammar of premises and hypotheses whose relation is not to be had from their words alone.

Every rule holds two statements, and each statement has a negation. Logic does the labels: if P
entails H, then not-H entails not-P, P and not-H contradict each other, and H tells nothing about P.
So both sentences of a rule occur under every label, with the same words.

In a statement `[some|none]` stands for its two forms, affirmed and negated, and so does a verb such
as `{v}`: "sang" and "did not sing". Nouns with a quantifier are taken to exist: "all the guests
sang" entails "some of the guests sang". "A left before B" takes it that both left.
"""

import re
from typing import NamedTuple

from .draw import Draw, words

LABELS = ("entailment", "neutral", "contradiction")

# Phenomenon, then P, relation and H: "=" means the same, ">" entails, "?" tells nothing about.
RULES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "roles": (
        ("{a} {did} {b}", "=", "{b} was[| not] {did_past} by {a}"),
        ("{a} {did} {b}", "?", "{b} {did} {a}"),
        ("{a} {did} {b}", "?", "{a} was[| not] {did_past} by {b}"),
        ("{a} {met} {b}", "=", "{b} {met} {a}"),
        ("{a} {met} {b}", "?", "{c} {met} {a}"),
    ),
    "comparison": (
        ("{a} was[| not] {more} than {b}", "=", "{b} was[| not] {less} than {a}"),
        ("{a} was[| not] {more} than {b}", ">", "{b} was[ not|] {more} than {a}"),
        ("{a} was[| not] {more} than {b}", ">", "{a} was[ not|] {less} than {b}"),
        ("{a} was[| not] {more} than {b}", "?", "{a} was[| not] {more} than {c}"),
    ),
    "quantifiers": (
        ("[all|not all] the {group} {v_past}", ">", "[some|none] of the {group} {v_past}"),
        ("[most|at most half] of the {group} {v_past}", ">", "[some|none] of the {group} {v_past}"),
        ("[all|not all] the {group} {v_past}", ">", "[most|at most half] of the {group} {v_past}"),
        ("[not all|all] the {group} {v_past}", "=", "[some|none] of the {group} did not {v_base}"),
        ("[all|not all] the {group} {v_past}", "?", "[some|none] of the {group} {w_past}"),
    ),
    "kinds": (
        ("[some|none] of the {kind}s {v_past}", ">", "[some|none] of the {family}s {v_past}"),
        ("[all|not all] the {family}s {v_past}", ">", "[all|not all] the {kind}s {v_past}"),
        ("{a} {got} a {good}", ">", "{a} {got} a {sort}"),
    ),
    "modifiers": (
        ("{a} {got} a {adj} {thing}", ">", "{a} {got} a {thing}"),
        ("{a} {got} a {thing} {how}", ">", "{a} {got} a {thing}"),
        ("{a} {got} a {adj} {thing} {how}", ">", "{a} {got} a {adj} {thing}"),
    ),
    "numbers": (
        (
            "[at least|fewer than] {many} {group} {v_past}",
            ">",
            "[at least|fewer than] {few} {group} {v_past}",
        ),
        (
            "[more than|at most] {many} {group} {v_past}",
            ">",
            "[at least|fewer than] {few} {group} {v_past}",
        ),
    ),
    "time": (
        ("{a} {v} before {b}", "=", "{b} {v} after {a}"),
        ("{a} {v} before {b}", ">", "{a} [did not {v_base}|{v_past}] after {b}"),
        ("{a} {v} before {b}", "?", "{a} {v} before {c}"),
    ),
    "joining": (
        ("[both|not both] {a} and {b} {v_past}", ">", "{b} {v}"),
        ("{b} {v}", ">", "[either|neither] {a} [or|nor] {b} {v_past}"),
        ("[both|not both] {a} and {b} {v_past}", "=", "[both|not both] {b} and {a} {v_past}"),
        (
            "[either|neither] {a} [or|nor] {b} {v_past}",
            "=",
            "[either|neither] {b} [or|nor] {a} {v_past}",
        ),
    ),
    "success": (
        ("{a} {could} to {v_base}", "=", "{a} {v}"),
        ("{a} {failed} to {v_base}", "=", "{a} [did not {v_base}|{v_past}]"),
        ("{a} {v}", ">", "{a} {tried} to {v_base}"),
        ("{a} {could} to {v_base}", "?", "{b} {v}"),
        ("{a} {failed} to {v_base}", "?", "{b} {v}"),
    ),
}  # fmt: skip

# For a relation and a label the premise and the hypothesis: P or H, affirmed or negated.
CASES = {
    ("=", "entailment"): ("P H", "H P", "not-P not-H", "not-H not-P"),
    ("=", "contradiction"): ("P not-H", "not-H P", "not-P H", "H not-P"),
    (">", "entailment"): ("P H", "not-H not-P"),
    (">", "contradiction"): ("P not-H", "not-H P"),
    (">", "neutral"): ("H P", "H not-P", "not-P H", "not-P not-H"),
    ("?", "neutral"): (
        *("P H", "H P", "P not-H", "H not-P", "not-P H", "not-H P", "not-P not-H", "not-H not-P"),
    ),
}


class Verb(NamedTuple):
    """The two forms of a verb that the statements need."""

    base: str
    past: str


def _verbs(text: str) -> tuple[Verb, ...]:
    """Read verbs from a text such as "sing sang, call called"."""
    return tuple(Verb(*forms.split()) for forms in text.split(", "))


PEOPLE = words(
    "cook guest nurse farmer teacher painter driver tailor judge singer sailor dentist waiter "
    "gardener lawyer neighbour"
)
ACTS = _verbs(
    "sing sang, laugh laughed, dance danced, sleep slept, wait waited, cough coughed, leave left, "
    "whistle whistled, smile smiled, wave waved, shout shouted, sneeze sneezed"
)
# Past and participle are alike, so that the passive needs no third form.
DEEDS = _verbs(
    "thank thanked, greet greeted, follow followed, help helped, praise praised, blame blamed, "
    "call called, visit visited, warn warned, hire hired, catch caught, teach taught"
)
MUTUAL_DEEDS = _verbs("meet met, marry married")
CHORES = _verbs(
    "carry carried, paint painted, repair repaired, sell sold, clean cleaned, buy bought"
)
OBJECTS = words("box chair table bag lamp drum coat kettle ladder")
ADJECTIVES = words("red heavy small broken wooden dusty cheap round")
ADVERBS = words("quickly quietly proudly slowly carefully gladly")
OPPOSITES = (
    ("taller", "shorter"),
    ("older", "younger"),
    ("faster", "slower"),
    ("richer", "poorer"),
    ("louder", "quieter"),
)
NUMBERS = words("two three four five six seven eight nine ten")
KINDS = (
    ("dog", words("poodle terrier beagle")),
    ("bird", words("robin sparrow pigeon")),
    ("doctor", words("surgeon dentist")),
    ("musician", words("drummer pianist violinist")),
)
GOODS = (
    ("flower", ("rose", "tulip", "daffodil")),
    ("tool", ("hammer", "spanner", "chisel")),
    ("vehicle", ("van", "bicycle", "tractor")),
    ("boat", ("canoe", "raft")),
)
SUCCEEDED = _verbs("manage managed, remember remembered, bother bothered")
FAILED = _verbs("fail failed, forget forgot, neglect neglected")
ATTEMPTED = _verbs("try tried, attempt attempted")
SETTINGS = (
    *("yesterday", "last week", "on Sunday", "in the morning", "in the park", "at the station"),
    *("in the old town", "after lunch", "on the ferry", "during the storm"),
)
ASIDES = (
    *("the radio was on", "it was raining", "the bells rang", "nobody minded"),
    *("the sun was shining", "the clock had stopped"),
)


def draw_pair(draw: Draw, label: str) -> dict[str, str]:
    """Make up a premise and a hypothesis that stand in a relation, one of `LABELS`."""
    phenomenon = draw.pick(list(RULES))
    rules = [rule for rule in RULES[phenomenon] if (rule[1], label) in CASES]
    first, relation, second = draw.pick(rules)
    case = draw.pick(CASES[relation, label]).split()
    scene = _draw_scene(draw)
    premise, hypothesis = (
        statement(first if name[-1] == "P" else second, scene, not name.startswith("not"))
        for name in case
    )
    if draw.chance(0.5):
        setting = draw.pick(SETTINGS)
        premise, hypothesis = f"{setting} {premise}", f"{setting} {hypothesis}"
    if draw.chance(0.3):
        premise = f"{premise}, and {draw.pick(ASIDES)}"
    return {
        "premise": premise[0].upper() + premise[1:] + ".",
        "hypothesis": hypothesis[0].upper() + hypothesis[1:] + ".",
        "phenomenon": phenomenon,
    }


def statement(template: str, scene: dict[str, str | Verb], is_affirmed: bool) -> str:
    """Fill a template, affirmed or negated."""
    slots = {}
    for name, value in scene.items():
        if isinstance(value, Verb):
            slots[f"{name}_base"], slots[f"{name}_past"] = value
            value = value.past if is_affirmed else f"did not {value.base}"
        slots[name] = value
    chosen = re.sub(r"\[(.*?)\|(.*?)\]", lambda forms: forms[1 if is_affirmed else 2], template)
    return chosen.format(**slots)


def _draw_scene(draw: Draw) -> dict[str, str | Verb]:
    """Draw a filling for every slot that a statement may have."""
    a, b, c, group = draw.some(PEOPLE, 4)
    v, w = draw.some(ACTS, 2)
    more, less = draw.some(draw.pick(OPPOSITES), 2)
    many = draw.pick(range(1, len(NUMBERS)))
    family, kinds = draw.pick(KINDS)
    sort, goods = draw.pick(GOODS)
    return {
        "a": f"the {a}",
        "b": f"the {b}",
        "c": f"the {c}",
        "group": f"{group}s",
        "v": v,
        "w": w,
        "did": draw.pick(DEEDS),
        "met": draw.pick(MUTUAL_DEEDS),
        "got": draw.pick(CHORES),
        "could": draw.pick(SUCCEEDED),
        "failed": draw.pick(FAILED),
        "tried": draw.pick(ATTEMPTED),
        "thing": draw.pick(OBJECTS),
        "adj": draw.pick(ADJECTIVES),
        "how": draw.pick(ADVERBS),
        "more": more,
        "less": less,
        "few": NUMBERS[draw.pick(range(many))],
        "many": NUMBERS[many],
        "family": family,
        "kind": draw.pick(kinds),
        "sort": sort,
        "good": draw.pick(goods),
    }
