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

from .grammar import Alternatives, Draw, read_grammar

STARS = (1, 2, 3, 4, 5)
SYMBOL = re.compile(r"\{(\w+)\}")

_SECTIONS = read_grammar("reviews.ini")
_OPPOSITES = {name: opposite for name, (opposite,) in _SECTIONS["opposites"].items()}
_OPPOSITES |= {opposite: name for name, opposite in _OPPOSITES.items()}
# Stars -> phenomenon of the main sentence -> templates; those of 2 and 1 stars are mirrored.
TEMPLATES = {stars: _SECTIONS[f"{stars} stars"] for stars in (5, 4, 3)}


def mirrored(template: str) -> str:
    """Return the template with every symbol that has an opposite replaced by it."""
    return SYMBOL.sub(lambda symbol: f"{{{_OPPOSITES.get(symbol[1], symbol[1])}}}", template)


_GRAMMAR: dict[str, Alternatives] = {
    **{
        _OPPOSITES.get(name, name): tuple(map(mirrored, phrases))
        for name, phrases in _SECTIONS["phrases"].items()
    },
    **_SECTIONS["phrases"],
    **_SECTIONS["words"],
}


def draw_review(draw: Draw, stars: int) -> dict[str, str]:
    """Make up a review of 1 to 5 stars; `phenomenon` selects the main sentence."""
    templates = TEMPLATES[max(stars, 6 - stars)]
    phenomenon = draw.pick(list(templates))
    template = draw.pick(templates[phenomenon])
    if stars < 3 or (stars == 3 and draw.chance(0.5)):
        template = mirrored(template)
    thing = draw.pick(list(_SECTIONS["parts"]))
    left = _GRAMMAR | {"thing": (thing,), "part": _SECTIONS["parts"][thing]}
    sentences = [_expand(draw, template, left)]
    if draw.chance(0.5):
        sentences.insert(draw.pick((0, 1)), _expand(draw, "{aside}", left))
    text = " ".join(sentence[0].upper() + sentence[1:] + "." for sentence in sentences)
    return {"text": text, "label": f"{stars} star{'s' * (stars > 1)}", "phenomenon": phenomenon}


def _expand(draw: Draw, template: str, left: dict[str, Alternatives]) -> str:
    """Replace every symbol; an alternative is not drawn again while others are left."""

    def fill(symbol: re.Match[str]) -> str:
        phrase = draw.pick(left[symbol[1]])
        others = tuple(other for other in left[symbol[1]] if other != phrase)
        left[symbol[1]] = others or (phrase,)
        return _expand(draw, phrase, left)

    return SYMBOL.sub(fill, template)
