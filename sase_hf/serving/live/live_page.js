/* What the page does: unpack the model, read what is typed, and fill in what live.html lays out. */

// Milliseconds: from a key to the reading, of reading without a pause, from the answer to its
// announcement.
const DELAY = 120;
const MOMENT = 12;
const SETTLED = 1000;
const SHOWN_AS_ZERO = 0.005; // what a word added; smaller numbers are not named

const pause = () => new Promise((resume) => setTimeout(resume));
const percent = (share) => `${(100 * share).toFixed(share >= 0.095 ? 0 : 1)}%`;
const counted = (count) => count.toLocaleString("en");
const signed = (added) => `${added > -0.005 ? "+" : "−"}${Math.abs(added).toFixed(2)}`;

// ---- unpacking -----------------------------------------------------------------------------------

/* Return the number that 16 bits hold. */
function fromHalf(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  const size = exponent ? (1 + fraction) * 2 ** (exponent - 15) : fraction * 2 ** -14;
  return bits & 0x8000 ? -size : size;
}

/* Decode the parts of the file, weights before the model's JSON, and move the bar. */
async function unpack() {
  const bar = first("#unpacking progress");
  const packed = new Uint8Array(bar.max);
  let count = 0;
  for (const part of every(".part-of-model")) {
    for (const character of atob(part.textContent)) {
      packed[count++] = character.charCodeAt();
    }
    part.remove();
    bar.value = count;
    await pause();
  }
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const content = await new Response(unpacked).arrayBuffer().catch(() => {
    throw new Error("some of its bytes are wrong");
  });
  model = JSON.parse(new TextDecoder().decode(content.slice(bar.dataset.weights_end)));
  const arrays = { int8: Int8Array, float16: Uint16Array, float32: Float32Array };
  const halves = Float32Array.from({ length: 65536 }, (_, bits) => fromHalf(bits));
  weights = {};
  for (const [name, type, start, size, numParts] of model.tensors) {
    const numbers = new arrays[type](content, start, size);
    const all = type === "float16" ? new Float32Array(size).map((_, at) => halves[numbers[at]]) : numbers;
    weights[name] = split(all, numParts);
  }
  prepareTokenizer();
}

// ---- words and colours: attended_text.py ---------------------------------------------------------

/* Return whether a token at `start` goes on with the word of the token before it, whose end is
   `end`: pipeline_self_attentive.py. */
function isInsideWord(points, start, end) {
  if (start !== end) return start < end;
  return joinedCharacter.test(points[start - 1]) && joinedCharacter.test(points[start]);
}

/* Return the words of a text: their start, their end and their tokens. A word is a token, those whose
   letters meet, or the tokens of what a reader sees as one character. */
function wordsOf(points, tokens) {
  const placeOfUnit = placesOfUnits(points);
  const characters = new Intl.Segmenter().segment(points.join(""));
  const starts = new Set(Array.from(characters, ({ index }) => placeOfUnit[index]));
  const words = [];
  for (const [token, { start, end }] of tokens.entries()) {
    const last = words.at(-1);
    const done = last?.end ?? 0;
    const before = tokens[token - 1];
    const isPiece = before && isInsideWord(points, start, before.end);
    if (last && (isPiece || end <= done || (start <= done && !starts.has(start)))) {
      last.tokens.push(token);
      last.end = Math.max(done, end);
    } else {
      words.push({ start: Math.max(start, done), end, tokens: [token] });
    }
  }
  return words;
}

/* Return the words of a text with their weights in each view, and what each of them added. */
function attended({ points, tokens, truncated, overall, attention, linear, words: contributions }) {
  const words = wordsOf(points, tokens);
  const byWord = (values) => words.map((word) => sum(word.tokens.map((token) => values[token])));
  return {
    shown: visible(points),
    words,
    truncated,
    views: [overall, ...attention].map(byWord),
    added: byWord(contributions),
    linear: byWord(linear),
  };
}

/* Return a text on one line of at most `longest` characters. */
function shortened(text, longest = 60) {
  const line = Array.from(text.split(SPACES).filter(Boolean).join(" "));
  return line.length > longest ? `${line.slice(0, longest - 1).join("")}…` : line.join("");
}

/* Return how strong the colours of the words are, from 0 to 1. */
function strengths(shares) {
  const full = Math.log(Math.min(model.full_strength, shares.length));
  return shares.map((share) => Math.min(1, Math.log(Math.max(1, share * shares.length)) / full) || 0);
}

// ---- drawing -------------------------------------------------------------------------------------

/* Return the name of the style of what a word added: for the label or against it. */
const signOf = (added) => (added > 0 ? "pro" : "con");

