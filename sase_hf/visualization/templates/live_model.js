/* The model of the page: what is typed in, what the `self-attention` pipeline returns out.

   The names are those of the package: T tokens, d width of a word vector, u LSTM units, H width of
   a state, r hops, W width of a row that the classifier reads. A matrix is a flat array, inputs x
   outputs, row by row; sums are in float64. Functions with a star pause at each token. `model` is
   the JSON of the page, `weights` its tensors by the names of html_export.py. */

let model, weights, vocabulary, apart;

const zeros = (length) => new Float64Array(length);
const times = (count, make) => Array.from({ length: count }, (_, k) => make(k));
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

// ---- tokenizer: data/tokenizer.py, with offsets in code points -----------------------------------

const WORDS = String.raw`[\p{L}\p{M}\p{N}]`, ENDS_A_CHARACTER = /[\p{M}\u1160-\u11ff]/u;

function prepareTokenizer() {
  const unspaced = model.tokenizer.unspaced && `[${model.tokenizer.unspaced}]`;
  const ofWords = unspaced ? `[${WORDS}--${unspaced}]` : WORDS;
  const contraction = `(?:[Nn]'[Tt]|'(?:[Ssſ]|[Mm]|[Dd]|[Ll][Ll]|[Rr][Ee]|[Vv][Ee]))(?!${ofWords})`;
  const alone = unspaced ? String.raw`${unspaced}\p{M}*|` : "";
  apart = new RegExp(`${contraction}|${alone}[^${ofWords}]`, "gv");
  vocabulary = new Map(model.words.map((word, id) => [word, id]));
}

/* Return the text as the model reads it, and for each of its UTF-16 units the code point that it
   comes from. NFC joins a character and the marks that follow it. */
function normalized(points) {
  const origins = [];
  let text = "";
  for (let start = 0, end; start < points.length; start = end) {
    for (end = start + 1; end < points.length && ENDS_A_CHARACTER.test(points[end]); ) end++;
    const parts = points.slice(start, end), made = Array.from(parts.join("").normalize("NFC"));
    const sources = parts.flatMap((part, k) => Array.from(part.normalize("NFC"), () => start + k));
    for (const [place, character] of made.entries()) {
      const straight = character === "’" ? "'" : character;
      const cased = model.tokenizer.lowercase ? straight.toLowerCase() : straight;
      const source = place ? sources[place + sources.length - made.length] : start;
      origins.push(...Array(cased.length).fill(source));
      text += cased;
    }
  }
  return { text, origins };
}

/* Return the tokens of a normalized text, each with its place. */
function pieces(text) {
  const found = [], isOfCharacters = model.tokenizer.level === "character";
  const runs = isOfCharacters ? /\p{White_Space}+|./gsu : /\P{White_Space}+/gu;
  for (const { 0: run, index } of text.matchAll(runs)) {
    const end = index + run.length, isBlank = /\p{White_Space}/u.test(run);
    if (isBlank && index && end < text.length) found.push([end - 1, " "]);
    let done = 0;
    for (const match of isOfCharacters ? [] : run.matchAll(apart)) {
      found.push([index + done, run.slice(done, match.index)], [index + match.index, match[0]]);
      done = match.index + match[0].length;
    }
    if (!isBlank) found.push([index + done, run.slice(done)]);
  }
  return found.filter(([, word]) => word);
}

/* Return the tokens of a text in code points: id, start and end. */
function tokenize(points) {
  const { text, origins } = normalized(Array.from(points.join("").toWellFormed()));
  const tokens = pieces(text).map(([start, word]) => ({
    id: vocabulary.get(word) ?? model.tokenizer.unknown,
    start: origins[start],
    end: origins[start + word.length - 1] + 1,
  }));
  const taken = new Set(tokens.map((token) => token.start));
  const grows = ({ end }) => end < points.length && !taken.has(end) && ENDS_A_CHARACTER.test(points[end]);
  for (const token of tokens) while (grows(token)) token.end++;
  return tokens;
}

// ---- products ------------------------------------------------------------------------------------

/* Return bias + x @ matrix. Four rows, and below four sums, at a time take a third of the time. */
function affine(bias, matrix, x) {
  const y = Float64Array.from(bias), columns = y.length;
  let i = 0, at = 0;
  for (; i + 3 < x.length; i += 4, at += 3 * columns) {
    const a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3], two = 2 * columns, three = 3 * columns;
    for (let j = 0; j < columns; j++, at++)
      y[j] += a * matrix[at] + b * matrix[at + columns] + c * matrix[at + two] + d * matrix[at + three];
  }
  for (; i < x.length; i++) for (let j = 0; j < columns; j++, at++) y[j] += x[i] * matrix[at];
  return y;
}

