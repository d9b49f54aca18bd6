/* The model of the page: what is typed in, what the `self-attention` pipeline returns out.

   The names are those of the package: T tokens, d width of a word vector, u LSTM units, H width of
   a state, r hops, W width of a row that the classifier reads. A matrix is a flat array, inputs x
   outputs, row by row; sums are in float64. Functions with a star pause at each token and each column of weights. `model` is
   the JSON of the page; `weights` has a list of matrices for each name of html_export.py. */

let model, weights, vocabulary, apart;
const transposed = new Map();

const zeros = (length) => new Float64Array(length);
const times = (count, make) => Array.from({ length: count }, (_, k) => make(k));
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const dot = (one, other) => one.reduce((total, x, k) => total + x * other[k], 0);
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

// ---- tokenizer: data/tokenizer.py, with offsets in code points -----------------------------------

const ENDS_A_CHARACTER = /[\p{M}\u1160-\u11ff]/u;

function prepareTokenizer() {
  const unspaced = `[${model.tokenizer.unspaced}]`, ofWords = String.raw`[[\p{L}\p{M}\p{N}]--${unspaced}]`;
  const contraction = `(?:[Nn]'[Tt]|'(?:[Ssſ]|[Mm]|[Dd]|[Ll][Ll]|[Rr][Ee]|[Vv][Ee]))(?!${ofWords})`;
  const ofWordLevel = String.raw`${contraction}|${unspaced}\p{M}*|[^${ofWords}]`;
  apart = new RegExp(model.tokenizer.level === "word" ? `(${ofWordLevel})` : String.raw`(\p{White_Space}+|.)`, "sv");
  vocabulary = new Map(model.words.map((word, id) => [word, id]));
}

/* Return the text as the model reads it, and for each of its UTF-16 units the code point that it
   comes from. NFC joins a character and the marks that follow it. */
function normalized(points) {
  const origins = [];
  let text = "";
  for (let start = 0, end; start < points.length; start = end) {
    for (end = start + 1; end < points.length && ENDS_A_CHARACTER.test(points[end]); ) end++;
    const parts = points.slice(start, end), made = Array.from(parts.join("").normalize("NFC").replaceAll("’", "'"));
    const sources = parts.flatMap((part, k) => Array.from(part.normalize("NFC"), () => start + k));
    for (const [place, character] of made.entries()) {
      const cased = model.tokenizer.lowercase ? character.toLowerCase() : character;
      const source = place ? sources[place + sources.length - made.length] : start;
      origins.push(...Array(cased.length).fill(source));
      text += cased;
    }
  }
  return { text, origins };
}

/* Return the tokens of a text in code points: id, start and end. For a tokenizer of characters,
   white space between others is one. */
function tokenize(points) {
  const { text, origins } = normalized(Array.from(points.join("").toWellFormed())), tokens = [];
  let place = 0;
  for (const part of text.split(apart)) {
    const end = place + part.length, isBlank = /^\p{White_Space}/u.test(part);
    const isRead = isBlank ? model.tokenizer.level === "character" && place && end < text.length : part;
    const first = origins[isBlank ? end - 1 : place], id = vocabulary.get(isBlank ? " " : part);
    if (isRead) tokens.push({ id: id ?? model.tokenizer.unknown, start: first, end: origins[end - 1] + 1 });
    place = end;
  }
  return tokens;
}

/* Cut the tokens of one text, or of the two of a pair, at the limit of the model; in a pair the longer
   text is cut first. Returns how many tokens were cut off each. */
function truncate(lists) {
  const limit = model.max_tokens ?? Infinity, counts = lists.map((tokens) => tokens.length), kept = counts.slice();
  if (sum(counts) > limit && counts.length === 1) kept[0] = limit;
  if (sum(counts) > limit && counts.length === 2) {
    const [shorter, longer] = counts[0] > counts[1] ? [1, 0] : [0, 1], half = Math.floor(limit / 2);
    kept[shorter] = Math.min(counts[shorter], half);
    kept[longer] = limit - kept[shorter];
  }
  lists.forEach((tokens, side) => tokens.splice(model.cuts_left ? 0 : kept[side], counts[side] - kept[side]));
  return counts.map((count, side) => count - kept[side]);
}

