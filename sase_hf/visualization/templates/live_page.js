/* What the page does: unpack the model, read what is typed, and fill in what live.html lays out. */

// Milliseconds: from a key to the reading, of reading without a pause, from the answer to its announcement.
const DELAY = 120, MOMENT = 12, SETTLED = 1000;
const SPACES = /[\p{White_Space}\x1c-\x1f]+/u; // of Python's str.split

const one = (selector) => document.querySelector(selector);
const every = (selector) => Array.from(document.querySelectorAll(selector));
const pause = () => new Promise((resume) => setTimeout(resume));
const percent = (share) => `${(100 * share).toFixed(share >= 0.095 ? 0 : 1)}%`;
const signed = (added) => `${added > -0.005 ? "+" : "−"}${Math.abs(added).toFixed(2)}`;

/* Return a new element; a text among its children is shown and never obeyed. */
function element(tag, children, styles = {}) {
  const made = document.createElement(tag);
  made.append(...[children].flat());
  for (const [property, value] of Object.entries(styles)) if (value) made.style.setProperty(property, value);
  return made;
}

// ---- unpacking -----------------------------------------------------------------------------------

function fromHalf(bits) {
  const exponent = (bits >> 10) & 31, fraction = (bits & 1023) / 1024;
  return (bits & 0x8000 ? -1 : 1) * (exponent ? (1 + fraction) * 2 ** (exponent - 15) : fraction * 2 ** -14);
}

/* Decode the parts of the file, weights before the model's JSON, and move the bar. */
async function unpack() {
  const bar = one("progress"), bytes = new Uint8Array(bar.max), { checksum, weights_end } = bar.dataset;
  let done = 0, low = 1, high = 0; // of Adler-32
  for (const block of every(".part-of-model")) {
    for (const character of atob(block.textContent)) {
      bytes[done] = character.charCodeAt();
      low = (low + bytes[done++]) % 65521;
      high = (high + low) % 65521;
    }
    block.remove();
    bar.value = done;
    await pause();
  }
  if (done !== bytes.length || 65536 * high + low !== Number(checksum)) throw new Error("some of its bytes are wrong");
  model = JSON.parse(new TextDecoder().decode(bytes.subarray(weights_end)));
  const kinds = { int8: Int8Array, float16: Uint16Array, float32: Float32Array };
  weights = Object.fromEntries(model.tensors.map(([name, kind, first, length, count]) => {
    const own = new kinds[kind](bytes.buffer, first, length);
    return [name, split(kind === "float16" ? Float32Array.from(own, fromHalf) : own, count)];
  }));
  prepareTokenizer();
}

// ---- words and colours: attended_text.py ---------------------------------------------------------

/* Return for each UTF-16 unit of a text the code point that it belongs to. */
const placesOfUnits = (points) => points.flatMap((point, k) => Array(point.length).fill(k));

/* Return the code points of a text as readers see them: nothing stays hidden. */
function visible(points) {
  const shown = points.slice(), places = placesOfUnits(points);
  for (const { index, groups } of points.join("").matchAll(new RegExp(model.invisible, "gv"))) {
    const code = shown[places[index]].codePointAt(0).toString(16).toUpperCase();
    if (groups.hidden) shown[places[index]] = `[U+${code.padStart(4, "0")}]`;
  }
  return shown;
}

/* Return the words of a text with their weights in each view. A word is a token, or the tokens of
   what a reader sees as one character. */
function attended({ points, tokens, truncated, overall, attention, words: contributions }) {
  const words = [], places = placesOfUnits(points), seen = new Intl.Segmenter().segment(points.join(""));
  const starts = new Set(Array.from(seen, ({ index }) => places[index]));
  for (const [token, { start, end }] of tokens.entries()) {
    const last = words.at(-1), done = last?.end ?? 0;
    if (last && (end <= done || (start <= done && !starts.has(start)))) {
      last.tokens.push(token);
      last.end = Math.max(done, end);
    } else words.push({ start: Math.max(start, done), end, tokens: [token] });
  }
  const byWord = (values) => words.map((word) => sum(word.tokens.map((token) => values[token])));
  return { shown: visible(points), words, truncated, views: [overall, ...attention].map(byWord), added: byWord(contributions) };
}

const shortened = (text, longest = 60) => {
  const line = Array.from(text.split(SPACES).filter(Boolean).join(" "));
  return line.length > longest ? `${line.slice(0, longest - 1).join("")}…` : line.join("");
};

function readsEvenly(shares) {
  const count = shares.length, some = shares.filter((share) => share > 0), total = sum(some);
  const entropy = -sum(some.map((share) => (share / total) * Math.log(share / total)));
  return count > 1 && Math.max(0, ...some) * count <= model.min_ratio * total && entropy >= model.even_entropy * Math.log(count);
}

/* Return how strong the colours of the words are, from 0 to 1. */
const strengths = (shares) => shares.map((share) =>
  Math.min(1, Math.log(Math.max(1, share * shares.length)) / Math.log(Math.min(model.full_strength, shares.length))) || 0);

// ---- drawing -------------------------------------------------------------------------------------

function drawText(paragraph, { shown, words, truncated, views, added }, hasHops) {
  const colours = views.slice(0, hasHops ? views.length : 1).map(strengths), drawn = [];
  let done = 0;
  words.forEach(({ start, end }, k) => {
    const styles = Object.fromEntries(colours.map((own, view) => [`--${view}`, own[k]]));
    styles[added[k] > 0 ? "--pro" : "--con"] = Math.abs(added[k]).toFixed(3);
    drawn.push(shown.slice(done, start).join(""), element("span", shown.slice(start, end).join(""), styles));
    done = end;
  });
  paragraph.replaceChildren(...drawn, shown.slice(done).join(""));
  const empty = shown.length ? "The text holds no words." : "The text is empty.";
  const even = readsEvenly(views[0]) ? `The model ${model.reads_evenly} (all hops together).` : "";
  const cut = truncated ? `Tokens cut off at the end and not read: ${truncated.toLocaleString("en")}.` : "";
  paragraph.nextElementSibling.textContent = [words.length ? even : empty, cut].filter(Boolean).join(" ");
}