/* Return matrix @ y: from the slopes of the outputs those of the inputs. */
function back(matrix, y) {
  const columns = y.length, x = zeros(matrix.length / columns);
  for (let i = 0, at = 0; i < x.length; i++) {
    let a = 0, b = 0, c = 0, d = 0, j = 0;
    for (; j + 3 < columns; j += 4, at += 4) {
      a += matrix[at] * y[j];
      b += matrix[at + 1] * y[j + 1];
      c += matrix[at + 2] * y[j + 2];
      d += matrix[at + 3] * y[j + 3];
    }
    for (; j < columns; j++, at++) a += matrix[at] * y[j];
    x[i] = a + b + c + d;
  }
  return x;
}

/* Add a vector to y, times one factor or one for each feature. */
function add(y, x, factors = [1]) {
  for (let k = 0; k < y.length; k++) y[k] += x[k] * (factors.length > 1 ? factors[k] : factors[0]);
}

function split(array, count) {
  const size = array.length / count;
  return times(count, (k) => array.subarray(k * size, (k + 1) * size));
}

function joined(vectors) {
  const all = zeros(sum(vectors.map((vector) => vector.length)));
  vectors.reduce((place, vector) => (all.set(vector, place), place + vector.length), 0);
  return all;
}

// ---- encoder: word vectors and BiLSTM, forward and back ------------------------------------------

function wordVector(id) {
  const d = weights.vectors.length / model.words.length, scale = weights.scales?.[id] ?? 1;
  return Float64Array.from(weights.vectors.subarray(id * d, (id + 1) * d), (x) => x * scale);
}

/* Return what an LSTM computes at one token: gates after their functions, cell and state. */
function lstmStep(lstm, input, last) {
  const gates = affine(weights[`${lstm}.bias`], weights[lstm], joined([input, last.state]));
  const u = gates.length / 4, before = last.cell, cell = zeros(u), state = zeros(u);
  for (let k = 0; k < u; k++) {
    for (let gate = k; gate < 4 * u; gate += u)
      gates[gate] = gate === k + 2 * u ? Math.tanh(gates[gate]) : 1 / (1 + Math.exp(-gates[gate]));
    cell[k] = gates[u + k] * before[k] + gates[k] * gates[2 * u + k];
    state[k] = gates[3 * u + k] * Math.tanh(cell[k]);
  }
  return { gates, before, cell, state };
}

/* Return the slopes of input and state before, from those of the state; update those of the cell. */
function lstmStepBack(lstm, { gates, before, cell }, ofState, ofCell) {
  const u = cell.length, ofGates = zeros(4 * u);
  for (let k = 0; k < u; k++) {
    const i = gates[k], f = gates[u + k], g = gates[2 * u + k], o = gates[3 * u + k];
    const bent = Math.tanh(cell[k]), inner = ofCell[k] + ofState[k] * o * (1 - bent * bent);
    ofGates[k] = inner * g * i * (1 - i);
    ofGates[u + k] = inner * before[k] * f * (1 - f);
    ofGates[2 * u + k] = inner * i * (1 - g * g);
    ofGates[3 * u + k] = ofState[k] * bent * o * (1 - o);
    ofCell[k] = inner * f;
  }
  return back(weights[lstm], ofGates);
}

/* Return the word vectors and the states of each layer, and what `slopesOfWords` needs. A browser
   makes loops fast only in functions without a star. */
function* encode(ids) {
  const levels = [ids.map(wordVector)], read = [];
  for (let layer = 0; layer < model.num_lstm_layers; layer++) {
    const below = model.lstm_shortcuts ? levels : levels.slice(-1), nothing = zeros(model.hidden_size / 2);
    read.push([[], []]);
    for (const side of [0, 1]) {
      let step = { cell: nothing, state: nothing };
      for (const token of side ? [...ids.keys()].reverse() : ids.keys()) {
        step = lstmStep(`lstm.${layer}.${side}`, joined(below.map((level) => level[token])), step);
        read[layer][side][token] = step;
        yield;
      }
    }
    levels.push(ids.map((_, token) => joined(read[layer].map((steps) => steps[token].state))));
  }
  return { levels, read };
}

/* Return the slopes of the word vectors (T, d), given those of the states (T, H). */
function* slopesOfWords({ levels, read }, ofStates) {
  const slopes = levels.map((level) => level.map((vector) => zeros(vector.length)));
  slopes[slopes.length - 1] = ofStates;
  for (let layer = model.num_lstm_layers - 1; layer >= 0; layer--) {
    for (const side of [0, 1]) {
      const u = model.hidden_size / 2, ofCell = zeros(u), tokens = [...ofStates.keys()];
      let ofState = zeros(u);
      for (const token of side ? tokens : tokens.reverse()) {
        add(ofState, split(slopes[layer + 1][token], 2)[side]);
        let found = lstmStepBack(`lstm.${layer}.${side}`, read[layer][side][token], ofState, ofCell);
        for (const level of slopes.slice(model.lstm_shortcuts ? 0 : layer, layer + 1)) {
          add(level[token], found);
          found = found.subarray(level[token].length);
        }
        ofState = found;
        yield;
      }
    }
  }
  return slopes[0];
}

