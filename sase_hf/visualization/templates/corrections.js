/* Corrections of people, in the page that holds a model and in the report of a run: the right label
   of a text, the words that are why, and those that are not.

   They are in the page until they are downloaded, as rows that train.py reads. Both pages show a
   text in an article of the class "result", each word of it in a span of its own. `settings` has
   the `kind` of an answer, the `labels`, and the pattern of `invisible` characters. */

const NO_MARK = 0;
const WHY = 1;
const NOT_WHY = 2;
const NAMES_OF_MARKS = ["", "why", "not-why"]; // in the page
const SAID_OF_MARKS = ["not marked", "this is why", "this is not why"];
const COLUMNS_OF_MARKS = ["", "rationale", "rationale_against"];

let settings;

const first = (selector, root = document) => root.querySelector(selector);
const every = (selector, root = document) => Array.from(root.querySelectorAll(selector));

/* Return a new element; a text among its children is shown and never obeyed. */
function element(tag, children, styles = {}) {
  const created = document.createElement(tag);
  created.append(...[children].flat());
  for (const [property, value] of Object.entries(styles)) {
    if (value) created.style.setProperty(property, value);
  }
  return created;
}

// ---- texts: utils/text.py ------------------------------------------------------------------------

const SPACES = /[\p{White_Space}\x1c-\x1f]+/u; // of Python's str.split

const isEmptyText = (text) => !text.split(SPACES).join("");

/* Return for each UTF-16 unit of a text the code point that it belongs to. */
const placesOfUnits = (points) => points.flatMap((point, place) => Array(point.length).fill(place));

/* Return the code points of a text as readers see them: nothing stays hidden. */
function visible(points) {
  const shown = points.slice();
  const placeOfUnit = placesOfUnits(points);
  for (const { index, groups } of points.join("").matchAll(new RegExp(settings.invisible, "gv"))) {
    const place = placeOfUnit[index];
    const code = shown[place].codePointAt(0).toString(16).toUpperCase();
    if (groups.hidden) shown[place] = `[U+${code.padStart(4, "0")}]`;
  }
  return shown;
}

/* Return a name as readers see it. */
const shownName = (name) => visible(Array.from(name)).join("");

// ---- what was corrected --------------------------------------------------------------------------

const corrections = new Map(); // by the texts, so that a second correction replaces the first
let areDownloaded = true;

/* Return texts that UTF-8 can hold, a half of a surrogate pair replaced. */
const wellFormed = (texts) => texts.map((text) => text.toWellFormed());

const keyOf = (texts) => JSON.stringify(wellFormed(texts));

/* Return the row of a file for a correction. A label is written by its name, and marks are counted
   in code points, as train.py reads them. */
function rowOf({ texts, label, spans }) {
  const row = {};
  wellFormed(texts).forEach((text, side) => (row[side ? "text_pair" : "text"] = text));
  row.label = label;
  for (const mark of [WHY, NOT_WHY]) {
    spans[mark].forEach((ofSide, side) => {
      row[COLUMNS_OF_MARKS[mark] + (side ? "_pair" : "")] = ofSide;
    });
  }
  return row;
}

/* Return the spans of the words with a mark: one for words that follow each other. */
function spansOf(words, marks, mark) {
  const spans = [];
  words.forEach(({ start, end }, place) => {
    if (marks[place] !== mark) return;
    if (marks[place - 1] === mark) spans.at(-1)[1] = end;
    else spans.push([start, end]);
  });
  return spans;
}

/* Return the parts of spans behind the last word of a text that has something there. A page that cuts
   a text shows no words there, and marks on them stay as they are. */
function behindWords(spans, words, text) {
  const end = words.at(-1)?.end ?? 0;
  const points = Array.from(text);
  return spans
    .map(([start, last]) => [Math.max(start, end), last])
    .filter(([start, last]) => points.slice(start, last).join("").trim());
}

/* Return the mark of a word of one text of a correction, or of an item that has marks. */
function markOf({ start, end }, correction, side) {
  const touches = ([from, to]) => Math.max(start, from) < Math.min(end, to);
  const mark = [WHY, NOT_WHY].find((one) => correction.spans?.[one][side].some(touches));
  return mark ?? NO_MARK;
}

function showCount() {
  const count = corrections.size;
  const said = count === 1 ? "1 correction" : `${count} corrections`;
  first(".corrections").hidden = !count;
  first(".corrections .count").textContent = said;
  first(".counted").textContent = count ? said : "";
}

/* Keep the corrections of a file. Those that the page has are newer and stand behind, since training
   takes texts for one that differ in capitals or blanks. */
function keepFromFile(ofFile) {
  const own = Array.from(corrections);
  corrections.clear();
  for (const correction of ofFile) corrections.set(keyOf(correction.texts), correction);
  for (const [key, correction] of own) {
    corrections.delete(key);
    corrections.set(key, correction);
  }
  showCount();
}

function download() {
  const lines = Array.from(corrections.values(), (one) => `${JSON.stringify(rowOf(one))}\n`);
  const link = element("a", []);
  link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
  link.download = "corrections.jsonl";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  areDownloaded = true;
}

