/* The model of the page: what is typed in, what the `self-attention` pipeline returns out.

   The names are those of the package: T tokens, d width of a word vector, u LSTM units, H width of
   a state, r hops, W width of a row that the classifier reads. A matrix is a flat array, inputs x
   outputs, row by row; sums are in float64. Functions with a star pause at each token and each
   column of weights. `model` is the JSON of the page; `weights` has a list of matrices for each
   name of html_export.py. */

let model, weights, vocabulary, separators, ranks, joinedCharacter;
const transposes = new Map();

const zeros = (length) => new Float64Array(length);
const times = (count, make) => Array.from({ length: count }, (_, index) => make(index));
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const dot = (left, right) => left.reduce((total, number, index) => total + number * right[index], 0);
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

// ---- tokenizer: data/tokenizer.py, with offsets in code points -----------------------------------

const ENDS_A_CHARACTER = /[\p{M}\u1160-\u11ff]/u;

function prepareTokenizer() {
  const unspaced = `[${model.unspaced}]`;
  const ofWords = String.raw`[[\p{L}\p{M}\p{N}]--${unspaced}]`;
  const contraction = `(?:[Nn]'[Tt]|'(?:[Ssſ]|[Mm]|[Dd]|[Ll][Ll]|[Rr][Ee]|[Vv][Ee]))(?!${ofWords})`;
  const betweenWords = String.raw`(${contraction}|${unspaced}\p{M}*|[^${ofWords}])`;
  separators = new RegExp(betweenWords, "sv");
  ranks = new Map(model.tokenizer.merges?.map((pair, rank) => [pair, rank]));
  joinedCharacter = new RegExp(ofWords, "v");
  vocabulary = new Map(model.words.map((word, id) => [word, id]));
}

/* Return the text as the model reads it, and for each of its UTF-16 units the code point that it
   comes from. NFC joins a character and the marks that follow it. */
function normalized(points) {
  const origins = [];
  let text = "";
  let start = 0;
  while (start < points.length) {
    let end = start + 1;
    while (end < points.length && ENDS_A_CHARACTER.test(points[end])) end++;
    const parts = points.slice(start, end);
    const joinedParts = Array.from(parts.join("").normalize("NFC").replaceAll("’", "'"));
    const sources = parts.flatMap((part, index) => Array.from(part.normalize("NFC"), () => start + index));
    for (const [place, character] of joinedParts.entries()) {
      const cased = model.tokenizer.lowercase ? character.toLowerCase() : character;
      const source = place ? sources[place + sources.length - joinedParts.length] : start;
      origins.push(...Array(cased.length).fill(source));
      text += cased;
    }
    start = end;
  }
  return { text, origins };
}

/* Return the pieces of a word: two neighbours at a time are merged, those first that were merged
   first in training. */
function piecesOf(word) {
  const pieces = Array.from(word);
  const rankAt = (place) => ranks.get(`${pieces[place]} ${pieces[place + 1]}`) ?? Infinity;
  const rankOf = times(Math.max(pieces.length - 1, 0), rankAt);
  while (rankOf.length) {
    let place = 0;
    for (let other = 1; other < rankOf.length; other++) {
      if (rankOf[other] < rankOf[place]) place = other;
    }
    if (rankOf[place] === Infinity) break;
    pieces.splice(place, 2, pieces[place] + pieces[place + 1]);
    rankOf.splice(place, 1);
    if (place > 0) rankOf[place - 1] = rankAt(place - 1);
    if (place < rankOf.length) rankOf[place] = rankAt(place);
  }
  return pieces;
}