/* Extend tokens over the marks that end them. */
function withWholeCharacters(points, tokens) {
  const taken = new Set(tokens.map((token) => token.start));
  const grows = ({ end }) => end < points.length && !taken.has(end) && ENDS_A_CHARACTER.test(points[end]);
  for (const token of tokens) while (grows(token)) token.end++;
  return tokens;
}

// ---- products ------------------------------------------------------------------------------------

/* Return bias + x @ matrix. Four rows at a time take a third of the time. */
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

/* Return matrix @ y: from the slopes of the outputs those of the inputs. Transposes are kept. */
function back(matrix, y) {
  const inputs = matrix.length / y.length, place = (at) => (at % inputs) * y.length + Math.floor(at / inputs);
  if (!transposed.has(matrix)) transposed.set(matrix, matrix.map((_, at) => matrix[place(at)]));
  return affine(zeros(inputs), transposed.get(matrix), y);
}

/* Add a vector to y, times a factor. */
function add(y, x, factor = 1) {
  for (let k = 0; k < y.length; k++) y[k] += x[k] * factor;
}

const joined = (vectors) => Float64Array.from(vectors.flatMap((vector) => Array.from(vector)));
const split = (array, count) => times(count, (k) =>
  array.subarray((k * array.length) / count, ((k + 1) * array.length) / count));

// ---- encoder: word vectors and BiLSTM, forward and back ------------------------------------------

const wordVector = (id) => Float64Array.from(weights.vectors[id], (x) => x * (weights.scales?.[id][0] ?? 1));

/* Return what run `run` of an LSTM reads at a token, out of values or slopes of all levels: inputs
   and state before; and the place of its state. Runs are forward and backward, layer by layer. */
function places(levels, run, token) {
  const layer = run >> 1, side = run % 2, u = model.hidden_size / 2;
  const half = (state) => state?.subarray(side * u, (side + 1) * u) ?? zeros(u);
  const below = levels.slice(model.lstm_shortcuts ? 0 : layer, layer + 1);
  const above = levels[layer + 1], before = half(above[token + 2 * side - 1]);
  return [[...below.map((level) => level[token]), before], half(above[token])];
}

/* Write the state of an LSTM at one token; return its gates after their functions, and its cell. */
function lstmStep(run, [inputs, state], before) {
  const u = state.length, gates = affine(weights[`lstm.${run}.bias`][0], weights[`lstm.${run}`][0], joined(inputs));
  const cell = zeros(u);
  for (let k = 0; k < u; k++) {
    for (let gate = k; gate < 4 * u; gate += u) gates[gate] = gate === k + 2 * u ? Math.tanh(gates[gate]) : sigmoid(gates[gate]);
    cell[k] = gates[u + k] * before[k] + gates[k] * gates[2 * u + k];
    state[k] = gates[3 * u + k] * Math.tanh(cell[k]);
  }
  return { gates, before, cell };
}

/* Return the slopes of what a step read, from those of its state; update those of the cell. */
function lstmStepBack({ run, gates, before, cell }, ofState, ofCell) {
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
  return back(weights[`lstm.${run}`][0], ofGates);
}

/* Return the word vectors and the states of each layer, and the steps for `slopesOfWords`. A
   browser makes loops fast only in functions without a star. */
function* encode(ids) {
  const layers = times(model.num_lstm_layers, () => ids.map(() => zeros(model.hidden_size)));
  const levels = [ids.map(wordVector), ...layers], steps = [];
  for (let run = 0; run < 2 * model.num_lstm_layers; run++) {
    let cell = zeros(model.hidden_size / 2);
    for (const k of ids.keys()) {
      const token = run % 2 ? ids.length - 1 - k : k, step = lstmStep(run, places(levels, run, token), cell);
      steps.push({ run, token, ...step });
      cell = step.cell;
      yield;
    }
  }
  return { levels, steps };
}

