/* What the page does: unpack the model, read what is typed, and fill in what live.html lays out. */

const DELAY = 120, MOMENT = 12; // milliseconds: from a key to the reading, and of reading without a pause

const one = (selector) => document.querySelector(selector);
const every = (selector) => Array.from(document.querySelectorAll(selector));
const pause = () => new Promise((resume) => setTimeout(resume));
const signed = (added) => `${added > -0.005 ? "+" : "−"}${Math.abs(added).toFixed(2)}`;

/* Return a new element; a text among its children is shown and never obeyed. */
function element(tag, children, name = "", styles = {}) {
  const made = document.createElement(tag);
  made.className = name;
  made.append(...[children].flat());
  for (const [property, value] of Object.entries(styles)) if (value) made.style.setProperty(property, value);
  return made;
}

// ---- unpacking -----------------------------------------------------------------------------------

function fromHalf(bits) {
  const exponent = (bits >> 10) & 31, fraction = (bits & 1023) / 1024;
  return (bits & 0x8000 ? -1 : 1) * (exponent ? (1 + fraction) * 2 ** (exponent - 15) : fraction * 2 ** -14);
}

/* Decode the parts of the model, and move the bar. */
async function unpack() {
  model = JSON.parse(one("#model").textContent);
  const bytes = new Uint8Array(model.num_bytes);
  let done = 0;
  for (const block of every(".part-of-model")) {
    const part = atob(block.textContent);
    for (let place = 0; place < part.length; place++) bytes[done++] = part.charCodeAt(place);
    block.remove();
    one("progress").value = done / model.num_bytes;
    await pause();
  }
  const kinds = { int8: Int8Array, float16: Uint16Array, float32: Float32Array };
  weights = Object.fromEntries(model.tensors.map(([name, kind, first, length, count]) => {
    const own = new kinds[kind](bytes.buffer, first, length);
    return [name, split(kind === "float16" ? Float32Array.from(own, fromHalf) : own, count)];
  }));
  prepareTokenizer();
}

// ---- words and colours: attended_text.py ---------------------------------------------------------

/* Return the code points of a text as readers see them: nothing stays hidden. */
function visible(points) {
  const shown = points.slice(), places = points.flatMap((point, k) => Array(point.length).fill(k));
  for (const { index, groups } of points.join("").matchAll(new RegExp(model.invisible, "gv"))) {
    const code = shown[places[index]].codePointAt(0).toString(16).toUpperCase();
    if (groups.hidden) shown[places[index]] = `[U+${code.padStart(4, "0")}]`;
  }
  return shown;
}

/* Return the words of a text with their weights in each view. A word is a token, or the tokens of
   what a reader sees as one character. */
function attended({ points, tokens, overall, attention, words: contributions }) {
  const starts = new Set(), words = [], shown = visible(points);
  let place = 0, done = 0;
  for (const { segment } of new Intl.Segmenter().segment(points.join(""))) {
    starts.add(place);
    place += Array.from(segment).length;
  }
  for (const [token, { start, end }] of tokens.entries()) {
    const last = words.at(-1), first = Math.max(start, done);
    if (last && start < end && (end <= done || (start <= done && !starts.has(start)))) {
      last.tokens.push(token);
      last.end = Math.max(done, end);
    } else if (first < end) words.push({ start: first, end, tokens: [token] });
    done = words.at(-1)?.end ?? 0;
  }
  const byWord = (values) => words.map((word) => sum(word.tokens.map((token) => values[token])));
  return { shown, words, views: [overall, ...attention].map(byWord), added: byWord(contributions) };
}

/* Return how strong the colours of the words are, from 0 to 1. */
function strengths(shares) {
  const full = Math.log(Math.min(model.full_strength, shares.length));
  return shares.map((share) => full && Math.min(1, Math.log(Math.max(1, share * shares.length)) / full));
}

// ---- drawing -------------------------------------------------------------------------------------

function drawText(paragraph, { shown, words, views, added }) {
  const colours = views.map(strengths), drawn = [];
  let done = 0;
  words.forEach(({ start, end }, k) => {
    const styles = Object.fromEntries(colours.map((own, view) => [`--${view}`, own[k]]));
    styles[added[k] > 0 ? "--pro" : "--con"] = Math.abs(added[k]).toFixed(3);
    drawn.push(shown.slice(done, start).join(""), element("span", shown.slice(start, end).join(""), "", styles));
    done = end;
  });
  paragraph.replaceChildren(...drawn, shown.slice(done).join(""));
}