/* Return the tokens of a text: id, start and end in code points, and the number of their word. */
function tokenize(points) {
  const { text, origins } = normalized(Array.from(points.join("").toWellFormed()));
  const tokens = [];
  const push = (piece, start, end, word) => tokens.push({
    id: vocabulary.get(piece) ?? model.tokenizer.unknown,
    start: origins[start],
    end: origins[end - 1] + 1,
    word,
  });
  let place = 0;
  for (const [word, part] of text.split(separators).entries()) {
    const end = place + part.length;
    if (part && !/^\p{White_Space}/u.test(part)) {
      let start = place;
      for (const piece of model.tokenizer.level === "subword" ? piecesOf(part) : [part]) {
        push(piece, start, start + piece.length, word);
        start += piece.length;
      }
    }
    place = end;
  }
  return tokens;
}

/* Cut the tokens of each text at the limit of the model; return how many were cut off each. */
const truncate = (lists) => lists.map((tokens) => tokens.splice(model.max_tokens).length);

/* Extend tokens over the marks that end them. */
function withWholeCharacters(points, tokens) {
  const starts = new Set(tokens.map((token) => token.start));
  const grows = ({ end }) => end < points.length && !starts.has(end) && ENDS_A_CHARACTER.test(points[end]);
  for (const token of tokens) {
    while (grows(token)) token.end++;
  }
  return tokens;
}

// ---- products ------------------------------------------------------------------------------------

/* Return bias + x @ matrix. Four rows at a time take a third of the time. */
function affine(bias, matrix, x) {
  const y = Float64Array.from(bias);
  const columns = y.length;
  const two = 2 * columns;
  const three = 3 * columns;
  let row = 0;
  let at = 0;
  for (; row + 3 < x.length; row += 4, at += three) {
    const a = x[row];
    const b = x[row + 1];
    const c = x[row + 2];
    const d = x[row + 3];
    for (let column = 0; column < columns; column++, at++) {
      y[column] += a * matrix[at] + b * matrix[at + columns] + c * matrix[at + two] + d * matrix[at + three];
    }
  }
  for (; row < x.length; row++) {
    for (let column = 0; column < columns; column++, at++) y[column] += x[row] * matrix[at];
  }
  return y;
}

/* Return matrix @ y: from the slopes of the outputs those of the inputs. Transposes are kept. */
function back(matrix, y) {
  const numInputs = matrix.length / y.length;
  const place = (at) => (at % numInputs) * y.length + Math.floor(at / numInputs);
  if (!transposes.has(matrix)) transposes.set(matrix, matrix.map((_, at) => matrix[place(at)]));
  return affine(zeros(numInputs), transposes.get(matrix), y);
}

/* Add a vector to y, times a factor. */
function add(y, x, factor = 1) {
  for (let index = 0; index < y.length; index++) y[index] += x[index] * factor;
}

/* Return vectors as one. */
const joined = (vectors) => Float64Array.from(vectors.flatMap((vector) => Array.from(vector)));

/* Return the parts of equal length of an array. */
function split(array, count) {
  const length = array.length / count;
  return times(count, (index) => array.subarray(index * length, (index + 1) * length));
}

// ---- encoder: word vectors and BiLSTM, forward and back ------------------------------------------

function wordVector(id) {
  const scale = weights.scales?.[id][0] ?? 1;
  return Float64Array.from(weights.vectors[id], (number) => number * scale);
}

/* Return what run `run` of an LSTM reads at a token, out of values or slopes of all levels: inputs
   and state before; and the place of its state. Runs are forward and backward, layer by layer. */
function places(levels, run, token) {
  const layer = run >> 1;
  const side = run % 2;
  const u = model.hidden_size / 2;
  const half = (state) => state?.subarray(side * u, (side + 1) * u) ?? zeros(u);
  const below = levels.slice(model.lstm_shortcuts ? 0 : layer, layer + 1);
  const above = levels[layer + 1];
  const before = half(above[token + 2 * side - 1]);
  return [[...below.map((level) => level[token]), before], half(above[token])];
}

/* Return tanh(x) / x. */
const tanhQuotient = (x) => (x ? Math.tanh(x) / x : 1);

