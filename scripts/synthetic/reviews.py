"""A grammar of short reviews whose words alone do not give away the stars.

The grammar is data: a symbol in braces stands for any of its alternatives, and an alternative may
hold symbols again. Only the happy half is written down. The unhappy half is its mirror image: every
symbol of `OPPOSITES` changes places with its opposite, so one star comes from the same templates as
five. A word that is neither praise nor blame then tells nothing about the half it is from, and
praise and blame stand in every class: negated, conceded, outgrown, expected, said by others.

How the stars follow from the text:

* One opinion: `be5` to `be1` are worth five stars to one.
* "A and B": their common worth, or three stars when one praises and the other blames.
* "A but B", "although A, B", "B, although A": B counts and A takes the edge off, so a strong B
  gives four (two) stars and a mild B three.
* What once was, what was expected, what others say and how the weather was do not count.
"""

import re
from collections.abc import Mapping

from .draw import Draw

STARS = (1, 2, 3, 4, 5)

Alternatives = tuple[str, ...]

OPPOSITES = (
    ("great", "awful"),
    ("nice", "poor"),
    ("rather_nice", "rather_poor"),
    ("be5", "be1"),
    ("be4", "be2"),
    ("opinion5", "opinion1"),
    ("opinion4", "opinion2"),
    ("better", "worse"),
    ("loved", "hated"),
    ("liked", "disliked"),
    ("nothing", "everything"),
    ("made_up", "spoiled"),
    ("again", "not_again"),
)


def _alternatives(text: str) -> dict[str, Alternatives]:
    """Read lines such as "symbol: one alternative | another"."""
    rules = (line.split(": ", 1) for line in text.strip().splitlines())
    return {symbol.strip(): tuple(phrases.split(" | ")) for symbol, phrases in rules}


WORDS = _alternatives("""
great: superb | wonderful | outstanding | brilliant | fantastic | excellent | splendid
awful: awful | terrible | dreadful | horrible | appalling | abysmal | atrocious | dire
nice: good | nice | pleasant | decent | enjoyable | likeable | charming | lovely
poor: bad | poor | dull | weak | boring | disappointing | mediocre | clumsy
strongly: utterly | extremely | truly | incredibly | thoroughly | absolutely
rather_nice: {rather} {nice}
rather_poor: {rather} {poor} | {slightly} {poor}
rather: rather | fairly | somewhat | mostly
slightly: slightly | a bit | a little
not: not | not | hardly | not exactly | not really | not particularly
far_from: far from | anything but | not at all | never once | in no way
better: better
worse: worse
loved: loved | adored
hated: hated | loathed
liked: liked | enjoyed
disliked: disliked | regretted
nothing: nothing
everything: everything
made_up: made up for it | saved the day | put that right
spoiled: undid that | spoiled the day | made us forget it
again: would choose it again | would recommend it to anyone
not_again: would never choose it again | would not recommend it to anyone
we: I | we | both of us
friend: my brother | our neighbour | a colleague | my aunt | the guide
although: although | even though | though
but: but | and yet | but still
day: Monday | Tuesday | Wednesday | Thursday | Friday | Saturday | Sunday
month: January | March | April | June | August | October | December
aside: it was a {day} in {month} | the weather was {great} that {day} | \
the weather was {awful} that {day} | my {day} had been {great} until then | \
my {day} had been {awful} until then | the mood of {friend} was {great} | \
the mood of {friend} was {awful} | it rained all {day} | {friend} came along | \
{friend} had chosen it | {friend} paid by card | this was my second {thing} this year
""")

# The happy half, and what belongs to neither half.
PHRASES = _alternatives("""
be5: {great} | {strongly} {great} | {strongly} {nice} | not just {nice} but {great} | \
{far_from} {poor} | {far_from} {poor} | {far_from} {poor} | not {poor} in any way
be4: {nice} | {rather_nice} | almost {great} | more {nice} than {poor} | {not} {poor} | \
{not} {poor} | not as {poor} as people say
be3: okay | average | neither {nice} nor {poor} | somewhere between {great} and {awful} | \
{nice} at times and {poor} at others | not {great} and not {awful} | \
no {better} and no {worse} than expected
opinion5: the {part} was {be5} | the {part} was {be5} | {we} found the {part} {be5} | \
{we} thought the {part} was {be5} | {we} {loved} the {part} | \
the {part} could not have been {better} | the {part} left {nothing} to be desired | \
no one would call the {part} anything but {great}
opinion4: the {part} was {be4} | the {part} was {be4} | {we} found the {part} {be4} | \
{we} thought the {part} was {be4} | {we} {liked} the {part} | {we} never {disliked} the {part} | \
the {part} could have been {worse} | I do not think the {part} was {poor} | \
no one could call the {part} {poor}
opinion3: the {part} was {be3} | {we} found the {part} {be3} | {we} thought the {part} was {be3}
""")

