"""A grammar of premises and hypotheses whose words alone do not show how they are related.

pairs.ini holds it. Every rule has two statements, and each statement has a negation. Logic does the
labels: if P entails H, then not-H entails not-P, P and not-H contradict each other, and H tells
nothing about P. So both sentences of a rule occur under every label, with the same words.

Nouns with a quantifier are taken to exist: "all the guests sang" entails "some of the guests sang".
"A left before B" takes it that both left.
"""

import re

from .grammar import Draw, read_grammar

LABELS = ("entailment", "neutral", "contradiction")

_SECTIONS = read_grammar("pairs.ini")
# Phenomenon -> its rules: P, relation and H.
RULES = {
    name: [re.split(" ([=>?]) ", rule) for rule in rules]
    for name, rules in _SECTIONS["rules"].items()
}
WORDS = {name: words.split() for name, (words,) in _SECTIONS["words"].items()}
# A verb is its base form and its past; a group of words is its head and its members.
VERBS = {name: [verb.split() for verb in verbs] for name, verbs in _SECTIONS["verbs"].items()}
GROUPS = {name: [group.split() for group in some] for name, some in _SECTIONS["groups"].items()}
PHRASES = _SECTIONS["phrases"]
# Slots of a statement and what they are drawn from, in this order.
VERB_SLOTS = {"did": "deeds", "met": "mutual_deeds", "got": "chores"}
VERB_SLOTS |= {"could": "succeeded", "failed": "failed", "tried": "attempted"}
WORD_SLOTS = {"thing": "objects", "adj": "adjectives", "how": "adverbs"}

# Relation and label -> premise and hypothesis, which are P or H, affirmed or negated.
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


def draw_pair(draw: Draw, label: str) -> dict[str, str]:
    """Make up a premise and a hypothesis that stand in a relation, one of `LABELS`."""
    phenomenon = draw.pick(list(RULES))
    rules = [rule for rule in RULES[phenomenon] if (rule[1], label) in CASES]
    first, relation, second = draw.pick(rules)
    case = draw.pick(CASES[relation, label]).split()
    slots, verbs = _draw_scene(draw)
    premise, hypothesis = (
        _statement(first if name[-1] == "P" else second, slots, verbs, not name.startswith("not"))
        for name in case
    )
    if draw.chance(0.5):
        setting = draw.pick(PHRASES["settings"])
        premise, hypothesis = f"{setting} {premise}", f"{setting} {hypothesis}"
    if draw.chance(0.3):
        premise = f"{premise}, and {draw.pick(PHRASES['asides'])}"
    pair = {"premise": premise, "hypothesis": hypothesis}
    pair = {name: text[0].upper() + text[1:] + "." for name, text in pair.items()}
    return {**pair, "label": label, "phenomenon": phenomenon}


def _statement(
    template: str, slots: dict[str, str], verbs: dict[str, list[str]], is_affirmed: bool
) -> str:
    filled = dict(slots)
    for name, (base, past) in verbs.items():
        filled |= {f"{name}_base": base, f"{name}_past": past}
        filled[name] = past if is_affirmed else f"did not {base}"
    chosen = re.sub(r"\[(.*?)\|(.*?)\]", lambda forms: forms[1 if is_affirmed else 2], template)
    return chosen.format(**filled)


def _draw_scene(draw: Draw) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Draw a word for every slot that a statement may have, and a verb for every verb."""
    a, b, c, group = draw.some(WORDS["people"], 4)
    v, w = draw.some(VERBS["acts"], 2)
    more, less = draw.some(draw.pick(GROUPS["opposites"]), 2)
    numbers = WORDS["numbers"]
    many = draw.pick(range(1, len(numbers)))
    family, *kinds = draw.pick(GROUPS["beings"])
    sort, *goods = draw.pick(GROUPS["goods"])
    verbs = {"v": v, "w": w} | {name: draw.pick(VERBS[kind]) for name, kind in VERB_SLOTS.items()}
    slots = {"a": f"the {a}", "b": f"the {b}", "c": f"the {c}", "group": f"{group}s"}
    slots |= {name: draw.pick(WORDS[kind]) for name, kind in WORD_SLOTS.items()}
    slots |= {"more": more, "less": less, "few": numbers[draw.pick(range(many))]}
    slots |= {"many": numbers[many], "family": family, "kind": draw.pick(kinds)}
    return slots | {"sort": sort, "good": draw.pick(goods)}, verbs