/* Write the state of an LSTM at one token; return its cell, and what is held fixed on the way back:
   how a state grows with its cell, the cell with the candidate, and with the cell before. */
function lstmStep(run, [inputs, state], before) {
  const u = state.length;
  const gates = affine(weights[`lstm.${run}.bias`][0], weights[`lstm.${run}`][0], joined(inputs));
  const cell = zeros(u);
  const [stateByCell, cellByCandidate, kept] = times(3, () => zeros(u));
  for (let unit = 0; unit < u; unit++) {
    const input = sigmoid(gates[unit]);
    const candidate = gates[2 * u + unit];
    kept[unit] = sigmoid(gates[u + unit]);
    cell[unit] = kept[unit] * before[unit] + input * Math.tanh(candidate);
    stateByCell[unit] = sigmoid(gates[3 * u + unit]) * tanhQuotient(cell[unit]);
    cellByCandidate[unit] = input * tanhQuotient(candidate);
    state[unit] = stateByCell[unit] * cell[unit];
  }
  return { cell, stateByCell, cellByCandidate, kept };
}

/* Return the slopes of the four sums of a step, from those of its state; update those of the cell.
   Only the candidate has any: the gates are held fixed. */
function lstmStepBack({ stateByCell, cellByCandidate, kept }, ofState, ofCell) {
  const u = ofCell.length;
  const ofSums = zeros(4 * u);
  for (let unit = 0; unit < u; unit++) {
    const inner = ofCell[unit] + ofState[unit] * stateByCell[unit];
    ofSums[2 * u + unit] = inner * cellByCandidate[unit];
    ofCell[unit] = inner * kept[unit];
  }
  return ofSums;
}

/* Return the word vectors and the states of each layer, and the steps for `addedByWords`. A
   browser makes loops fast only in functions without a star. */
function* encode(ids) {
  const layers = times(model.num_lstm_layers, () => ids.map(() => zeros(model.hidden_size)));
  const levels = [ids.map(wordVector), ...layers];
  const steps = [];
  for (let run = 0; run < 2 * model.num_lstm_layers; run++) {
    let cell = zeros(model.hidden_size / 2);
    for (const index of ids.keys()) {
      const token = run % 2 ? ids.length - 1 - index : index;
      const step = lstmStep(run, places(levels, run, token), cell);
      steps.push({ run, token, ...step });
      cell = step.cell;
      yield;
    }
  }
  return { levels, steps };
}

/* Return what each word added (T), given the slopes of the states (T, H), by the rule of
   explanation_self_attentive.py. */
function* addedByWords({ levels, steps }, ofStates) {
  const added = ofStates.map(() => 0);
  const below = levels.slice(0, -1).map((level) => level.map((vector) => zeros(vector.length)));
  const slopes = [...below, ofStates];
  const ofCells = times(2 * model.num_lstm_layers, () => zeros(model.hidden_size / 2));
  for (const step of steps.reverse()) {
    const [inputs, state] = places(slopes, step.run, step.token);
    const ofSums = lstmStepBack(step, state, ofCells[step.run]);
    const ofInputs = back(weights[`lstm.${step.run}`][0], ofSums);
    added[step.token] += dot(ofSums, weights[`lstm.${step.run}.bias`][0]);
    let start = 0;
    for (const input of inputs) {
      add(input, ofInputs.subarray(start));
      start += input.length;
    }
    yield;
  }
  return added.map((ofBiases, token) => ofBiases + dot(slopes[0][token], levels[0][token]));
}

// ---- pooling -------------------------------------------------------------------------------------

/* Return a state with mean 0 and variance 1, if the attention reads it so. */
function asAttended(state) {
  if (!model.normalize_states) return state;
  const mean = sum(state) / state.length;
  const centred = state.map((x) => x - mean);
  const deviation = Math.sqrt(sum(centred.map((x) => x * x)) / state.length + 1e-5);
  return centred.map((x) => x / deviation);
}

