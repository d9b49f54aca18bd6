"""A page to play with: type a text, see its label and what each hop reads.

Gradio draws the form, `attention_fragment` the picture. The page loads nothing from other hosts,
sends no statistics and keeps nothing of what is typed; its address holds the text and the hop, so
that a link shows the same again.
"""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ..data.files import read_file
from ..data.tokenizer import text_fault
from ..models.self_attentive.pipeline_self_attentive import SelfAttentionPipeline
from ..utils.loading import load_pipeline
from ..visualization import attention_fragment

try:
    import gradio as gr
except ImportError as error:
    raise ImportError(
        "the page is drawn by gradio, which is not installed: pip install 'sase_hf[demo]'"
    ) from error

TITLE = "What the model reads"
_EXPLANATION = (
    "The model reads a text several times; each of these readings, called a hop, looks at words "
    "of its own. Type or paste a text to see which."
)
MAX_CHARACTERS = 20_000
# Longer addresses are cut or refused by some programs that pass links on.
MAX_LINK_CHARACTERS = 4000

# Gradio shows the first 60 characters of an example.
EXAMPLES = (
    ("The room was small, but the breakfast was not bad at all.",),
    ("We waited an hour for a table, and then the soup was cold.",),
    ("I had expected little, and yet the tour was wonderful.",),
    ("The bed was comfortable, but the street was loud all night.",),
    ("Neither good nor bad: the food was okay, the music dull.",),
)
PAIR_EXAMPLES = (
    ("The cook thanked the guest.", "The guest thanked the cook."),
    ("All the children slept.", "Some of the children slept."),
    ("A woman plays the guitar.", "A woman is making music."),
    ("Two men carry a ladder.", "Two men are asleep."),
    ("A boy feeds the ducks.", "The boy is with his mother."),
)

_FIELDS = {"text": "Text"}
_PAIR_FIELDS = {"text": "Premise", "text_pair": "Hypothesis"}

# On a phone the picture stands right below the button, the examples after it.
_STYLE = """
.gradio-container { max-width: 70rem !important; margin: auto; }
.gradio-container .main { padding: clamp(1rem, 3vw, 2rem) !important; }
.html-container { padding: 0 !important; }
h1 { font-size: 1.75rem; font-weight: 650; line-height: 1.2; overflow-wrap: anywhere; }
.quiet { opacity: 0.75; margin-top: 0.5rem; }
#stage { display: grid; gap: 1.25rem 2rem; grid-template-columns: minmax(0, 1fr); }
#examples button { text-align: start; }
#picture input { appearance: auto; }
#picture .below { margin-top: 0.75rem; }
#picture a.view { color: var(--link-text-color); text-decoration: underline; }
@media (min-width: 56rem) {
  #stage { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); }
  #picture { grid-area: 2 / 1 / 3 / 3; }
}
/* Light or dark as the page is, which may differ from the system. */
body .sase-attention { color-scheme: light; }
body.dark .sase-attention { color-scheme: dark; }
"""

# The picture's own radio buttons choose the hop. This keeps the choice in the address: there it
# outlives the next text and is found again when a link is opened.
_KEEP_HOP_IN_ADDRESS = """
const buttons = () => [...element.querySelectorAll("input[type=radio]")];
const keep = hop => {
  const link = element.querySelector("a.view");
  const there = new URL(link ? link.href : location.pathname, location);
  there.searchParams.delete("hop");
  if (hop > 0) there.searchParams.set("hop", hop);
  if (link) link.href = there;
  const here = new URL(location);
  ["text", "text_pair", "hop"].forEach(name => here.searchParams.delete(name));
  there.searchParams.forEach((value, name) => here.searchParams.set(name, value));
  history.replaceState(history.state, "", here);
};
const show = () => {
  const hop = Number(new URLSearchParams(location.search).get("hop"));
  const button = buttons()[hop] ?? buttons()[0];
  if (button) button.checked = true;
  keep(button ? buttons().indexOf(button) : hop);
};
element.addEventListener("change", event => keep(buttons().indexOf(event.target)));
watch("value", show);
"""