/* Draw the words of a text in the colours of each view, and say below it what is to be known. */
function drawText(paragraph, { shown, words, truncated, views, added, linear }, hasHops) {
  const colours = (hasHops ? views : views.slice(0, 1)).map(strengths);
  const drawn = [];
  let done = 0;
  for (const [number, { start, end }] of words.entries()) {
    const styles = {};
    colours.forEach((ofView, view) => (styles[`--${view}`] = ofView[number]));
    styles[`--${signOf(added[number])}`] = Math.abs(added[number]).toFixed(3);
    if (linear[number]) styles[`--own-${signOf(linear[number])}`] = Math.abs(linear[number]).toFixed(3);
    drawn.push(shown.slice(done, start).join(""));
    drawn.push(element("span", shown.slice(start, end).join(""), styles));
    done = end;
  }
  paragraph.replaceChildren(...drawn, shown.slice(done).join(""));
  const remarks = [];
  if (!shown.length) remarks.push("The text is empty.");
  else if (!words.length) remarks.push("The text holds no words.");
  if (truncated) {
    remarks.push(`Tokens cut off at the end and not read: ${counted(truncated)}.`);
  }
  paragraph.nextElementSibling.textContent = remarks.join(" ");
}

/* Return the places of the strongest values, the strongest first; those below `least` are left out. */
function strongest(values, least) {
  const places = [...values.keys()].filter((place) => values[place] > 0 && values[place] >= least);
  places.sort((left, right) => values[right] - values[left]);
  return places.slice(0, model.top_words);
}

/* Name the words with the largest shares of a view that stand out. */
function drawShares(line, shares, nameOf) {
  const named = strongest(shares, model.min_ratio / Math.max(2, shares.length)).map((word) =>
    element("b", [nameOf(word), ` ${percent(shares[word])} `]));
  line.classList.toggle("even", !named.length);
  line.replaceChildren(...(named.length ? named : [model.none_stands_out]));
}

/* Return whether a character is one of a script without blanks between words. */
const isUnspaced = (character) => /[\p{L}\p{M}\p{N}]/u.test(character) && !joinedCharacter.test(character);

/* Return the parts of a text that added something: words, or neighbours of a script without blanks
   that both added at least `least`, for the same side. */
function reasons({ shown, words }, added, least) {
  const parts = [];
  for (const [place, { start, end }] of words.entries()) {
    const last = parts.at(-1);
    const areNeighbours = last?.end === start && isUnspaced(shown[start - 1]) && isUnspaced(shown[start]);
    const areLarge = areNeighbours && Math.min(Math.abs(last.added), Math.abs(added[place])) >= least;
    if (areLarge && last.added * added[place] > 0) {
      last.end = end;
      last.added += added[place];
    } else {
      parts.push({ start, end, added: added[place] });
    }
  }
  return parts;
}

/* Name the reasons that added most to the logit of the label (sign 1), or took most from it (-1). */
function drawAdded(line, text, added, sign) {
  const least = Math.max(model.min_added * Math.max(...added.map(Math.abs)), SHOWN_AS_ZERO);
  const parts = reasons(text, added, least);
  const places = strongest(parts.map((part) => sign * part.added), least);
  const named = places.map((place) => {
    const { start, end, added: number } = parts[place];
    const name = element("bdi", shortened(text.shown.slice(start, end).join("")));
    return element("b", [`${signed(number)} `, name, " "]);
  });
  line.replaceChildren(...named);
}

/* Name the strongest words of a view, or the reasons for the label or against it. */
function drawTop(line, text) {
  const { shown, words, views, added, linear } = text;
  const nameOf = (word) =>
    element("bdi", shortened(shown.slice(words[word].start, words[word].end).join("")));
  const { view } = line.dataset;
  const bySign = { pro: [added, 1], con: [added, -1], linear_pro: [linear, 1], linear_con: [linear, -1] };
  if (view in bySign) drawAdded(line, text, ...bySign[view]);
  else drawShares(line, views[view], nameOf);
}

const scoreText = (score) =>
  (model.kind === "single_label_classification" ? `${(100 * score).toFixed(1)}%` : score.toFixed(3));

/* Return a row of the table of scores. */
function scoreRow(label, score, isPredicted) {
  const row = first("#score").content.cloneNode(true).firstElementChild;
  const [head, bar, cell] = row.children;
  row.classList.toggle("predicted", isPredicted);
  head.firstChild.textContent = shownName(model.labels[label]);
  bar.firstChild?.style.setProperty("--w", score);
  cell.textContent = scoreText(score);
  return row;
}

/* Return the labels that are predicted, or all numbers. */
function predictedLabels(scores, best) {
  if (model.kind === "regression") return [...scores.keys()];
  if (model.kind === "single_label_classification") return [best];
  return [...scores.keys()].filter((label) => scores[label] > 0.5);
}