// ---- pooling -------------------------------------------------------------------------------------

/* Return a state with mean 0 and variance 1, if the attention reads it so. */
function asAttended(state) {
  if (!model.normalize_states) return state;
  const mean = sum(state) / state.length, centred = state.map((x) => x - mean);
  const deviation = Math.sqrt(sum(centred.map((x) => x * x)) / state.length + 1e-5);
  return centred.map((x) => x / deviation);
}

/* Turn T scores into weights that sum to 1, by softmax or as `_sparse_weights` does. */
function attend(scores) {
  const alpha = { softmax: 1, entmax15: 1.5, sparsemax: 2 }[model.attention_function];
  const top = scores.reduce((most, score) => Math.max(most, score), -Infinity);
  if (alpha === 1) {
    const powers = scores.map((score) => Math.exp(score - top)), total = sum(powers);
    return powers.map((power) => power / total);
  }
  const z = scores.map((score) => Math.max(-1, (score - top) * (alpha - 1)));
  let total = 0, squares = 0, count = 0, threshold = -1;
  for (const value of z.slice().sort().reverse()) {
    total += value;
    squares += value * value;
    const mean = total / ++count, variance = Math.max(0, squares / count - mean * mean);
    const least = mean - (alpha === 2 ? 1 / count : Math.sqrt(Math.max(0, 1 / count - variance)));
    if (least > value || value === -1) break;
    threshold = least;
  }
  return z.map((value) => Math.max(0, value - threshold) ** (1 / (alpha - 1)));
}

/* Return the weights of each hop: (T, 1) for self-attention, (T, H) for generalized pooling. */
function* weigh(states) {
  const r = model.num_hops, byFeature = model.pooling === "generalized", scores = [];
  const bend = byFeature ? (x) => Math.max(0, x) : Math.tanh, nothing = zeros(byFeature ? model.hidden_size : r);
  const [first, bias, second] = ["1", "bias", "2"].map((name) => split(weights[`pooling.${name}`], byFeature ? r : 1));
  for (const state of states.map(asAttended)) {
    const hidden = first.map((matrix, k) => affine(bias[k], matrix, state).map(bend));
    scores.push(joined(hidden.map((units, k) => affine(nothing, second[k], units))));
    yield;
  }
  const columns = times(byFeature ? r * nothing.length : r, (k) => attend(Float64Array.from(scores, (own) => own[k])));
  return times(r, (hop) => states.map((_, token) =>
    Float64Array.from({ length: columns.length / r }, (_, k) => columns[(hop * columns.length) / r + k][token])));
}

// ---- head: logits, and the gradient of contributions_self_attentive.py ---------------------------

/* Return the groups of hidden units: the matrix of each, and the places in M that it reads. */
function groups() {
  const r = model.num_hops, W = model.row_width;
  if (weights.hidden) return [[weights.hidden, times(r * W, (k) => k)]];
  const ofRows = split(weights.rows, r).map((matrix, i) => [matrix, times(W, (w) => i * W + w)]);
  return [...ofRows, ...split(weights.columns, W).map((matrix, w) => [matrix, times(r, (i) => i * W + w)])];
}

const hiddenUnits = (features) => joined(groups().map(([matrix, places]) =>
  affine(zeros(matrix.length / places.length), matrix, places.map((place) => features[place]))));

function hiddenBack(units) {
  const slopes = zeros(model.num_hops * model.row_width);
  for (const [matrix, places] of groups()) {
    const own = units.subarray(0, matrix.length / places.length);
    back(matrix, own).forEach((slope, k) => (slopes[places[k]] += slope));
    units = units.subarray(own.length);
  }
  return slopes;
}

/* Put the rows (r, H) of several matrices side by side, or take them apart again. */
const sideBySide = (matrices) => joined(times(model.num_hops, (i) => matrices.map((one) => split(one, model.num_hops)[i])).flat());
const takenApart = (features, count) => times(count, (k) =>
  joined(split(features, model.num_hops * count).filter((_, place) => place % count === k)));

/* Apply a matrix of each hop, if there is one, to its row. */
const byHop = (matrix, name, apply) => !weights[name] ? matrix :
  joined(split(matrix, model.num_hops).map((row, i) => apply(split(weights[name], model.num_hops)[i], row)));