function softmax(scores) {
  const largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - largest));
  const total = sum(powers);
  return powers.map((power) => power / total);
}

/* Turn T scores into weights that sum to 1 as `_sparse_weights` does: alpha 1.5 or 2. Newton's
   method climbs to the threshold: the sum of the weights is a convex function of it. */
function sparse(scores, alpha) {
  const largest = Math.max(...scores);
  const scaled = scores.map((score) => (score - largest) * (alpha - 1));
  const power = 1 / (alpha - 1);
  let threshold = -1;
  let step = 1;
  while (step > 1e-12) {
    const above = scaled.map((score) => score - threshold).filter((excess) => excess > 0);
    const total = sum(above.map((excess) => excess ** power));
    step = (total - 1) / sum(above.map((excess) => power * excess ** (power - 1)));
    threshold += step;
  }
  return scaled.map((score) => Math.max(0, score - threshold) ** power);
}

const ATTENTION = {
  softmax,
  entmax15: (scores) => sparse(scores, 1.5),
  sparsemax: (scores) => sparse(scores, 2),
};

/* Return the weights of the tokens in each hop (r, T). */
function* weigh(states) {
  const [projection] = weights["pooling.hidden"];
  const [output] = weights["pooling.output"];
  const noBias = zeros(projection.length / model.hidden_size);
  const scores = [];
  for (const state of states.map(asAttended)) {
    const hidden = affine(noBias, projection, state).map(Math.tanh);
    scores.push(affine(zeros(model.num_hops), output, hidden));
    yield;
  }
  const hops = [];
  for (let hop = 0; hop < model.num_hops; hop++) {
    hops.push(ATTENTION[model.attention_function](scores.map((ofToken) => ofToken[hop])));
    yield;
  }
  return hops;
}

// ---- head: logits, and the gradient of explanation_self_attentive.py -----------------------------

/* Return the groups of hidden units: the matrix of each, and the places in M that it reads. */
function groups() {
  const size = model.num_hops * model.row_width;
  return model.groups.flatMap(([name, stride, step]) => {
    const numRead = size / weights[name].length;
    return weights[name].map((matrix, group) => [matrix, times(numRead, (n) => group * stride + n * step)]);
  });
}

function hiddenUnits(features) {
  const units = ([matrix, read]) =>
    affine(zeros(matrix.length / read.length), matrix, read.map((place) => features[place]));
  return joined(groups().map(units));
}

/* Return the slopes of M from those of the hidden units. */
function hiddenBack(ofUnits) {
  const slopes = zeros(model.num_hops * model.row_width);
  let start = 0;
  for (const [matrix, read] of groups()) {
    const end = start + matrix.length / read.length;
    back(matrix, ofUnits.subarray(start, end)).forEach((slope, index) => (slopes[read[index]] += slope));
    start = end;
  }
  return slopes;
}

/* Return the integrals of 1 and of 2 a over all a from 0 to 1 where a unit is active. */
function activeShares(linear, quadratic, bias) {
  const input = (a) => bias + a * (linear + a * quadratic);
  const root = Math.sqrt(Math.max(0, linear * linear - 4 * quadratic * bias));
  const half = -(linear + (linear < 0 ? -root : root)) / 2;
  const cuts = [half / quadratic, bias / half].map((cut) => Math.min(1, Math.max(0, cut || 0)));
  const edges = [0, Math.min(...cuts), Math.max(...cuts), 1];
  const intervals = times(3, (index) => edges.slice(index, index + 2));
  const active = intervals.filter(([low, high]) => input((low + high) / 2) > 0);
  return [1, 2].map((power) => sum(active.map(([low, high]) => high ** power - low ** power)));
}

/* Return the matrix of a hop that a row of one side of a pair goes through before its matching. */
const gate = (side, hop) => weights.matching?.[side * model.num_hops + hop];