def read_examples(path: str | Path, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Read texts to choose from.

    Args:
        path: A CSV, TSV, JSON, JSON Lines or Parquet file.
        columns: The column of texts, or two for a model of pairs.

    Returns:
        The texts of each row.

    Raises:
        ValueError: If the file cannot be read, has no rows, lacks a column or a text.
        OSError: If there is no such file.
    """
    split = read_file(path, columns)
    split.require(columns)
    for name in columns:
        for row, text in enumerate(split.columns[name]):
            if fault := text_fault(text):
                raise split.cell_error(row, name, fault)
    return list(zip(*(split.columns[name] for name in columns), strict=True))


def choose_examples(
    explain: SelfAttentionPipeline, examples: Sequence[Sequence[str]] | None
) -> list[list[str]]:
    """Return the examples if there are any, else neutral sentences, as the model reads them.

    Args:
        explain: The `self-attention` pipeline.
        examples: One or two texts each.

    Raises:
        ValueError: If an example has another number of texts than the model reads.
    """
    needed = 2 if explain.model.reads_pairs else 1
    for example in examples or ():
        if len(example) != needed:
            raise ValueError(
                f"the model reads {needed} text(s) at a time, and the example {example!r:.200} has "
                f"{len(example)}; name {needed} column(s) with --text_column_names"
            )
    return [list(example) for example in examples or (PAIR_EXAMPLES if needed == 2 else EXAMPLES)]


def build_page(
    explain: SelfAttentionPipeline,
    title: str = TITLE,
    examples: Sequence[Sequence[str]] | None = None,
) -> gr.Blocks:
    """Lay out the page of one model: fields to type in, examples, and the picture.

    Args:
        explain: The `self-attention` pipeline.
        title: The heading.
        examples: One or two texts each, as many as the model reads; by default neutral sentences.

    Returns:
        The page, for `serve`.

    Raises:
        ValueError: If an example has another number of texts than the model reads.
    """
    fields = _PAIR_FIELDS if explain.model.reads_pairs else _FIELDS
    rows = choose_examples(explain, examples)

    def read(*texts: str) -> str:
        return view(explain, texts)

    def follow_link(request: gr.Request) -> list[str]:
        given = request.query_params
        named = any(name in given for name in fields)
        texts = [given.get(name, "") for name in fields] if named else rows[0]
        return [*texts, read(*texts)]

    with gr.Blocks(title=title, analytics_enabled=False) as page:
        gr.HTML(f"<h1>{html.escape(title)}</h1>{_note(_EXPLANATION)}", apply_default_css=False)
        with gr.Row(elem_id="stage"):
            with gr.Column(elem_id="form"):
                boxes = [
                    gr.Textbox(label=label, lines=2, max_lines=12, elem_id=name)
                    for name, label in fields.items()
                ]
                button = gr.Button("Read", variant="primary")
            picture = gr.HTML(
                js_on_load=_KEEP_HOP_IN_ADDRESS, apply_default_css=False, elem_id="picture"
            )
            with gr.Column(elem_id="examples"):
                choices = gr.Examples(
                    rows,
                    boxes,
                    example_labels=[" / ".join(row) for row in rows],
                    cache_examples=False,
                )
        page.load(follow_link, None, [*boxes, picture], api_visibility="private")
        events = [button.click, *(box.submit for box in boxes), choices.load_input_event.then]
        for event in events:
            event(read, boxes, picture, api_visibility="private")
    return page


def serve(page: gr.Blocks, host: str | None = None, port: int | None = None) -> str:
    """Start to answer a browser, in the background.

    Args:
        page: What `build_page` made.
        host: The address to listen at; by default this machine alone, or GRADIO_SERVER_NAME.
        port: By default the first free one from 7860 on, or GRADIO_SERVER_PORT.

    Returns:
        The address of the page. `page.block_thread()` waits until it is interrupted.

    Raises:
        OSError: If the port is taken.
    """
    theme = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["monospace"])
    _, address, _ = page.launch(
        server_name=host,
        server_port=port,
        theme=theme,
        css=_STYLE,
        footer_links=[],
        run_history=False,
        share=False,
        ssr_mode=False,
        prevent_thread_lock=True,
        quiet=True,
    )
    return address


def view(explain: SelfAttentionPipeline, texts: Sequence[str]) -> str:
    """Return as HTML what the page shows for one text, or for a pair.

    Args:
        explain: The `self-attention` pipeline.
        texts: As many as the model reads; of each the first `MAX_CHARACTERS` are read.
    """
    if not any(text.strip() for text in texts):
        return _note("There is nothing to read yet: type a text, or choose an example.")
    notes = [
        f"Only the first {MAX_CHARACTERS:,} of {len(text):,} characters are read."
        for text in texts
        if len(text) > MAX_CHARACTERS
    ]
    texts = [text[:MAX_CHARACTERS] for text in texts]
    names = ("text", "text_pair")[: len(texts)]
    inputs: Any = texts[0] if len(texts) == 1 else dict(zip(names, texts, strict=True))
    picture = attention_fragment(explain(inputs, truncation=True))

    query = urlencode(dict(zip(names, texts, strict=True)), errors="replace")
    if len(query) <= MAX_LINK_CHARACTERS:
        link = f'<a class="view" href="?{html.escape(query)}">Link to this view</a>'
    else:
        link = _note("The text is too long for a link to this view.")
    return "\n".join([*map(_note, notes), picture, f'<div class="below">{link}</div>'])


def _note(text: str) -> str:
    return f'<p class="quiet">{html.escape(text)}</p>'


__all__ = [
    "TITLE",
    "build_page",
    "choose_examples",
    "load_pipeline",
    "read_examples",
    "serve",
    "view",
]
