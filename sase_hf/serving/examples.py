"""Made-up sentences that a page offers, whatever its model was trained on, and its longest text."""

# Gradio shows the first 60 characters of an example.
EXAMPLES = (
    ("The room was small, but the breakfast was not bad at all.",),
    ("We waited an hour for a table, and then the soup was cold.",),
    ("I had expected little, and yet the tour was wonderful.",),
)
PAIR_EXAMPLES = (
    ("The cook thanked the guest.", "The guest thanked the cook."),
    ("All the children slept.", "Some of the children slept."),
    ("A woman plays the guitar.", "A woman is making music."),
)
MAX_CHARACTERS = 20_000