function throughGate(row, side, hop) {
  return gate(side, hop) ? affine(zeros(row.length), gate(side, hop), row) : row;
}

/* Return what the hidden units read of the rows of one hop (W): features that grow linearly with
   the matrices, and those that grow with their product. */
function features(rows, gatedRows) {
  const H = model.hidden_size;
  const W = model.row_width;
  const [left, right] = rows;
  if (!right) return { linear: [left], quadratic: [zeros(W)] };
  const product = gatedRows[0].map((x, index) => x * gatedRows[1][index]);
  const quadratic = [zeros(W - H), product];
  if (model.matching === "gated") return { linear: [zeros(W)], quadratic };
  const distance = left.map((x, index) => Math.abs(x - right[index]));
  return { linear: [left, right, distance, zeros(H)], quadratic };
}

/* Return the slopes of the row of one side, from those of the features of its hop. */
function slopesOfRow(side, hop, rows, gatedRows, ofLinear, ofQuadratic) {
  if (rows.length === 1) return ofLinear;
  const H = model.hidden_size;
  const slopes = zeros(H);
  const other = 1 - side;
  if (model.matching === "concat") {
    const signs = rows[side].map((x, index) => Math.sign(x - rows[other][index]));
    add(slopes, ofLinear.subarray(side * H));
    add(slopes, ofLinear.subarray(2 * H, 3 * H).map((slope, index) => slope * signs[index]));
  }
  const ofProducts = ofQuadratic.subarray(model.row_width - H);
  const ofProduct = ofProducts.map((slope, index) => (slope * gatedRows[other][index]) / 2);
  add(slopes, gate(side, hop) ? back(gate(side, hop), ofProduct) : ofProduct);
  return slopes;
}

/* Return the logits of M of one or two texts, and a function from a label to its mean gradients. */
function classify(matrices) {
  const sides = matrices.map((matrix) => split(matrix, model.num_hops));
  const gatedSides = sides.map((rows, side) => rows.map((row, hop) => throughGate(row, side, hop)));
  const rowsOf = (hop) => sides.map((rows) => rows[hop]);
  const gatedRowsOf = (hop) => gatedSides.map((rows) => rows[hop]);
  const byHop = times(model.num_hops, (hop) => features(rowsOf(hop), gatedRowsOf(hop)));
  const linear = hiddenUnits(joined(byHop.flatMap((hop) => hop.linear)));
  const quadratic = hiddenUnits(joined(byHop.flatMap((hop) => hop.quadratic)));
  const bias = weights["hidden.bias"][0];
  const active = linear.map((x, unit) => Math.max(0, x + quadratic[unit] + bias[unit]));
  const logits = affine(weights["output.bias"][0], weights.output[0], active);
  const shares = Array.from(linear, (x, unit) => activeShares(x, quadratic[unit], bias[unit]));

  function gradients(label) {
    const ofUnits = linear.map((_, unit) => weights.output[0][unit * logits.length + label]);
    const [ofLinear, ofQuadratic] = [0, 1].map((degree) => {
      const slopes = hiddenBack(ofUnits.map((slope, unit) => slope * shares[unit][degree]));
      return split(slopes, model.num_hops);
    });
    const ofRow = (side, hop) =>
      slopesOfRow(side, hop, rowsOf(hop), gatedRowsOf(hop), ofLinear[hop], ofQuadratic[hop]);
    return sides.map((_, side) => joined(times(model.num_hops, (hop) => ofRow(side, hop))));
  }

  return { logits, gradients };
}

// ---- linear part: layers_self_attentive.py -------------------------------------------------------

const HASH_FACTOR = 1_000_003;