/* Name the strongest words of a view, or those for the label or against it. */
function drawTop(top, { shown, words, views, added }) {
  const sign = { pro: 1, con: -1 }[top.dataset.view], shares = views[top.dataset.view];
  const values = shares ?? added.map((value) => sign * value), isEven = Boolean(shares && readsEvenly(shares));
  const largest = Math.max(...(shares ?? added.map(Math.abs)));
  const least = shares ? Math.min(model.min_top_weight, largest) : model.min_added * largest;
  const strong = [...words.keys()].filter((k) => values[k] > 0 && values[k] >= least).sort((a, b) => values[b] - values[a]);
  const named = strong.slice(0, model.top_words).map((k) => {
    const word = element("bdi", shortened(shown.slice(words[k].start, words[k].end).join("")));
    return element("b", shares ? [word, ` ${percent(values[k])} `] : [`${signed(sign * values[k])} `, word, " "]);
  });
  top.classList.toggle("even", isEven);
  top.replaceChildren(...(isEven ? [model.reads_evenly] : named));
}

function draw({ scores, best, target, sides }) {
  const texts = sides.map(attended), full = Math.max(0.001, ...texts.flatMap((text) => text.added.map(Math.abs)));
  const number = (score) => (model.kind === "probabilities" ? `${(100 * score).toFixed(1)}%` : score.toFixed(3));
  const order = [...scores.keys()], areSeveral = model.kind === "shares";
  const predicted = areSeveral ? order.filter((label) => scores[label] > 0.5) : [best];
  if (order.length > model.max_labels) order.sort((a, b) => scores[b] - scores[a]).splice(model.max_labels);
  one("main").style.setProperty("--full", full);
  one("#answer bdi").textContent = predicted.map((label) => model.labels[label]).join(", ") || "no label";
  one("#answer .score").textContent = areSeveral ? "" : number(scores[best]);
  one(".scores").replaceChildren(...order.map((label) => {
    const row = one("#score").content.cloneNode(true).firstElementChild, [head, bar, cell] = row.children;
    row.classList.toggle("predicted", predicted.includes(label));
    head.firstChild.textContent = model.labels[label];
    bar.firstChild?.style.setProperty("--w", scores[label]);
    cell.textContent = number(scores[label]);
    return row;
  }));
  every(".target").forEach((name) => (name.textContent = shortened(model.labels[target], name.closest(".why") ? 30 : 60)));
  const count = sum(texts.map((text) => text.words.length)), hasHops = count * model.num_hops <= model.max_drawn;
  every(".words").forEach((paragraph, side) => drawText(paragraph, texts[side], hasHops));
  every(".top").forEach((top) => drawTop(top, texts[top.dataset.side]));
  const hops = times(model.num_hops, (hop) => sum(sides.map((side) => sum(side.contributions[hop]))));
  every(".view small").forEach((total, view) => (total.textContent = signed(view ? hops[view - 1] : sum(hops))));
  one("#crowded").hidden = hasHops;
  one(".views").hidden = !count;
}

// ---- typing --------------------------------------------------------------------------------------

let timer;

/* Read what is typed, a moment at a time, until it is read or something else is typed. */
async function update() {
  const own = timer, boxes = every("textarea"), target = one("select")?.value;
  const texts = boxes.map((box) => Array.from(box.value).slice(0, model.max_characters).join(""));
  one("#cut").hidden = texts.every((text, k) => text === boxes[k].value);
  const isEmpty = !texts.join("").split(SPACES).join("");
  one("#nothing").hidden = !isEmpty;
  one("#unread").textContent = "";
  one(".result").ariaBusy = true;
  const reading = read(texts, target ? Number(target) : null);
  let step, started = performance.now();
  while (!(step = reading.next()).done) {
    if (performance.now() - started < MOMENT) continue;
    await pause();
    if (own !== timer) return;
    started = performance.now();
  }
  if (!isEmpty) draw(step.value);
  Object.assign(one(".result"), { hidden: isEmpty, ariaBusy: false });
  timer = setTimeout(() => (one("#spoken").textContent = isEmpty ? one("#nothing").textContent : `Predicted ${one("#answer bdi").textContent}`), SETTLED);
}

/* Stop the reading under way, and read what is typed by then. */
function readIn(delay) {
  clearTimeout(timer);
  timer = setTimeout(update, delay);
}

async function start() {
  every("[data-w]").forEach((cell) => cell.style.setProperty("--w", cell.dataset.w));
  await unpack();
  one("form").addEventListener("input", () => readIn(DELAY));
  every("form button").forEach((button, row) => button.addEventListener("click", () => {
    every("textarea").forEach((box, side) => (box.value = model.examples[row][side]));
    readIn(0);
  }));
  await update();
  one("#unpacking").hidden = true;
  document.body.dataset.ready = "true";
}

// A failed reading leaves no older answer, and what is typed stays.
window.addEventListener("unhandledrejection", ({ reason: { message } }) => {
  const wayOut = "Get the file again, or open it in a newer browser.", isReady = "ready" in document.body.dataset;
  one(".result").hidden = true;
  if (isReady) one("#unread").textContent = `This text could not be read: ${message}.`;
  else one("main").textContent = `This page cannot read its model: ${message}. ${wayOut}`;
});
start();