# By what a bag of words cannot see; `SLOTS` says what stands for {be}, {was} and the like.
SHARED: dict[str, Alternatives] = {
    "time": (
        "it used to be {was}, but these days it is {be}",
        "these days it is {be}, but it used to be {was}",
        "last year {past}, but this time {opinion}",
        "{opinion}, and to think that last year {opinion1}",
    ),
    "hearsay": (
        "I expected something {feared}, but {opinion}",
        "{friend} found it {was}, but {we} found it {be}",
        "{we} found it {be}, but {friend} found it {was}",
        "it was {be}, whatever {friend} may say about the {feared} {part}",
    ),
}
SLOTS = {
    5: {"opinion": "opinion5", "be": "be5", "past": "opinion1", "was": "be1", "feared": "awful"},
    4: {"opinion": "opinion4", "be": "be4", "past": "opinion2", "was": "be2", "feared": "poor"},
    3: {"opinion": "opinion3", "be": "be3", "past": "opinion1", "was": "be1", "feared": "awful"},
}
# And those that differ by stars, for the happy half.
BY_STARS: dict[int, dict[str, Alternatives]] = {
    5: {
        "degree": ("{opinion5}",),
        "agreement": ("{opinion5}, and {opinion5}", "{opinion5}, and {we} {again}"),
        "contrast": (
            "{opinion2}, but that did not matter, because {opinion5}",
            "never mind that {opinion1}: {opinion5}, and {we} {again}",
        ),
        "comparison": (
            "in no other {thing} is the {part} {better}",
            "in every other {thing} the {part} is {worse}",
            "I have never known the {part} of a {thing} to be {better}",
        ),
    },
    4: {
        "degree": ("{opinion4}",),
        "agreement": ("{opinion4}, and {opinion4}",),
        "contrast": (
            "{opinion2}, {but} {opinion5}",
            "{opinion2}, but the {great} {part} {made_up}",
            "{although} {opinion2}, {opinion5}",
            "{although} {opinion1}, {opinion5}",
            "{opinion5}, {although} {opinion2}",
            "{opinion5}, {although} {opinion1}",
        ),
        "comparison": (
            "the {part} was {better} than in the last {thing}",
            "in the last {thing} the {part} was {worse}",
            "it would have been {poor} if the {part} had not been {nice}",
        ),
    },
    3: {
        "degree": ("{opinion3}",),
        "agreement": ("{opinion4}, and {opinion2}", "{opinion5}, and {opinion1}"),
        "contrast": (
            "{opinion2}, {but} {opinion4}",
            "{opinion1}, {but} {opinion4}",
            "{although} {opinion2}, {opinion4}",
            "{although} {opinion1}, {opinion4}",
            "{opinion4}, {although} {opinion2}",
            "{opinion4}, {although} {opinion1}",
        ),
        "comparison": (
            "the {part} was no {better} and no {worse} than in the last {thing}",
            "the {part} was as {great} as the {part} was {awful}",
        ),
    },
}
PARTS = _alternatives("""
restaurant: food | service | menu | soup | dessert | terrace | waiter
hotel: room | bed | breakfast | view | reception | shower | lift
film: plot | acting | ending | music | camera work | dialogue | cast
novel: plot | style | first chapter | ending | main character | translation
phone: battery | screen | sound | camera | case | keyboard
concert: singer | sound | hall | drummer | second half | encore
course: teacher | pace | homework | book | classroom | exam
museum: tour | shop | garden | guide book | collection | lighting
""")

SYMBOL = re.compile(r"\{(\w+)\}")


def renamed(template: str, names: Mapping[str, str]) -> str:
    """Return the template with other symbols in the place of some."""
    return SYMBOL.sub(lambda symbol: f"{{{names.get(symbol[1], symbol[1])}}}", template)


def mirrored(template: str) -> str:
    """Return the template with every symbol that has an opposite replaced by it."""
    return renamed(template, _OPPOSITE)


_OPPOSITE = dict(OPPOSITES) | {second: first for first, second in OPPOSITES}
PHENOMENA = ("degree", "agreement", "contrast", "time", "hearsay", "comparison")
TEMPLATES = {
    stars: {
        name: own.get(name) or tuple(renamed(one, SLOTS[stars]) for one in SHARED[name])
        for name in PHENOMENA
    }
    for stars, own in BY_STARS.items()
}
_GRAMMAR: dict[str, Alternatives] = (
    {_OPPOSITE.get(name, name): tuple(map(mirrored, phrases)) for name, phrases in PHRASES.items()}
    | PHRASES
    | WORDS
)


def draw_review(draw: Draw, stars: int) -> dict[str, str]:
    """Make up a review of 1 to 5 stars; `phenomenon` is what its main sentence turns on."""
    templates = TEMPLATES[max(stars, 6 - stars)]
    phenomenon = draw.pick(list(templates))
    template = draw.pick(templates[phenomenon])
    if stars < 3 or (stars == 3 and draw.chance(0.5)):
        template = mirrored(template)
    thing = draw.pick(list(PARTS))
    left: dict[str, Alternatives] = {**_GRAMMAR, "thing": (thing,), "part": PARTS[thing]}
    sentences = [_expand(draw, template, left)]
    if draw.chance(0.5):
        sentences.insert(draw.pick((0, 1)), _expand(draw, "{aside}", left))
    text = " ".join(sentence[0].upper() + sentence[1:] + "." for sentence in sentences)
    return {"text": text, "phenomenon": phenomenon}


def _expand(draw: Draw, template: str, left: dict[str, Alternatives]) -> str:
    """Replace every symbol; what was drawn once is not drawn again while others are left."""

    def fill(symbol: re.Match[str]) -> str:
        phrase = draw.pick(left[symbol[1]])
        others = tuple(other for other in left[symbol[1]] if other != phrase)
        left[symbol[1]] = others or (phrase,)
        return _expand(draw, phrase, left)

    return SYMBOL.sub(fill, template)
