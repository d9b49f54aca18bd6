"""A grammar of premises and hypotheses whose words alone do not show how they are related.

pairs.ini holds it. Every rule has two statements, and each statement has a negation. Logic does the
labels: if P entails H, then not-H entails not-P, P and not-H contradict each other, and H tells
nothing about P. So both sentences of a rule occur under every label, with the same words.

Nouns with a quantifier are taken to exist: "all the guests sang" entails "some of the guests sang".
"A left before B" takes it that both left.
"""

import re

from .grammar import Draw, read_grammar, sentence

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
GROUPS = {name: [group.split() for group in groups] for name, groups in _SECTIONS["groups"].items()}
PHRASES = _SECTIONS["phrases"]
# Slots of a statement and what they are drawn from, in this order.
VERB_SLOTS = {
    "did": "deeds",
    "met": "mutual_deeds",
    "got": "chores",
    "could": "succeeded",
    "failed": "failed",
    "tried": "attempted",
}
WORD_SLOTS = {"thing": "objects", "adj": "adjectives", "how": "adverbs"}

# Relation and label -> premise and hypothesis, which are P or H, affirmed or negated.
CASES = {
    ("=", "entailment"): ("P H", "H P", "not-P not-H", "not-H not-P"),
    ("=", "contradiction"): ("P not-H", "not-H P", "not-P H", "H not-P"),
    (">", "entailment"): ("P H", "not-H not-P"),
    (">", "contradiction"): ("P not-H", "not-H P"),
    (">", "neutral"): ("H P", "H not-P", "not-P H", "not-P not-H"),
    ("?", "neutral"): (
        "P H",
        "H P",
        "P not-H",
        "H not-P",
        "not-P H",
        "not-H P",
        "not-P not-H",
        "not-H not-P",
    ),
}


def draw_pair(draw: Draw, label: str) -> dict[str, str]:
    """Make up a premise and a hypothesis that stand in a relation, one of `LABELS`."""
    phenomenon = draw.pick(list(RULES))
    rules = [rule for rule in RULES[phenomenon] if (rule[1], label) in CASES]
    first, relation, second = draw.pick(rules)
    premise_name, hypothesis_name = draw.pick(CASES[relation, label]).split()
    statements = {"P": first, "H": second}
    slots, verbs = _draw_scene(draw)
    premise = _statement(premise_name, statements, slots, verbs)
    hypothesis = _statement(hypothesis_name, statements, slots, verbs)
    if draw.chance(0.5):
        setting = draw.pick(PHRASES["settings"])
        premise = f"{setting} {premise}"
        hypothesis = f"{setting} {hypothesis}"
    if draw.chance(0.3):
        premise = f"{premise}, and {draw.pick(PHRASES['asides'])}"
    return {
        "premise": sentence(premise),
        "hypothesis": sentence(hypothesis),
        "label": label,
        "phenomenon": phenomenon,
    }


def _statement(
    name: str, statements: dict[str, str], slots: dict[str, str], verbs: dict[str, list[str]]
) -> str:
    """Return a statement, such as P or not-H, with all slots filled."""
    is_affirmed = not name.startswith("not-")
    template = statements[name.removeprefix("not-")]
    # A template holds both forms of a word: [affirmed|negated].
    form = r"\1" if is_affirmed else r"\2"
    template = re.sub(r"\[(.*?)\|(.*?)\]", form, template)
    words = dict(slots)
    for verb, (base, past) in verbs.items():
        words[verb] = past if is_affirmed else f"did not {base}"
        words[f"{verb}_base"] = base
        words[f"{verb}_past"] = past
    return template.format(**words)


def _draw_scene(draw: Draw) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Draw a word for every slot that a statement may have, and a verb for every verb."""
    first, second, third, group = draw.some(WORDS["people"], 4)
    first_act, second_act = draw.some(VERBS["acts"], 2)
    more, less = draw.some(draw.pick(GROUPS["opposites"]), 2)
    numbers = WORDS["numbers"]
    many = draw.pick(range(1, len(numbers)))
    family, *kinds = draw.pick(GROUPS["beings"])
    sort, *goods = draw.pick(GROUPS["goods"])
    verbs = {"v": first_act, "w": second_act}
    for slot, verbs_of_slot in VERB_SLOTS.items():
        verbs[slot] = draw.pick(VERBS[verbs_of_slot])
    slots = {slot: draw.pick(WORDS[words]) for slot, words in WORD_SLOTS.items()}
    few = draw.pick(range(many))
    slots.update(
        a=f"the {first}",
        b=f"the {second}",
        c=f"the {third}",
        group=f"{group}s",
        more=more,
        less=less,
        few=numbers[few],
        many=numbers[many],
        family=family,
        kind=draw.pick(kinds),
        sort=sort,
        good=draw.pick(goods),
    )
    return slots, verbs