/* Return the words of each part of one text or two: their id, side and place in it. */
function partsOf(tokensOfTexts) {
  const wordsOf = (tokens, side) => tokens.map(({ id }, place) => ({ id, side, place }));
  const [first, second] = tokensOfTexts.map(wordsOf);
  if (!second) return [first];
  const inFirst = new Set(first.map(({ id }) => id));
  const inSecond = new Set(second.map(({ id }) => id));
  return [
    second.filter(({ id }) => !inFirst.has(id)),
    second.filter(({ id }) => inFirst.has(id)),
    first.filter(({ id }) => !inSecond.has(id)),
  ];
}

/* Return the features of one text or two: a row of weights (L), and the words that share it. */
function linearFeatures(tokensOfTexts) {
  const numLabels = model.labels.length;
  const rowOf = (table, id) => table.subarray(id * numLabels, (id + 1) * numLabels);
  const numPairs = weights["linear.pairs"]?.[0].length / numLabels;
  const features = [];
  if (!weights["linear.words"]) return features;
  for (const [part, words] of partsOf(tokensOfTexts).entries()) {
    for (const [index, word] of words.entries()) {
      features.push({ row: rowOf(weights["linear.words"][part], word.id), words: [word] });
      const next = words[index + 1];
      if (!next || !weights["linear.pairs"]) continue;
      const pairId = (word.id * HASH_FACTOR + next.id) % numPairs;
      features.push({ row: rowOf(weights["linear.pairs"][part], pairId), words: [word, next] });
    }
  }
  return features;
}

/* Return what the words themselves add to each logit (L), and a function from a label to what each
   token of each text added. Where a text has one label, its logit is taken minus the mean. */
function linearPart(tokensOfTexts) {
  const features = linearFeatures(tokensOfTexts);
  const numTokens = sum(tokensOfTexts.map((tokens) => tokens.length));
  const scale = 1 / Math.sqrt(Math.max(1, numTokens));
  const hasOneLabel = model.kind === "single_label_classification";
  const logits = zeros(model.labels.length);
  for (const { row } of features) add(logits, row, scale);

  function addedTo(label) {
    const added = tokensOfTexts.map((tokens) => tokens.map(() => 0));
    for (const { row, words } of features) {
      const mean = hasOneLabel ? sum(row) / row.length : 0;
      const share = (scale * (row[label] - mean)) / words.length;
      for (const { side, place } of words) added[side][place] += share;
    }
    return added;
  }

  return { logits, addedTo };
}

// ---- reading -------------------------------------------------------------------------------------

const SCORES = {
  regression: (logits) => logits,
  multi_label_classification: (logits) => logits.map(sigmoid),
  single_label_classification: softmax,
};

/* Read the tokens of one text: its states, its attention, and M, row by row (r * H). */
function* readSide(tokens) {
  const encoded = yield* encode(tokens.map((token) => token.id));
  const states = encoded.levels.at(-1);
  const attention = tokens.length ? yield* weigh(states) : times(model.num_hops, () => []);
  const matrix = zeros(model.num_hops * model.hidden_size);
  const rows = split(matrix, model.num_hops);
  attention.forEach((hop, row) => hop.forEach((weight, token) => add(rows[row], states[token], weight)));
  const totals = tokens.map((_, token) => sum(attention.map((hop) => hop[token])));
  const all = sum(totals) || 1;
  return { encoded, attention, matrix, overall: totals.map((total) => total / all) };
}

/* Return what each hop added to a logit by reading each state (r, T), and what each word added (T),
   given the gradient of the logit by M and what each word added by itself (T). */
function* explain({ encoded, attention }, gradient, linear) {
  const states = encoded.levels.at(-1);
  const ofStates = states.map((state) => zeros(state.length));
  const rows = split(gradient, model.num_hops);
  const contributions = attention.map((hop, row) =>
    hop.map((weight, token) => {
      const slope = rows[row].map((x) => x * weight);
      add(ofStates[token], slope);
      return dot(slope, states[token]);
    }));
  const ofWords = yield* addedByWords(encoded, ofStates);
  const byHops = ofWords.map((_, token) => sum(contributions.map((hop) => hop[token])));
  const most = model.max_growth * sum(contributions.map((hop) => sum(hop.map(Math.abs))));
  const isBounded = sum(ofWords.map(Math.abs)) <= most; // false for NaN
  const words = (isBounded ? ofWords : byHops).map((added, token) => added + linear[token]);
  return { contributions, linear, words };
}