/* Return the slopes of the word vectors (T, d), given those of the states (T, H). */
function* slopesOfWords({ levels, steps }, ofStates) {
  const slopes = [...levels.slice(0, -1).map((level) => level.map((vector) => zeros(vector.length))), ofStates];
  const ofCells = times(2 * model.num_lstm_layers, () => zeros(model.hidden_size / 2));
  for (const step of steps.reverse()) {
    const [inputs, state] = places(slopes, step.run, step.token);
    const found = lstmStepBack(step, state, ofCells[step.run]);
    inputs.reduce((done, input) => (add(input, found.subarray(done)), done + input.length), 0);
    yield;
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

function softmax(scores) {
  const top = Math.max(...scores), powers = scores.map((score) => Math.exp(score - top)), total = sum(powers);
  return powers.map((power) => power / total);
}

/* Turn T scores into weights that sum to 1 as `_sparse_weights` does: alpha 1.5 or 2. Newton's
   method climbs to the threshold: the sum of the weights is a convex function of it. */
function sparse(scores, alpha) {
  const top = Math.max(...scores), z = scores.map((score) => (score - top) * (alpha - 1)), power = 1 / (alpha - 1);
  let threshold = -1, step = 1;
  while (step > 1e-12) {
    const above = z.map((value) => value - threshold).filter((value) => value > 0);
    step = (sum(above.map((x) => x ** power)) - 1) / sum(above.map((x) => power * x ** (power - 1)));
    threshold += step;
  }
  return z.map((value) => Math.max(0, value - threshold) ** power);
}

const ATTENTION = { softmax, entmax15: (scores) => sparse(scores, 1.5), sparsemax: (scores) => sparse(scores, 2) };

/* Return the weights of the tokens in each hop (r, T). */
function* weigh(states) {
  const [[hidden], [output]] = [weights["pooling.hidden"], weights["pooling.output"]];
  const [ofHidden, ofHops] = [zeros(hidden.length / model.hidden_size), zeros(model.num_hops)];
  const scores = [], hops = [];
  for (const state of states.map(asAttended))
    yield scores.push(affine(ofHops, output, affine(ofHidden, hidden, state).map(Math.tanh)));
  for (let hop = 0; hop < model.num_hops; hop++)
    yield hops.push(ATTENTION[model.attention_function](scores.map((own) => own[hop])));
  return hops;
}

// ---- head: logits, and the gradient of contributions_self_attentive.py ---------------------------

/* Return the groups of hidden units: the matrix of each, and the places in M that it reads. */
const groups = () => model.groups.flatMap(([name, stride, step]) => weights[name].map((matrix, k) =>
  [matrix, times((model.num_hops * model.row_width) / weights[name].length, (n) => k * stride + n * step)]));

const hiddenUnits = (features) => joined(groups().map(([matrix, read]) =>
  affine(zeros(matrix.length / read.length), matrix, read.map((place) => features[place]))));

function hiddenBack(units) {
  const slopes = zeros(model.num_hops * model.row_width);
  let done = 0;
  for (const [matrix, read] of groups()) {
    const own = units.subarray(done, (done += matrix.length / read.length));
    back(matrix, own).forEach((slope, k) => (slopes[read[k]] += slope));
  }
  return slopes;
}

/* Return the integrals of 1 and of 2 a over all a from 0 to 1 where a unit is active. */
function activeShares(linear, quadratic, bias) {
  const root = Math.sqrt(Math.max(0, linear * linear - 4 * quadratic * bias));
  const half = -(linear + (linear < 0 ? -root : root)) / 2;
  const cuts = [half / quadratic, bias / half].map((cut) => Math.min(1, Math.max(0, cut || 0)));
  const edges = [0, Math.min(...cuts), Math.max(...cuts), 1], input = (a) => bias + a * (linear + a * quadratic);
  const active = times(3, (k) => edges.slice(k, k + 2)).filter(([low, high]) => input((low + high) / 2) > 0);
  return [1, 2].map((power) => sum(active.map(([low, high]) => high ** power - low ** power)));
}

/* Return the logits of M of one or two texts, and a function from a label to its mean gradients. */
function classify(matrices) {
  const r = model.num_hops, H = model.hidden_size, W = model.row_width, isConcat = model.matching === "concat";
  const sides = matrices.map((matrix) => split(matrix, r)), [u, v] = sides;
  const gate = (side, i) => weights.matching?.[side * r + i];
  const gated = sides.map((rows, side) => rows.map((row, i) => (gate(side, i) ? affine(zeros(H), gate(side, i), row) : row)));
  const distances = u.map((row, i) => row.map((x, k) => v && Math.abs(x - v[i][k])));
  const straight = u.map((row, i) => (isConcat ? [row, v[i], distances[i], zeros(H)] : [v ? zeros(H) : row]));
  const product = u.map((_, i) => [zeros(W - H), gated[0][i].map((x, k) => (v ? x * gated[1][i][k] : 0))]);
  const [linear, quadratic] = [straight, product].map((rows) => hiddenUnits(joined(rows.flat()))), bias = weights["hidden.bias"][0];
  const active = linear.map((x, k) => Math.max(0, x + quadratic[k] + bias[k]));
  const logits = affine(weights["output.bias"][0], weights.output[0], active);
  const shares = Array.from(linear, (x, k) => activeShares(x, quadratic[k], bias[k]));
  function gradients(label) {
    const slopes = linear.map((_, k) => weights.output[0][k * logits.length + label]);
    const [first, second] = [0, 1].map((degree) => split(hiddenBack(slopes.map((x, k) => x * shares[k][degree])), r));
    return sides.map((rows, side) => joined(rows.map((row, i) => {
      const slope = zeros(H), other = sides[1 - side]?.[i];
      if (isConcat || !v) add(slope, first[i].subarray(side * H));
      if (isConcat) add(slope, first[i].subarray(2 * H).map((x, k) => x * Math.sign(row[k] - other[k])));
      const ofProduct = second[i].subarray(W - H).map((x, k) => v && (x * gated[1 - side][i][k]) / 2);
      if (v) add(slope, gate(side, i) ? back(gate(side, i), ofProduct) : ofProduct);
      return slope;
    })));
  }
  return { logits, gradients };
}

const SCORES = { values: (logits) => logits, shares: (logits) => logits.map(sigmoid), probabilities: softmax };

/* Read one text or two; explain the label `target`, by default the predicted one. */
function* read(texts, target = null) {
  const r = model.num_hops, sides = [];
  const pointsOfTexts = texts.map((text) => Array.from(text)), tokensOfTexts = pointsOfTexts.map(tokenize);
  const truncated = truncate(tokensOfTexts);
  for (const [side, points] of pointsOfTexts.entries()) {
    const tokens = withWholeCharacters(points, tokensOfTexts[side]);
    const encoded = yield* encode(tokens.map((token) => token.id)), states = encoded.levels.at(-1);
    const attention = tokens.length ? yield* weigh(states) : times(r, () => []);
    const matrix = zeros(r * model.hidden_size), rows = split(matrix, r);
    attention.forEach((hop, i) => hop.forEach((weight, token) => add(rows[i], states[token], weight)));
    const total = tokens.map((_, token) => sum(attention.map((hop) => hop[token]))), all = sum(total) || 1;
    sides.push({ points, tokens, truncated: truncated[side], encoded, matrix, attention, overall: total.map((x) => x / all) });
  }
  const { logits, gradients } = classify(sides.map((side) => side.matrix)), scores = Array.from(SCORES[model.kind](logits));
  const best = scores.indexOf(Math.max(...scores)), explained = target ?? best;
  for (const [number, gradient] of gradients(explained).entries()) {
    const side = sides[number], [vectors, states] = [side.encoded.levels[0], side.encoded.levels.at(-1)];
    const slopes = states.map((state) => zeros(state.length)), rows = split(gradient, r);
    side.contributions = side.attention.map((hop, i) => hop.map((weight, token) => {
      const slope = rows[i].map((x) => x * weight);
      add(slopes[token], slope);
      return dot(slope, states[token]);
    }));
    const ofWords = yield* slopesOfWords(side.encoded, slopes);
    side.words = ofWords.map((slope, token) => dot(slope, vectors[token]));
  }
  return { scores, best, target: explained, sides };
}
