/* What the page does: unpack the model, read what is typed, and fill in what live.html lays out. */

const one = (selector, within = document) => within.querySelector(selector);
const every = (selector, within = document) => Array.from(within.querySelectorAll(selector));
const pause = () => new Promise((resume) => setTimeout(resume));

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
  weights = Object.fromEntries(model.tensors.map(([name, kind, first, length]) => {
    const own = new kinds[kind](bytes.buffer, first, length);
    return [name, kind === "float16" ? Float32Array.from(own, fromHalf) : own];
  }));
  prepareTokenizer();
}

// ---- words and colours: attended_text.py and page.py ---------------------------------------------

const percent = (share) => `${(100 * share).toFixed(share >= 0.095 || !share ? 0 : 1)}%`;
const signed = (added) => `${added > -0.005 ? "+" : "−"}${Math.abs(added).toFixed(2)}`;
const number = (score) => (model.kind === "probabilities" ? `${(100 * score).toFixed(1)}%` : score.toFixed(3));

function shortened(text) {
  const line = Array.from(text.trim().replaceAll(/\s+/gu, " "));
  return line.length <= 60 ? line.join("") : `${line.slice(0, 59).join("")}…`;
}

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
function attended(side) {
  const starts = new Set(), words = [], shown = visible(side.points);
  let place = 0, done = 0;
  for (const { segment } of new Intl.Segmenter().segment(side.points.join(""))) {
    starts.add(place);
    place += Array.from(segment).length;
  }
  for (const [token, { start, end }] of side.tokens.entries()) {
    const last = words.at(-1), first = Math.max(start, done);
    if (last && start < end && (end <= done || (start <= done && !starts.has(start)))) {
      last.tokens.push(token);
      last.end = Math.max(done, end);
    } else if (first < end) words.push({ start: first, end, tokens: [token] });
    done = words.at(-1)?.end ?? 0;
  }
  for (const word of words) word.text = shown.slice(word.start, word.end).join("");
  const byWord = (values) => words.map((word) => sum(word.tokens.map((token) => values[token])));
  return { shown, words, views: [side.overall, ...side.attention].map(byWord), added: byWord(side.words) };
}

/* Return how strong the colours of the words are, from 0 to 1. */
function strengths(shares) {
  const full = Math.log(Math.min(model.full_strength, shares.length));
  return shares.map((share) => full && Math.min(1, Math.log(Math.max(1, share * shares.length)) / full));
}

function readsEvenly(shares) {
  const real = shares.filter((share) => share > 0), total = sum(real);
  const entropy = -sum(real.map((share) => (share / total) * Math.log(share / total)));
  const isFlat = Math.max(0, ...real) * shares.length <= model.min_ratio * total;
  return shares.length > 1 && isFlat && entropy >= model.even_entropy * Math.log(shares.length);
}

/* Return the bars of a strip: for each cell the largest value of its words. */
function bars(values, stylesOf) {
  const cells = Array(Math.min(model.strip_cells, values.length)).fill(0);
  values.forEach((value, k) => {
    const cell = Math.floor((k * cells.length) / values.length);
    if (Math.abs(value) > Math.abs(cells[cell])) cells[cell] = value;
  });
  return cells.map((value) => element("i", [], "", stylesOf(value)));
}

const added = (value) => ({ [value > 0 ? "--pro" : "--con"]: Math.abs(value).toFixed(3) });
const largest = (words, values) =>
  words.map(({ text }, k) => [text, values[k]]).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));

// ---- drawing -------------------------------------------------------------------------------------

function drawText(paragraph, text) {
  const colours = text.views.map(strengths), drawn = [];
  let done = 0;
  text.words.forEach(({ start, end, text: word }, k) => {
    const shares = text.views.map((view) => view[k]), hop = shares.indexOf(Math.max(...shares.slice(1)), 1);
    const styles = Object.fromEntries(colours.map((own, view) => [`--${view}`, own[k]]));
    const mark = element("span", word, "", { ...styles, ...added(text.added[k]) });
    mark.title = `${percent(shares[0])}; hop ${hop}: ${percent(shares[hop])}; why: ${signed(text.added[k])}`;
    drawn.push(text.shown.slice(done, start).join(""), mark);
    done = end;
  });
  paragraph.replaceChildren(...drawn, text.shown.slice(done).join(""));
}

/* Draw the strip of a line, and the strongest words of each sign, or of the view. */
function drawLine(side, { words, views, added: values }, view) {
  const isWhy = view === "why", all = largest(words, isWhy ? values : views[view]);
  const least = isWhy ? model.min_added * Math.abs(all[0]?.[1]) : model.min_top_weight;
  const strong = all.filter(([, value], k) => (!k && !isWhy) || Math.abs(value) > least);
  const strip = isWhy ? bars(values, added) : bars(strengths(views[view]), (strength) => ({ "--w": strength }));
  one(".strip", side).replaceChildren(...strip);
  every(".top", side).forEach((top, against) => {
    const own = strong.filter(([, value]) => !isWhy || value < 0 === Boolean(against)).slice(0, model.top_words);
    const named = own.flatMap(([text, value]) => {
      const word = element("bdi", shortened(text));
      return [element("b", isWhy ? [`${signed(value)} `, word] : [word, ` ${percent(value)}`]), " "];
    });
    top.replaceChildren(...(!isWhy && readsEvenly(views[view]) ? [model.reads_evenly] : named));
  });
}

function drawScores(scores, best) {
  const order = [...scores.keys()];
  if (order.length > model.max_labels) order.sort((a, b) => scores[b] - scores[a]).splice(model.max_labels);
  one(".scores").replaceChildren(...order.map((label) => {
    const name = element("th", element("bdi", model.labels[label]));
    name.scope = "row";
    const bar = model.kind === "values" ? [] : element("i", [], "", { "--w": scores[label] });
    return element("tr", [name, element("td", bar, "bar"), element("td", number(scores[label]))], label === best && "predicted");
  }));
}

function draw({ scores, best, target, sides }) {
  const texts = sides.map(attended), hops = sides[0].added.map((_, hop) => sum(sides.map((side) => side.added[hop])));
  const full = Math.max(0.001, ...texts.flatMap((text) => text.added.map(Math.abs)));
  one("main").style.setProperty("--full", full);
  one("#answer").replaceChildren(element("small", "Predicted "), element("bdi", model.labels[best]),
    element("span", ` ${number(scores[best])}`, "score"));
  every(".target").forEach((name) => (name.textContent = shortened(model.labels[target])));
  every(".full").forEach((end) => (end.textContent = signed(end.dataset.sign * full)));
  every(".words").forEach((paragraph, side) => drawText(paragraph, texts[side]));
  for (const line of every(".view")) {
    const view = one("input", line).value;
    if (view !== "why") one("small", line).textContent = signed(view > 0 ? hops[view - 1] : sum(hops));
    every(".side", line).forEach((side, k) => drawLine(side, texts[k], view));
  }
  drawScores(scores, best);
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
    if (performance.now() - started < model.moment) continue;
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
    timer = setTimeout(update, model.delay);
  });
  every("form button").forEach((button, row) => button.addEventListener("click", () => {
    every("textarea").forEach((box, side) => (box.value = model.examples[row][side]));
    update();
  }));
  await update();
  one("#unpacking").hidden = true;
  document.body.dataset.ready = "true";
}

start().catch((error) => (one("#unpacking").textContent = `This browser cannot read the model: ${error.message}`));