/* Return a prediction in the form of the label of a correction. */
function predictedLabel(scores, best) {
  if (model.kind === "regression") {
    const numbers = scores.map(Math.fround);
    return numbers.length > 1 ? numbers : numbers[0];
  }
  const names = predictedLabels(scores, best).map((label) => model.labels[label]);
  return model.kind === "multi_label_classification" ? names : names[0];
}

/* Return the label to choose at first: that of the file, or else what is predicted. It is null, so
   that the page asks for it, if the file has one that the model does not know. */
function offeredLabel(typed, scores, best) {
  const ofFile = opened?.labels.get(keyOf(typed));
  return ofFile === undefined ? predictedLabel(scores, best) : ofFile;
}

/* Write what is predicted, and the table of the highest scores. */
function drawAnswer(scores, best) {
  const labels = [...scores.keys()];
  const predicted = predictedLabels(scores, best);
  const areNumbers = model.kind === "regression" && labels.length > 1;
  const hasScore = model.kind !== "multi_label_classification" && !areNumbers;
  const names = predicted.map((label) =>
    shownName(model.labels[label]) + (areNumbers ? ` ${scoreText(scores[label])}` : ""));
  first("#answer bdi").textContent = names.join(", ") || "no label";
  first("#answer .score").textContent = hasScore ? scoreText(scores[best]) : "";
  if (labels.length > model.max_labels) {
    labels.sort((left, right) => scores[right] - scores[left]).splice(model.max_labels);
  }
  const rows = labels.map((label) => scoreRow(label, scores[label], predicted.includes(label)));
  first(".scores").replaceChildren(...rows);
}

/* Write what each view added in both texts. The line of all hops is behind the fold, with the reason,
   where they added little. */
function drawTotals(sides, logit) {
  const byHop = times(model.num_hops, (hop) => sum(sides.map((side) => sum(side.contributions[hop]))));
  const byHops = sum(byHop);
  const byWordsThemselves = sum(sides.flatMap((side) => side.linear));
  const together = byHops + byWordsThemselves;
  const write = (selector, added) =>
    every(selector).forEach((total, place) => (total.textContent = signed(added[place])));
  const byWords = sum(sides.flatMap((side) => side.words));
  write(".why:not(.own) small", [byWords]);
  write(".own small", [byWordsThemselves]);
  write(".sum small", [logit - byWords, together]);
  const areBehind = Math.abs(byHops) < model.led_by_hops * Math.abs(together);
  const allHops = first(".view:has([value='0'])");
  const place = first(areBehind ? ".behind" : ".leading");
  if (allHops.parentElement !== place) place.append(allHops);
  write(":is(.leading, .behind) small", [byHops]);
  write(".attention > .view:not(.own, .sum) small", byHop);
  const alone = first(".own") ? ", and what the words say by themselves" : "";
  first(".attention summary").textContent = areBehind
    ? `What was read: the hops added ${signed(byHops)} of ${signed(together)}, so their attention explains little`
    : `What each hop read${alone}`;
}

/* Say what speaks against the answer, and name the nearest training texts: attended_text.py. */
function drawNeighbours({ familiarity, nearest, unknown }, scores, best) {
  const doubts = [];
  if (familiarity < model.unlike) {
    doubts.push(`Unlike the training texts: at most ${Math.ceil(100 * familiarity)} in 100 held-out texts `
      + `are as far from them; ${(100 * unknown).toFixed(0)}% of its words are unknown.`);
  }
  const spelled = (label) => [label].flat().toSorted().join("\n");
  const predicted = spelled(predictedLabel(scores, best));
  if (model.kind !== "regression" && nearest.every(({ label }) => spelled(label) !== predicted)) {
    doubts.push("None of the nearest training texts has this label.");
  }
  first("#doubts").textContent = doubts.join(" ");
  const items = nearest.map(({ label, text = "" }) => {
    const name = [label].flat().join(", ") || "no label";
    const whole = [text].flat().join(" / ");
    return element("li", [element("bdi", shownName(whole ? `${name}: ${shortened(whole)}` : name))]);
  });
  first(".nearest")?.replaceChildren(...items); // only if their texts are kept
}

/* Name the label that is explained, and offer to explain why it is not the next one. */
function drawTarget(target, rival, next) {
  const nameOf = (label) => shownName(model.labels[label]);
  const isDifference = rival !== null && rival !== target;
  const explained = isDifference ? `${nameOf(target)} over ${nameOf(rival)}` : nameOf(target);
  for (const name of every(".target")) {
    name.textContent = shortened(explained, name.closest(".why, .sum") ? 30 : 60);
  }
  const offer = first("#rival");
  if (offer) offer.textContent = isDifference ? "Why, beside all labels?" : `Why not ${shortened(nameOf(next), 30)}?`;
}