/* Read one text or two: their scores, and what `read` needs to explain them. */
function* predict(texts) {
  const pointsOfTexts = texts.map((text) => Array.from(text));
  const tokensOfTexts = pointsOfTexts.map(tokenize);
  const numCut = truncate(tokensOfTexts);
  const sides = [];
  for (const [side, points] of pointsOfTexts.entries()) {
    const tokens = withWholeCharacters(points, tokensOfTexts[side]);
    sides.push({ points, tokens, truncated: numCut[side], ...(yield* readSide(tokens)) });
  }
  const { logits, gradients } = classify(sides.map((side) => side.matrix));
  const linear = linearPart(tokensOfTexts);
  add(logits, linear.logits);
  const scores = Array.from(SCORES[model.kind](logits));
  const best = model.kind === "regression" ? 0 : scores.indexOf(Math.max(...scores));
  return { logits, scores, best, sides, gradients, linear };
}

/* Return how like the training rows the read texts are, and the nearest rows: `Neighbours` of
   neighbours.py. Null if the model has none. */
function neighboursOf(sides) {
  if (!model.neighbours.length) return null;
  const [[mean], [unit], [heldOut]] =
    ["mean", "unit", "held_out"].map((name) => weights[`neighbours.${name}`]);
  const numbers = joined(sides.map((side) => side.matrix))
    .map((number, place) => ((number - mean[place]) / unit[place]) * model.steps);
  const distances = weights.neighbours.map((row) =>
    Math.sqrt(numbers.reduce((sum, number, place) => sum + (number - row[place]) ** 2, 0)
      / numbers.length) / model.steps);
  const order = [...distances.keys()].sort((left, right) => distances[left] - distances[right]);
  const ids = sides.flatMap((side) => side.tokens.map((token) => token.id));
  const isUnknown = (id) => id === model.tokenizer.unknown;
  const unknown = ids.length ? ids.filter(isUnknown).length / ids.length : 1;
  const size = distances[order[0]] * (1 + unknown);
  const numAsFar = heldOut.filter((strange) => strange >= size).length;
  return {
    familiarity: (1 + numAsFar) / (1 + heldOut.length),
    nearest: order.slice(0, model.num_nearest).map((row) => model.neighbours[row]),
    unknown,
  };
}

/* Read one text or two; explain the label `target`, by default the predicted one. With a `rival`,
   "next" for the one with the highest score among the others, explain the difference to its logit. */
function* read(texts, target = null, rival = null) {
  const { logits, scores, best, sides, gradients, linear } = yield* predict(texts);
  const explained = target ?? best;
  const others = [...scores.keys()].filter((label) => label !== explained);
  others.sort((left, right) => scores[right] - scores[left]);
  const [next = null] = others;
  const subtracted = rival === "next" ? next : rival;
  const differences = (valuesOf) => {
    const own = valuesOf(explained);
    if (subtracted === null || subtracted === explained) return own;
    const ofRival = valuesOf(subtracted);
    return own.map((values, side) => values.map((value, place) => value - ofRival[side][place]));
  };
  const linearOfSides = differences(linear.addedTo);
  for (const [side, gradient] of differences(gradients).entries()) {
    Object.assign(sides[side], yield* explain(sides[side], gradient, linearOfSides[side]));
  }
  const mean = model.kind === "single_label_classification" ? sum(logits) / logits.length : 0;
  const [[logit]] = differences((label) => [[logits[label] - mean]]);
  const near = neighboursOf(sides);
  return { scores, best, target: explained, rival: subtracted, next, logit, sides, near };
}
