"""The words that fill the slots of the premises and hypotheses."""

from typing import NamedTuple

from .draw import words


class Verb(NamedTuple):
    """The two forms of a verb that the templates need."""

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
    ("dog", ("poodle", "terrier", "beagle")),
    ("bird", ("robin", "sparrow", "pigeon")),
    ("doctor", ("surgeon", "dentist")),
    ("musician", ("drummer", "pianist", "violinist")),
)
GOODS = (
    ("flower", ("rose", "tulip", "daffodil")),
    ("tool", ("hammer", "spanner", "chisel")),
    ("vehicle", ("van", "bicycle", "tractor")),
    ("boat", ("canoe", "raft")),
)
SUCCEEDED = _verbs("manage managed, remember remembered, bother bothered")
FAILED = _verbs("fail failed, forget forgot, neglect neglected")
INTENDED = _verbs("try tried, hope hoped, promise promised, want wanted")

SETTINGS = (
    "yesterday",
    "last week",
    "on Sunday",
    "in the morning",
    "in the park",
    "at the station",
    "in the old town",
    "after lunch",
    "on the ferry",
    "during the storm",
)
ASIDES = (
    "the radio was on",
    "it was raining",
    "the bells rang",
    "nobody minded",
    "the sun was shining",
    "the clock had stopped",
)