/* Return the integrals of 1 and of 2 a over all a from 0 to 1 where a unit is active. */
function activeShares(linear, quadratic, bias) {
  const root = Math.sqrt(Math.max(0, linear * linear - 4 * quadratic * bias));
  const half = -(linear + (linear < 0 ? -root : root)) / 2;
  const cuts = [half / quadratic, bias / half].map((cut) => Math.min(1, Math.max(0, cut || 0)));
  const edges = [0, Math.min(...cuts), Math.max(...cuts), 1], shares = [0, 0];
  for (let k = 0; k < 3; k++) {
    const low = edges[k], high = edges[k + 1], middle = (low + high) / 2;
    const isActive = bias + middle * (linear + middle * quadratic) > 0;
    shares[0] += isActive * (high - low);
    shares[1] += isActive * (high * high - low * low);
  }
  return shares;
}

/* Return the logits of one or two matrices, and a function from a label to its mean gradients. */
function classify(matrices) {
  const [u, v] = matrices, bias = weights["hidden.bias"], nothing = zeros(u.length);
  const sides = v && matrices.map((one, k) => byHop(one, `matching.${k}`, (matrix, row) => affine(zeros(row.length), matrix, row)));
  const straight = { none: [u], gated: [], concat: v && [u, v, u.map((x, k) => Math.abs(x - v[k]))] }[model.matching];
  const product = v ? [sides[0].map((x, k) => x * sides[1][k])] : [];
  const linear = hiddenUnits(sideBySide([...straight, ...product.map(() => nothing)]));
  const quadratic = hiddenUnits(sideBySide([...straight.map(() => nothing), ...product]));
  const logits = affine(weights["output.bias"], weights.output, linear.map((x, k) => Math.max(0, x + quadratic[k] + bias[k])));
  const shares = Array.from(linear, (x, k) => activeShares(x, quadratic[k], bias[k]));
  function gradients(label) {
    const slopes = linear.map((_, k) => weights.output[k * logits.length + label]);
    const [first, second] = [0, 1].map((degree) =>
      takenApart(hiddenBack(slopes.map((x, k) => x * shares[k][degree])), straight.length + product.length));
    return !v ? first : matrices.map((one, side) => {
      const half = second.at(-1).map((slope, k) => (slope * sides[1 - side][k]) / 2);
      const signs = one.map((x, k) => Math.sign(x - matrices[1 - side][k]));
      return byHop(half, `matching.${side}`, back).map((slope, k) =>
        straight.length ? slope + first[side][k] + first[2][k] * signs[k] : slope);
    });
  }
  return { logits, gradients };
}

// ---- result --------------------------------------------------------------------------------------

function scoresOf(logits) {
  if (model.kind === "values") return logits;
  if (model.kind === "shares") return logits.map((x) => 1 / (1 + Math.exp(-x)));
  const top = Math.max(...logits), powers = logits.map((x) => Math.exp(x - top)), total = sum(powers);
  return powers.map((power) => power / total);
}

/* Read one text or two; explain the label `target`, by default the predicted one. */
function* read(texts, target = null) {
  const r = model.num_hops, sides = [];
  for (const text of texts) {
    const points = Array.from(text), tokens = tokenize(points);
    const encoded = yield* encode(tokens.map((token) => token.id)), states = encoded.levels.at(-1);
    const hops = tokens.length ? yield* weigh(states) : times(r, () => []);
    const matrix = zeros(r * model.hidden_size), rows = split(matrix, r);
    hops.forEach((hop, i) => hop.forEach((own, token) => add(rows[i], states[token], own)));
    const attention = hops.map((hop) => hop.map((own) => sum(own) / own.length));
    const total = tokens.map((_, token) => sum(attention.map((hop) => hop[token]))), all = sum(total) || 1;
    sides.push({ points, tokens, encoded, hops, matrix, attention, overall: total.map((x) => x / all) });
  }
  const { logits, gradients } = classify(sides.map((side) => side.matrix)), scores = Array.from(scoresOf(logits));
  const best = scores.indexOf(Math.max(...scores)), explained = target ?? best;
  for (const [number, gradient] of gradients(explained).entries()) {
    const side = sides[number], [vectors, states] = [side.encoded.levels[0], side.encoded.levels.at(-1)];
    const slopes = states.map((state) => zeros(state.length)), rows = split(gradient, r);
    side.contributions = side.hops.map((hop, i) => hop.map((own, token) => {
      const slope = zeros(rows[i].length);
      add(slope, rows[i], own);
      add(slopes[token], slope);
      return sum(slope.map((x, k) => x * states[token][k]));
    }));
    side.added = side.contributions.map(sum);
    const ofWords = yield* slopesOfWords(side.encoded, slopes);
    side.words = ofWords.map((slope, token) => sum(slope.map((x, k) => x * vectors[token][k])));
  }
  return { scores, best, target: explained, sides };
}