// ---- an article that can be corrected ------------------------------------------------------------

// By article. An item has the `texts`, their `key`, the `words` of each, the `label` that is chosen
// at first (null if the panel asks for it), the `spans` that people marked before, if any, and
// `goOn`, if there is a text to go on with.
const items = new Map();
const panels = new Map();
const waiting = new Set(); // articles whose panel opens with the next item

/* Let an article correct an item; an open panel stays open, and turns to the item. Training refuses
   empty texts: an item that has one cannot be corrected, and the panel waits for the next. */
function offerCorrection(article, item) {
  const isOpen = waiting.delete(article) || panels.has(article);
  const isComplete = !item.texts.some(isEmptyText);
  const button = first(".correct", article);
  button.onclick = () => {
    openPanel(article);
    (first(".panel :checked", article) ?? first(".panel input", article)).focus();
  };
  items.set(article, { ...item, key: keyOf(item.texts) });
  if (panels.has(article)) closePanel(article);
  showMarks(article);
  showKept(article);
  button.hidden = !isComplete;
  if (isOpen && isComplete) openPanel(article);
  else if (isOpen) waiting.add(article);
}

/* Return what is known of the text of an article: its correction, or undefined. */
const keptOf = (article) => corrections.get(items.get(article).key);

/* Return the label and the marks of a text: those of its correction, or those of the training data. */
const knownOf = (article) => keptOf(article) ?? items.get(article);

/* Show what is known of a text in all of its articles; panels of other articles than its own close,
   since they know it no more. */
function showCorrection({ article, item: { key } }) {
  for (const [other, { key: keyOfOther }] of items) {
    if (keyOfOther !== key) continue;
    if (other !== article && panels.has(other)) closePanel(other);
    if (other !== article) showMarks(other);
    showKept(other);
  }
  showCount();
}

/* Show the marks on the words of an article. */
function showMarks(article) {
  const known = knownOf(article);
  const { words } = items.get(article);
  every(".words", article).forEach((paragraph, side) => {
    every("span", paragraph).forEach((span, place) => {
      span.dataset.mark = NAMES_OF_MARKS[markOf(words[side][place], known, side)];
    });
  });
}

/* Say whether an article is corrected, and to which label. */
function showKept(article) {
  const kept = keptOf(article);
  first(".correct", article).textContent = kept ? "Correct it again" : "Correct it";
  first(".kept", article).hidden = !kept;
  if (kept) first(".kept bdi", article).textContent = shownLabel(kept.label);
}

const shownLabel = (label) => [label].flat().map((one) => shownName(String(one))).join(", ") || "no label";

/* Open the panel of an article: the labels to choose from, and words that are buttons. */
function openPanel(article) {
  const item = items.get(article);
  const known = knownOf(article);
  const form = first("#correction").content.cloneNode(true).firstElementChild;
  const marks = item.words.map((words, side) => words.map((word) => markOf(word, known, side)));
  const unseen = (known.spans ?? []).map((ofSides) =>
    ofSides.map((spans, side) => behindWords(spans, item.words[side], item.texts[side])));
  const panel = { article, item, form, marks, unseen, closing: new AbortController() };
  panels.set(article, panel);
  drawChoices(form, known.label);
  every(".words", article).forEach((paragraph, side) => makeButtons(panel, paragraph, side));
  first("[type=submit]", form).textContent = item.goOn ? "Keep, next text" : "Keep";
  first("[type=submit]", form).addEventListener("click", (event) => {
    // The second click of a double click would keep the next text before anyone has read it.
    if (event.detail > 1) event.preventDefault();
  });
  form.addEventListener("input", () => {
    if (form.checkValidity()) keep(panel); // a number that is typed and not yet left
  });
  form.addEventListener("change", () => keep(panel));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keep(panel);
    if (item.goOn) item.goOn();
    else leave(article);
  });
  first(".discard", form).addEventListener("click", () => {
    discard(panel);
    leave(article);
  });
  first(".panel", article).replaceChildren(form);
  first(".correct", article).hidden = true;
  article.classList.add("correcting");
}

function closePanel(article) {
  panels.get(article).closing.abort();
  panels.delete(article);
  for (const paragraphOrWord of every(".words, .words span", article)) {
    for (const name of ["role", "tabindex", "aria-label"]) paragraphOrWord.removeAttribute(name);
  }
  first(".panel", article).replaceChildren();
  first(".correct", article).hidden = false;
  article.classList.remove("correcting");
  showMarks(article);
}

/* Close a panel, and stay at the button that opened it. */
function leave(article) {
  closePanel(article);
  first(".correct", article).focus();
}

