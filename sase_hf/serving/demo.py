"""A page to try a model: type a text, see its label and the attention, or its translation.

Gradio draws the form, `attention_fragment` or `alignment_fragment` the heatmap. The page loads
nothing from other hosts, sends no statistics and keeps nothing that is typed.
"""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import Pipeline

from ..hub.card import card_facts
from ..models import TRANSLATION_TASK
from ..utils.errors import refusal
from ..visualization import alignment_fragment, attention_fragment, visible
from ..visualization.alignment import MAX_TOKENS
from ..visualization.attended_text import shortened
from .examples import EXAMPLES, MAX_CHARACTERS, PAIR_EXAMPLES

try:
    import gradio as gr
except ImportError as error:
    raise ImportError(
        "the page needs gradio, which is not installed: pip install 'sase_hf[demo]'"
    ) from error

# The fields of the form, by the names of the texts in the pipeline, with their labels.
TEXT_FIELDS = {"text": "Text"}
PAIR_FIELDS = {"text": "Premise", "text_pair": "Hypothesis"}

STYLE_SHEET = Path(__file__).with_name("demo.css")
TITLE = "What the model reads"
ATTENTION = "The model reads a text several times. Each reading, a hop, weighs the words anew."
ALIGNMENT = "The model translates a text. Each word that it writes weighs the words of the text."


def build_page(
    explain: Pipeline, title: str = TITLE, examples: Sequence[Sequence[str]] = ()
) -> gr.Blocks:
    """Lay out the page of one model: text fields, examples and the heatmap.

    `explain` is the `self-attention` or the `aligned-translation` pipeline. The `examples` are rows
    of one text, or of two for a model of pairs; by default neutral sentences.
    """
    fields = PAIR_FIELDS if explain.model.reads_pairs else TEXT_FIELDS
    rows = _checked_examples(examples, len(fields))
    labels = _labels_to_explain(explain)

    def read(*values: str | int | None) -> str:
        return view_of_values(explain, labels, values)

    with gr.Blocks(title=title, analytics_enabled=False) as page:
        gr.HTML(f"<h1>{html.escape(title)}</h1>{about(explain)}", apply_default_css=False)
        with gr.Row(elem_id="stage"):
            with gr.Column(elem_id="form"):
                boxes = [
                    gr.Textbox(text, label=label, lines=2, max_lines=12, elem_id=name)
                    for (name, label), text in zip(fields.items(), rows[0], strict=True)
                ]
                menu = _label_menu(labels)
                button = gr.Button("Read", variant="primary")
            # The first example is read here and not when the page has loaded, which would
            # overwrite what a fast reader has typed by then.
            picture = gr.HTML(read(*rows[0], 0), apply_default_css=False, elem_id="picture")
            with gr.Column(elem_id="examples"):
                lines = [" / ".join(row) for row in rows]
                choices = gr.Examples(rows, boxes, example_labels=lines, cache_examples=False)
        inputs = [*boxes, menu]
        submits = [box.submit for box in boxes]
        for event in (button.click, menu.input, *submits, choices.load_input_event.then):
            event(read, inputs, picture, api_visibility="private")
        for box in boxes:  # as it is typed: of the keys during a reading only the last one counts
            box.input(
                read,
                inputs,
                picture,
                api_visibility="private",
                trigger_mode="always_last",
                show_progress="hidden",
            )
    return page


def _checked_examples(examples: Sequence[Sequence[str]], num_texts: int) -> list[list[str]]:
    """Return the examples, by default neutral ones; ValueError if one has other texts."""
    if not examples:
        examples = EXAMPLES if num_texts == 1 else PAIR_EXAMPLES
    for row in examples:
        if len(row) != num_texts:
            raise refusal(
                f"the model reads {num_texts} text(s) at a time, and the example {row!r:.200} has "
                f"{len(row)}",
                f"name {num_texts} column(s) with --text_column_names",
            )
    return [list(row) for row in examples]


def _labels_to_explain(explain: Pipeline) -> list[str | None]:
    """Return None for the predicted label, and all labels of a model that has some to explain."""
    if hasattr(explain.model, "classify"):  # neither rankers nor translators have
        return [None, *(explain.model.config.id2label or {}).values()]
    return [None]


def _label_menu(labels: Sequence[str | None]) -> gr.Dropdown:
    """Return the menu of the label to explain, whose value is its place among the labels."""
    names = ["the predicted label", *(visible(str(label)) for label in labels[1:])]
    choices = [(name, place) for place, name in enumerate(names)]
    return gr.Dropdown(choices, value=0, label="Explain", visible=len(labels) > 2)


def serve(page: gr.Blocks, host: str | None = None, port: int | None = None) -> str:
    """Serve a page in the background, by default to this machine only; return its address."""
    _, address, _ = page.launch(
        server_name=host,
        server_port=port,
        theme=gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["monospace"]),
        css_paths=STYLE_SHEET,
        footer_links=[],
        enable_monitoring=False,  # its page would repeat any name of a host
        run_history=False,
        share=False,
        ssr_mode=False,
        prevent_thread_lock=True,
        quiet=True,
        max_file_size=1,  # byte: the page takes no files, but Gradio takes uploads
    )
    return address


def about(explain: Pipeline) -> str:
    """Return the HTML that explains the page and names the training data of the model."""
    checkpoint = explain.model.name_or_path  # empty for a model that was not loaded
    data = card_facts(checkpoint).get("Trained on", "") if checkpoint else ""
    data = shortened(visible(data), 300).rstrip(".")
    origin = "The model's card names no training data."
    if data:
        origin = f"It was trained on {data}."
    reading = ALIGNMENT if explain.task == TRANSLATION_TASK else ATTENTION
    return _note(f"{reading} {origin}")


def view_of_values(explain: Pipeline, labels: Sequence[str | None], values: Sequence[Any]) -> str:
    """Return the view of what the fields hold: the texts, and the place of the label to explain.

    A value is None where another program has sent null.
    """
    *texts, place = values
    return view(explain, [text or "" for text in texts], labels[place or 0])


def view(explain: Pipeline, texts: Sequence[str], target: str | None = None) -> str:
    """Return the HTML that the page shows for one text or a pair, cut to `MAX_CHARACTERS` each.

    It explains the label `target`, by default the predicted one. A text to translate is also cut to
    `MAX_TOKENS` tokens.
    """
    if not any(text.strip() for text in texts):
        return _note("There is nothing to read yet: type a text, or choose an example.")
    notes = [
        _note(f"Only the first {MAX_CHARACTERS:,} of {len(text):,} characters are read.")
        for text in texts
        if len(text) > MAX_CHARACTERS
    ]
    cut = [text[:MAX_CHARACTERS] for text in texts]
    if explain.task == TRANSLATION_TASK:
        result = explain(cut[0], max_source_length=MAX_TOKENS)
        if result["truncated"]:
            notes.append(_note(f"Only the first {MAX_TOKENS} tokens of the text are translated."))
        return "\n".join([*notes, alignment_fragment(result)])
    inputs = dict(zip(PAIR_FIELDS, cut, strict=False))
    result = explain(inputs, truncation=True, target=target)
    return "\n".join([*notes, attention_fragment(result)])


def _note(text: str) -> str:
    return f'<p class="quiet">{html.escape(text)}</p>'
