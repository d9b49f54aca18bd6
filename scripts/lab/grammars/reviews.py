"""A grammar of short reviews whose words alone do not give away the stars; reviews.ini holds it.

One star comes from the same templates as five, mirrored. A word that is neither praise nor blame
then does not show its half, and praise and blame stand in every class: negated,
conceded, outgrown, expected, said by others.

How the stars follow from the text:

* One opinion: `be5` to `be1` are worth five stars to one.
* "A and B": their common worth, or three stars when one praises and the other blames.
* "A but B", "although A, B", "B, although A": B counts and A takes the edge off, so a strong B
  gives four (two) stars and a mild B three.
* The past, expectations, the opinion of others and the weather do not count.
"""

import re

from .grammar import Alternatives, Draw, read_grammar, sentence

STARS = (1, 2, 3, 4, 5)
SYMBOL = re.compile(r"\{(\w+)\}")

_SECTIONS = read_grammar("reviews.ini")
_OPPOSITES: dict[str, str] = {}  # in both directions
for _name, (_opposite,) in _SECTIONS["opposites"].items():
    _OPPOSITES[_name] = _opposite
    _OPPOSITES[_opposite] = _name
# Stars -> phenomenon of the main sentence -> templates; those of 2 and 1 stars are mirrored.
TEMPLATES = {stars: _SECTIONS[f"{stars} stars"] for stars in (5, 4, 3)}


def mirrored(template: str) -> str:
    """Return the template with every symbol that has an opposite replaced by it."""

    def opposite(symbol: re.Match[str]) -> str:
        name = symbol[1]
        return "{" + _OPPOSITES.get(name, name) + "}"

    return SYMBOL.sub(opposite, template)


_GRAMMAR: dict[str, Alternatives] = {}
for _name, _phrases in _SECTIONS["phrases"].items():
    _GRAMMAR[_OPPOSITES.get(_name, _name)] = tuple(map(mirrored, _phrases))
# A symbol with phrases of its own keeps them.
_GRAMMAR.update(_SECTIONS["phrases"])
_GRAMMAR.update(_SECTIONS["words"])


def draw_review(draw: Draw, stars: int) -> dict[str, str]:
    """Make up a review of 1 to 5 stars; `phenomenon` selects the main sentence."""
    mirrored_stars = 6 - stars
    templates = TEMPLATES[max(stars, mirrored_stars)]
    phenomenon = draw.pick(list(templates))
    template = draw.pick(templates[phenomenon])
    is_mirrored = stars < mirrored_stars
    if stars == mirrored_stars:
        is_mirrored = draw.chance(0.5)
    if is_mirrored:
        template = mirrored(template)
    parts_of_things = _SECTIONS["parts"]
    thing = draw.pick(list(parts_of_things))
    left = {
        **_GRAMMAR,
        "thing": (thing,),
        "part": parts_of_things[thing],
    }
    sentences = [sentence(_expand(draw, template, left))]
    if draw.chance(0.5):
        place = draw.pick((0, 1))
        sentences.insert(place, sentence(_expand(draw, "{aside}", left)))
    noun = "star" if stars == 1 else "stars"
    return {
        "text": " ".join(sentences),
        "label": f"{stars} {noun}",
        "phenomenon": phenomenon,
    }


def _expand(draw: Draw, template: str, left: dict[str, Alternatives]) -> str:
    """Replace every symbol; an alternative is not drawn again while others are left."""

    def fill(symbol: re.Match[str]) -> str:
        name = symbol[1]
        phrases = left[name]
        phrase = draw.pick(phrases)
        others = [other for other in phrases if other != phrase]
        left[name] = tuple(others) or (phrase,)
        return _expand(draw, phrase, left)

    return SYMBOL.sub(fill, template)