/* Keep what a panel says as the correction of its text; without a label the browser asks for it. */
function keep(panel) {
  const { item, form, marks, unseen } = panel;
  if (!form.reportValidity()) return;
  const spansWith = (mark) => marks.map((ofSide, side) =>
    [...spansOf(item.words[side], ofSide, mark), ...(unseen[mark]?.[side] ?? [])]);
  const spans = [[], spansWith(WHY), spansWith(NOT_WHY)];
  corrections.delete(item.key); // the newest stands last, as training wants it
  corrections.set(item.key, { texts: item.texts, label: chosenLabel(form), spans });
  areDownloaded = false;
  showCorrection(panel);
}

function discard(panel) {
  if (corrections.delete(panel.item.key)) areDownloaded = false;
  showCorrection(panel);
}

// ---- the right label -----------------------------------------------------------------------------

const TYPES = {
  single_label_classification: "radio",
  multi_label_classification: "checkbox",
  regression: "number",
};

/* Return a number with as few digits as tell it from others of float32, as models write numbers;
   other numbers stay as they are. */
function shortNumber(value) {
  if (value !== Math.fround(value)) return value;
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/* Lay out an input for each label, with what is known of the right one; null asks for it. */
function drawChoices(form, known) {
  const values = [known].flat();
  const choices = settings.labels.map((name, number) => {
    const input = element("input", []);
    input.type = TYPES[settings.kind];
    input.name = "label";
    input.required = input.type !== "checkbox";
    input.autocomplete = "off";
    if (input.type === "number") {
      input.step = "any";
      if (known !== null) input.value = shortNumber(values[number]);
    } else input.checked = values.includes(name);
    return element("label", [input, element("bdi", shownName(name))]);
  });
  first(".choices", form).replaceChildren(...choices);
  if (known === null && settings.kind === "multi_label_classification") askForLabels(form);
}

/* Let the browser ask for labels, of which none may be right, until one is chosen or taken back. */
function askForLabels(form) {
  const [box] = every("[name=label]", form);
  box.setCustomValidity("Choose the right labels. If none is right, choose one and take it back.");
  first(".choices", form).addEventListener("input", () => box.setCustomValidity(""));
}

/* Return the label that is chosen: its name, a list of names, or one number or several. */
function chosenLabel(form) {
  const inputs = every("[name=label]", form);
  const numbers = inputs.map((input) => input.valueAsNumber);
  if (settings.kind === "regression") return numbers.length > 1 ? numbers : numbers[0];
  const names = settings.labels.filter((_, number) => inputs[number].checked);
  return settings.kind === "multi_label_classification" ? names : names[0];
}

// ---- words to mark -------------------------------------------------------------------------------

/* Turn the words of one text into buttons: the Tab key finds one of them, arrows the others. */
function makeButtons(panel, paragraph, side) {
  const words = every("span", paragraph);
  const marks = panel.marks[side];
  const { signal } = panel.closing;

  function show(place) {
    words[place].dataset.mark = NAMES_OF_MARKS[marks[place]];
    words[place].ariaLabel = `${words[place].textContent}, ${SAID_OF_MARKS[marks[place]]}`;
  }

  function markNext(place) {
    marks[place] = (marks[place] + 1) % NAMES_OF_MARKS.length;
    show(place);
    keep(panel);
    first(".said", panel.form).textContent = words[place].ariaLabel;
  }

  function moveTo(place) {
    first('[tabindex="0"]', paragraph).tabIndex = -1;
    words[place].tabIndex = 0;
    words[place].focus();
  }

  paragraph.role = "toolbar";
  const ofPair = side ? " in the second text" : " in the first text";
  paragraph.ariaLabel = `Words to mark${panel.item.texts.length > 1 ? ofPair : ""}`;
  words.forEach((word, place) => {
    word.role = "button";
    word.tabIndex = place ? -1 : 0;
    show(place);
  });
  paragraph.addEventListener("click", ({ target }) => {
    const place = words.indexOf(target);
    if (place < 0) return;
    moveTo(place);
    markNext(place);
  }, { signal });
  paragraph.addEventListener("keydown", (event) => {
    const place = words.indexOf(event.target);
    const goal = goalOfKey(event, place, words.length - 1, paragraph);
    if (place < 0 || goal === null) return;
    event.preventDefault();
    if (goal === place) markNext(place);
    else moveTo(goal);
  }, { signal });
}

/* Return the place to go to by a key; the same place if the key marks, null for other keys. */
function goalOfKey({ key, altKey, ctrlKey, metaKey }, place, last, paragraph) {
  if (altKey || ctrlKey || metaKey) return null;
  if (key === "Enter" || key === " ") return place;
  const isFromRight = getComputedStyle(paragraph).direction === "rtl";
  const goals = {
    [isFromRight ? "ArrowLeft" : "ArrowRight"]: place === last ? 0 : place + 1,
    [isFromRight ? "ArrowRight" : "ArrowLeft"]: place ? place - 1 : last,
    Home: 0,
    End: last,
  };
  return goals[key] ?? null;
}

// ---- starting ------------------------------------------------------------------------------------

function startCorrections(values) {
  settings = values;
  first(".corrections .download").addEventListener("click", download);
  window.addEventListener("beforeunload", (event) => {
    if (corrections.size && !areDownloaded) event.preventDefault();
  });
}