/* Name the strongest words of a view, or those for the label or against it. */
function drawTop(top, { shown, words, views, added }) {
  const sign = { pro: 1, con: -1 }[top.dataset.view], shares = views[top.dataset.view];
  const values = shares ?? added.map((value) => sign * value);
  const largest = Math.max(...(shares ?? added.map(Math.abs)));
  const least = shares ? Math.min(model.min_top_weight, largest) : model.min_added * largest;
  const number = (value) => (shares ? `${(100 * value).toFixed(value >= 0.095 ? 0 : 1)}%` : signed(sign * value));
  const strong = [...words.keys()].filter((k) => values[k] > 0 && values[k] >= least).sort((a, b) => values[b] - values[a]);
  top.replaceChildren(...strong.slice(0, model.top_words).map((k) =>
    element("b", [element("bdi", shown.slice(words[k].start, words[k].end).join("")), ` ${number(values[k])} `])));
}

function draw({ scores, best, target, sides }) {
  const texts = sides.map(attended), full = Math.max(0.001, ...texts.flatMap((text) => text.added.map(Math.abs)));
  const number = (score) => (model.kind === "probabilities" ? `${(100 * score).toFixed(1)}%` : score.toFixed(3));
  const order = [...scores.keys()];
  if (order.length > model.max_labels) order.sort((a, b) => scores[b] - scores[a]).splice(model.max_labels);
  one("main").style.setProperty("--full", full);
  one("#answer").replaceChildren(element("small", "Predicted "), element("bdi", model.labels[best]),
    element("span", ` ${number(scores[best])}`, "score"));
  one(".scores").replaceChildren(...order.map((label) => {
    const bar = model.kind === "values" ? [] : element("i", [], "", { "--w": scores[label] });
    const head = element("th", element("bdi", model.labels[label]));
    head.scope = "row";
    const cells = [head, element("td", bar, "bar"), element("td", number(scores[label]))];
    return element("tr", cells, label === best ? "predicted" : "");
  }));
  every(".target").forEach((name) => (name.textContent = model.labels[target]));
  every(".words").forEach((paragraph, side) => drawText(paragraph, texts[side]));
  every(".top").forEach((top) => drawTop(top, texts[top.dataset.side]));
  every(".view small").forEach((total, hop) =>
    (total.textContent = signed(sum(sides.map((side) => sum(side.contributions[hop]))))));
  one(".result").hidden = false;
}

// ---- typing --------------------------------------------------------------------------------------

let turn = 0, timer;

/* Read what is typed, a moment at a time, until it is read or something else is typed. */
async function update() {
  const own = ++turn, boxes = every("textarea"), target = one("select")?.value;
  const texts = boxes.map((box) => Array.from(box.value).slice(0, model.max_characters).join(""));
  one("#cut").hidden = texts.every((text, k) => text === boxes[k].value);
  const isEmpty = !texts.some((text) => text.trim());
  if (isEmpty) one(".result").hidden = true;
  const reading = read(texts, target ? Number(target) : null);
  let step, started = performance.now();
  while (!(step = reading.next()).done) {
    if (performance.now() - started < MOMENT) continue;
    await pause();
    if (own !== turn) return;
    started = performance.now();
  }
  if (!isEmpty) draw(step.value);
}

async function start() {
  every("[data-w]").forEach((cell) => cell.style.setProperty("--w", cell.dataset.w));
  await unpack();
  one("form").addEventListener("input", () => {
    turn++;
    clearTimeout(timer);
    timer = setTimeout(update, DELAY);
  });
  every("form button").forEach((button, row) => button.addEventListener("click", () => {
    every("textarea").forEach((box, side) => (box.value = model.examples[row][side]));
    update();
  }));
  await update();
  one("#unpacking").hidden = true;
  document.body.dataset.ready = "true";
}

// A failed reading leaves no older answer under the text.
window.addEventListener("unhandledrejection", ({ reason }) => {
  one(".result").hidden = true;
  one("#unpacking").hidden = false;
  one("#unpacking").textContent = `This browser cannot read the model: ${reason.message}`;
});
start();