/* Show what was read of the texts that are typed. */
function draw({ scores, best, target, rival, next, logit, sides, near }, typed) {
  drawAnswer(scores, best);
  if (near) drawNeighbours(near, scores, best);
  const texts = sides.map(attended);
  const sizes = texts.flatMap((text) => text.added.map(Math.abs));
  first("main").style.setProperty("--full", Math.max(0.001, ...sizes));
  drawTarget(target, rival, next);
  const numWords = sum(texts.map((text) => text.words.length));
  const hasHops = numWords * model.num_hops <= model.max_drawn;
  every(".words").forEach((paragraph, side) => drawText(paragraph, texts[side], hasHops));
  every(".top").forEach((line) => drawTop(line, texts[line.dataset.side]));
  drawTotals(sides, logit);
  first("#crowded").hidden = hasHops;
  first("#incomplete").hidden = !typed.some(isEmptyText);
  first(".views").hidden = !numWords;
  offerCorrection(first(".result"), {
    texts: typed,
    words: texts.map((text) => text.words),
    label: offeredLabel(typed, scores, best),
    goOn: wayOn(typed),
  });
}

// ---- typing --------------------------------------------------------------------------------------

let timer;

/* Take the steps of a reading, a moment at a time; return its value, or null once it `isOff`. */
async function inMoments(steps, isOff) {
  let started = performance.now();
  let step = steps.next();
  while (!step.done) {
    if (performance.now() - started >= MOMENT) {
      await pause();
      if (isOff()) return null;
      started = performance.now();
    }
    step = steps.next();
  }
  return step.value;
}

/* Return the first characters of a text, which have at most two UTF-16 units each. */
function partThatIsRead(text) {
  const characters = Array.from(text.slice(0, 2 * model.max_characters));
  return characters.slice(0, model.max_characters).join("");
}

/* Read what is typed, until it is read or something else is typed. */
async function update() {
  const ownTimer = timer;
  const typed = every("textarea").map((box) => box.value);
  const [target, rival] = every(".asked select").map(({ value }) => value);
  const texts = typed.map(partThatIsRead);
  const isEmpty = texts.every(isEmptyText);
  first("#cut").hidden = texts.every((text, side) => text === typed[side]);
  first("#nothing").hidden = !isEmpty;
  first("#unread").textContent = "";
  const idOf = (value) => (value && value !== "next" ? Number(value) : value || null);
  const reading = read(texts, idOf(target), idOf(rival));
  const answer = await inMoments(reading, () => ownTimer !== timer);
  if (answer === null) return;
  if (!isEmpty) draw(answer, typed);
  first(".result").hidden = isEmpty;
  setWaiting(false);
  timer = setTimeout(announce, SETTLED);
}

/* Let a screen reader say the answer. */
function announce() {
  const nothing = first("#nothing");
  const place = opened ? `Text ${first(".walk .place").textContent}. ` : "";
  const answer = `${place}Predicted ${first("#answer bdi").textContent}`;
  first("#spoken").textContent = nothing.hidden ? answer : nothing.textContent;
}

/* Set whether the article waits for the text of the boxes. While it does, it shows another text, and
   nothing in it can be chosen. */
function setWaiting(isWaiting) {
  first(".result").ariaBusy = isWaiting;
  first(".result").inert = isWaiting;
}

/* Stop the reading under way, and read what is typed by then. */
function readIn(delay) {
  clearTimeout(timer);
  setWaiting(true);
  timer = setTimeout(update, delay);
}

/* Put an example into the boxes, and read it. */
function showExample(number) {
  every("textarea").forEach((box, side) => (box.value = model.examples[number][side]));
  readIn(0);
}

async function start() {
  await unpack();
  startCorrections(model);
  prepareOpening();
  every(".typed, .asked").forEach((one) => one.addEventListener("input", () => readIn(DELAY)));
  every("form button").forEach((button, number) =>
    button.addEventListener("click", () => showExample(number)));
  first("#rival")?.addEventListener("click", () => {
    const [, rival] = every(".asked select");
    rival.value = rival.value ? "" : "next";
    readIn(0);
  });
  await update();
  first("#unpacking").hidden = true;
  document.body.dataset.ready = "true";
}

// A failed reading leaves no older answer, and what is typed stays.
window.addEventListener("unhandledrejection", ({ reason: { message } }) => {
  first(".result").hidden = true;
  setWaiting(false);
  if ("ready" in document.body.dataset) {
    first("#unread").textContent = `This text could not be read: ${message}.`;
  } else {
    first("main").textContent = `This page cannot read its model: ${message}. `
      + "Get the file again, or open it in a newer browser.";
  }
});
start();
