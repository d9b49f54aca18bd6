"""The paper in loops: one sentence at a time, in float64, with no batch, no padding and no mask.

Lin et al., "A Structured Self-Attentive Sentence Embedding" (ICLR 2017). The symbols are its own:

    n   tokens in the sentence          r   hops (rows of the sentence matrix)
    S   word vectors,      n x d        A   attention,        r x n   (equation 6)
    H   hidden states,     n x 2u       M   sentence matrix,  r x 2u  (equation 7)
    P   penalty, a number  (equation 8)

So are the other encoders, whose states H have a width of their own, and the other poolings.
`weights` is the `state_dict` of a model, or the part that a function needs, under its own names.
All operations are differentiable, so that autograd gives the reference gradients too.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import entmax
import torch
from torch import Tensor

Weights = Mapping[str, Tensor]
Prediction = tuple[Tensor, Tensor]  # logits and P
Function = Callable[[Tensor], Tensor]


class Encoded(NamedTuple):
    """What the base model knows about one sentence."""

    H: Tensor
    A: Tensor | None
    M: Tensor
    P: Tensor


def part(weights: Weights, prefix: str) -> Weights:
    """Return the weights whose names start with the prefix, without the prefix."""
    return {k.removeprefix(prefix): w for k, w in weights.items() if k.startswith(prefix)}


# The hidden states H


def lstm(
    S: Tensor,
    weights: Weights,
    biases: Tensor | None = None,
    sigmoid: Function = torch.sigmoid,
    tanh: Function = torch.tanh,
) -> Tensor:
    """Read the sentence from its first word to its last (equation 2); return n x u states.

    The four gates lie one below the other in the weights: input, forget, cell, output. Each word
    may have biases and the units other functions, by which the words are followed back.
    """
    u = weights["weight_hh_l0"].shape[1]
    if biases is None:
        biases = (weights["bias_ih_l0"] + weights["bias_hh_l0"]).repeat(len(S), 1)
    h, c = S.new_zeros(u), S.new_zeros(u)
    states = []
    for w, b in zip(S, biases, strict=True):
        i, f, g, o = (weights["weight_ih_l0"] @ w + weights["weight_hh_l0"] @ h + b).split(u)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        states.append(h)
    return torch.stack(states) if states else S.new_zeros(0, u)


def stacked_bilstm(S: Tensor, weights: Weights, config: Any, read: Any = lstm) -> Tensor:
    """Read in both directions (equations 2 to 4); return H, n x 2u.

    Each layer reads the states below it, or the words and all states below (shortcuts).
    """
    below = [S]
    for layer in range(config.num_lstm_layers):
        X = torch.cat(below, dim=1) if config.lstm_shortcuts else below[-1]
        own = part(weights, f"layers.{layer}.")
        backward_weights = {name: own.get(f"{name}_reverse") for name in own}
        forward = read(X, own)
        backward = read(X.flip(0), backward_weights).flip(0)
        below.append(torch.cat([forward, backward], dim=1))
    return below[-1]


def convolution(S: Tensor, weights: Weights, places: Sequence[int]) -> Tensor:
    """Map each token's neighbours at these places, zeros beyond the sentence; return n x width."""
    outside = S.new_zeros(S.shape[1])
    states = []
    for t in range(len(S)):
        window = [S[t + place] if 0 <= t + place < len(S) else outside for place in places]
        states.append(weights["weight"] @ torch.cat(window) + weights["bias"])
    return torch.stack(states) if states else S.new_zeros(0, len(weights["bias"]))


def cnn(S: Tensor, weights: Weights, config: Any) -> Tensor:
    """Read the sentence in windows of several widths (Kim, 2014); an even one leans to the right.

    The states of the widths lie side by side. Each layer reads the states of the one below.
    """
    H = S
    for layer in range(config.cnn_num_layers):
        states = []
        for number, k in enumerate(config.cnn_kernel_sizes, layer * len(config.cnn_kernel_sizes)):
            places = range(-((k - 1) // 2), k // 2 + 1)
            W = part(weights, f"convolutions.{number}.")
            states.append(torch.relu(convolution(H, W, places)))
        H = torch.cat(states, dim=1)
    return H


def dilated_cnn(S: Tensor, weights: Weights, config: Any) -> Tensor:
    """Add to the states, layer by layer, what windows with gaps of 1, 2, 4, ... tokens see."""
    k = config.dilated_cnn_kernel_size
    H = convolution(S, part(weights, "projection."), [0])
    for layer in range(config.dilated_cnn_num_layers):
        places = [2**layer * place for place in range(-((k - 1) // 2), k // 2 + 1)]
        H = H + torch.relu(convolution(H, part(weights, f"layers.{layer}.convolution."), places))
    return H


def relation_network(S: Tensor, weights: Weights, config: Any) -> Tensor:
    """h_t = sum over t', t too, of alpha(x_t, x_t') f(x_t, x_t'); f has two ReLU layers."""
    alpha = pair_weights(S, weights, config)
    states = []
    for t in range(len(S)):
        h = S.new_zeros(config.relation_hidden_size)
        for partner in range(len(S)):
            f = hidden_layer(S[t], S[partner], weights)
            f = torch.relu(weights["pair.output.weight"] @ f + weights["pair.output.bias"])
            h = h + alpha[t, partner] * f
        states.append(h)
    return torch.stack(states) if states else S.new_zeros(0, config.relation_hidden_size)


def hidden_layer(x: Tensor, partner: Tensor, weights: Weights) -> Tensor:
    """Return the hidden layer of a pair of tokens."""
    f = weights["pair.first.weight"] @ x + weights["pair.second.weight"] @ partner
    return torch.relu(f + weights["pair.first.bias"])


def pair_weights(S: Tensor, weights: Weights, config: Any) -> Tensor:
    """Return alpha(x_t, x_t'), n x n: 1, a gate, or a softmax over t'; 0 outside of the window."""
    reach = len(S) if config.relation_window is None else config.relation_window
    alpha = S.new_zeros(len(S), len(S))
    for t in range(len(S)):
        for partner in range(len(S)):
            if abs(t - partner) > reach:
                continue
            a = S.new_ones(1)
            if config.relation_weights == "sigmoid":
                g = weights["pair.first_gate.weight"] @ S[t] + weights["pair.first_gate.bias"]
                a = torch.sigmoid(g + weights["pair.second_gate.weight"] @ S[partner])
            elif config.relation_weights == "softmax":
                f = hidden_layer(S[t], S[partner], weights)
                a = torch.exp(weights["pair.score.weight"] @ f)
            alpha[t, partner] = a
    if config.relation_weights == "softmax":
        return alpha / alpha.sum(dim=1, keepdim=True)
    return alpha


ENCODERS = {
    "bilstm": stacked_bilstm,
    "cnn": cnn,
    "dilated_cnn": dilated_cnn,
    "relation_network": relation_network,
    "none": lambda S, weights, config: S,
}


# The sentence matrix M


def softmax(x: Tensor) -> Tensor:
    """Make each row of a matrix positive with sum 1 ("along the second dimension")."""
    return torch.exp(x) / torch.exp(x).sum(dim=1, keepdim=True)


# Sparsemax (Martins and Astudillo, 2016), 1.5-entmax (Peters, Niculae and Martins, 2019).
FUNCTIONS = {
    "softmax": softmax,
    "entmax15": partial(entmax.entmax15, dim=1),
    "sparsemax": partial(entmax.sparsemax, dim=1),
}


def weigh(scores: Tensor, config: Any) -> Tensor:
    """Make weights of scores by the function that the config names."""
    return FUNCTIONS[config.attention_function](scores)


def readable(H: Tensor, config: Any) -> Tensor:
    """Give each state mean 0 and variance 1, if the config says so."""
    if not config.normalize_states:
        return H
    rows = [(h - h.mean()) / (((h - h.mean()) ** 2).mean() + 1e-5).sqrt() for h in H]
    return torch.stack(rows)


def attention(H: Tensor, weights: Weights, config: Any) -> Tensor:
    """A = softmax(W_s2 tanh(W_s1 H^T)), without biases (equation 6)."""
    W_s1, W_s2 = weights["projection.weight"], weights["hops.weight"]
    return weigh(W_s2 @ torch.tanh(W_s1 @ readable(H, config).T), config)


def cosine_penalty(A: Tensor) -> Tensor:
    """P = the mean cosine between two hops."""
    r = len(A)
    P = A.new_zeros(())
    for i in range(r):
        for j in range(i):
            P = P + A[i] @ A[j] / (A[i].norm() * A[j].norm()) / (r * (r - 1) / 2)
    return P


def penalty(A: Tensor) -> Tensor:
    """P = ||A A^T - I||_F^2: a sum of squares over r x r (equation 8)."""
    r = len(A)
    P = A.new_zeros(())
    for i in range(r):
        for j in range(r):
            overlap = (A[i] * A[j]).sum()
            P = P + (overlap - (1 if i == j else 0)) ** 2
    return P


def last(H: Tensor) -> Tensor:
    """Join the state of each direction after it has read the whole sentence."""
    u = H.shape[1] // 2
    return torch.cat([H[-1, :u], H[0, u:]])


POOLINGS = {"max": lambda H: H.max(dim=0).values, "mean": lambda H: H.mean(dim=0), "last": last}


def encode(config: Any, weights: Weights, ids: Sequence[int]) -> Encoded:
    """Turn token ids into the sentence matrix: S, H, A, M = A H (equations 1 to 7), and P.

    A sentence without tokens has no state to attend to, and a matrix of zeros. The poolings that
    the paper compares with give a matrix of one row and have no penalty; their A is the share of
    the units that each state gives.
    """
    S = weights["embeddings.weight"][list(ids)]
    H = ENCODERS[config.encoder](S, part(weights, "token_encoder."), config)
    if config.pooling == "self_attention":
        A = attention(H, part(weights, "pooling."), config)
        measure = {"frobenius": penalty, "cosine": cosine_penalty}[config.penalty]
        return Encoded(H, A, A @ H, measure(A))
    row = POOLINGS[config.pooling](H) if len(ids) else H.new_zeros(H.shape[1])
    A = taken(H, config.pooling).mean(1)
    return Encoded(H, A.unsqueeze(0), row.unsqueeze(0), H.new_zeros(()))


def taken(H: Tensor, pooling: str) -> Tensor:
    """Return which share of each unit of the only row is from which state, n x H."""
    shares = torch.zeros_like(H)
    n, units = H.shape
    for k in range(units if n else 0):
        if pooling == "max":
            highest = [j for j in range(n) if torch.isclose(H[j, k], H[:, k].max(), atol=1e-6)]
            shares[highest, k] = 1 / len(highest)  # units of a ReLU are 0 in several states
        elif pooling == "mean":
            shares[:, k] = 1 / n
        else:
            shares[n - 1 if k < units // 2 else 0, k] = 1
    return shares


def rationale_cost(
    config: Any, weights: Weights, ids: Sequence[int], marks: Sequence[float]
) -> Tensor:
    """Return -log of the mean weight of the marked tokens, times the mark; 0 without marks.

    A hundredth of the weight is that of a softmax, which is never 0.
    """
    own = encode(config, weights, ids).A
    config = copy(config)
    config.attention_function = "softmax"
    never_zero = encode(config, weights, ids).A
    mass = torch.zeros((), dtype=torch.float64)
    for A_i, S_i in zip(own, never_zero, strict=True):
        for t in range(len(ids)):
            if marks[t]:
                mass = mass + (0.99 * A_i[t] + 0.01 * S_i[t]) / len(own)
    return -max(marks) * mass.log() if any(marks) else mass


# The heads


def mlp(M: Tensor, weights: Weights) -> Tensor:
    """Flatten M, then one hidden layer of ReLU units and the output layer (section 2.3)."""
    hidden = torch.relu(weights["hidden.weight"] @ M.flatten() + weights["hidden.bias"])
    return weights["output.weight"] @ hidden + weights["output.bias"]


def pruned_mlp(M: Tensor, weights: Weights) -> Tensor:
    """Give each row of M p hidden units of its own and each column q (Appendix A).

    The output layer reads the units of the rows, then those of the columns.
    """
    units = [m @ weights["row_weight"][i] + weights["row_bias"][i] for i, m in enumerate(M)]
    for j, m in enumerate(M.T):
        units.append(m @ weights["column_weight"][j] + weights["column_bias"][j])
    return weights["output.weight"] @ torch.relu(torch.cat(units)) + weights["output.bias"]


CLASSIFIERS = {"mlp": mlp, "pruned_mlp": pruned_mlp}


def gated(M_p: Tensor, M_h: Tensor, weights: Weights) -> Tensor:
    """F_r = F_p * F_h, where each row has a matrix of its own per side (equations 10 to 12)."""
    W_p, W_h = weights["premise_weight"], weights["hypothesis_weight"]
    return torch.stack([(M_p[i] @ W_p[i]) * (M_h[i] @ W_h[i]) for i in range(len(M_p))])


def concat(M_p: Tensor, M_h: Tensor, weights: Weights) -> Tensor:
    """Join both sentences, their distance and their product, row by row: [u; v; |u-v|; u*v]."""
    rows = [torch.cat([u, v, (u - v).abs(), u * v]) for u, v in zip(M_p, M_h, strict=True)]
    return torch.stack(rows)


MATCHINGS = {"gated": gated, "concat": concat}


def targets(config: Any, logits: Tensor) -> Tensor:
    """Bring the targets of a regression back to their own mean and deviation."""
    scales = config.target_deviation or [1] * len(logits)
    means = config.target_mean or [0] * len(logits)
    return torch.stack([s * x + m for x, s, m in zip(logits, scales, means, strict=True)])


def linear_part(config: Any, weights: Weights, texts: Sequence[Sequence[int]]) -> Tensor:
    """Return what each word of 1 or 2 texts adds by itself to each logit, n x labels.

    A pair of neighbours is one feature, of which each of the two words has half. Two texts have
    three parts with weights of their own: the words that only the second has, those that both have,
    where they stand in the second, and those that only the first has.
    """
    words = [(side, word) for side, text in enumerate(texts) for word in text]
    shares = torch.zeros(len(words), len(config.id2label), dtype=torch.float64)
    if config.linear_part == "none":
        return shares
    own = part(weights, "linear_part.")
    parts = [list(range(len(words)))]
    if len(texts) == 2:
        parts = [[], [], []]
        for place, (side, word) in enumerate(words):
            is_shared = word in texts[1 - side]
            if side == 1:
                parts[1 if is_shared else 0].append(place)
            elif not is_shared:
                parts[2].append(place)
    for number, places in enumerate(parts):
        for place in places:
            shares[place] = shares[place] + own["word_weight"][number, words[place][1]]
        if config.linear_part == "words_and_pairs":
            num_pairs = own["pair_weight"].shape[1]
            for place, following in itertools.pairwise(places):
                pair = (words[place][1] * 1_000_003 + words[following][1]) % num_pairs
                for half in (place, following):
                    shares[half] = shares[half] + own["pair_weight"][number, pair] / 2
    return shares / max(len(words), 1) ** 0.5


def words_logits(config: Any, weights: Weights, texts: Sequence[Sequence[int]]) -> Tensor:
    """Return what the words of 1 or 2 texts add to the logits, with the bias of the linear part."""
    bias = weights.get("linear_part.bias", torch.zeros(1))
    return linear_part(config, weights, texts).sum(0) + bias


def classify_text(config: Any, weights: Weights, ids: Sequence[int]) -> Prediction:
    """Classify one text."""
    text = encode(config, part(weights, "encoder."), ids)
    classify = CLASSIFIERS[config.classifier]
    logits = targets(config, classify(text.M, part(weights, "classifier.")))
    return logits + words_logits(config, weights, [ids]), text.P


def classify_pair(
    config: Any, weights: Weights, premise_ids: Sequence[int], hypothesis_ids: Sequence[int]
) -> Prediction:
    """Classify a premise and a hypothesis that the same encoder has read (Appendix B)."""
    premise = encode(config, part(weights, "encoder."), premise_ids)
    hypothesis = encode(config, part(weights, "encoder."), hypothesis_ids)
    match, classify = MATCHINGS[config.matching], CLASSIFIERS[config.classifier]
    F_r = match(premise.M, hypothesis.M, part(weights, "matching."))
    P = premise.P + hypothesis.P
    logits = targets(config, classify(F_r, part(weights, "classifier.")))
    return logits + words_logits(config, weights, [premise_ids, hypothesis_ids]), P


def contributions(
    config: Any, weights: Weights, sentences: Sequence[Sequence[int]], label: int, steps: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Return what each hop added to a label at each token, r x n, and each word, of 1 or 2 texts.

    The gradient of the head is averaged over steps of the straight path from empty matrices; the
    words are followed back from the states alone, with A and this gradient held.
    """
    own, head = part(weights, "encoder."), part(weights, "classifier.")
    S = [own["embeddings.weight"][list(ids)].detach() for ids in sentences]
    read = [encode(config, {**own, "embeddings.weight": one}, range(len(one))) for one in S]
    total = [torch.zeros_like(text.M) for text in read]
    for step in range(steps):
        at = [((step + 0.5) / steps * text.M).detach().requires_grad_() for text in read]
        F_r = at[0] if len(at) == 1 else MATCHINGS[config.matching](*at, part(weights, "matching."))
        logits = targets(config, CLASSIFIERS[config.classifier](F_r, head))
        is_single = config.problem_type == "single_label_classification"
        f = logits[label] - (logits.mean() if is_single else 0)
        found = torch.autograd.grad(f, at)
        total = [G + g / steps for G, g in zip(total, found, strict=True)]
    hops, words = [], []
    for one, (H, A, _, _), G in zip(S, read, total, strict=True):
        if config.pooling == "self_attention":
            slopes = torch.einsum("ij,ih->jh", A, G)
            hops.append(torch.stack([A_i * (H @ G_i) for A_i, G_i in zip(A, G, strict=True)]))
        else:
            slopes = taken(H, config.pooling) * G
            hops.append((slopes * H).sum(1).unsqueeze(0))
        words.append(words_of(config, own, one, slopes.detach()))
    return [C.detach() for C in hops], words


def words_of(config: Any, weights: Weights, S: Tensor, slopes: Tensor) -> Tensor:
    """Return what each of n words adds to the sum of the states times their slopes, n x H.

    Of an LSTM by the rule that holds gates and quotients. The other encoders are linear around
    their words but for what each state has beyond its gradient, which is of the word of the state.
    """
    S = S.detach().requires_grad_()
    if config.encoder == "bilstm":
        return held_words(config, weights, S, slopes)
    H = ENCODERS[config.encoder](S, part(weights, "token_encoder."), config)
    words = S.new_zeros(len(S))
    for t in range(len(S)):
        added = H[t] @ slopes[t]
        (gradient,) = torch.autograd.grad(added, S, retain_graph=True)
        by_words = (gradient * S).sum(1)
        words = words + by_words
        words[t] += added - by_words.sum()
    return words.detach()


def held_words(config: Any, weights: Weights, S: Tensor, slopes: Tensor) -> Tensor:
    """Return gradient times input of the LSTMs with all that is not linear held fixed."""
    biases = []

    def held_lstm(X: Tensor, own: Weights) -> Tensor:
        bias = (own["bias_ih_l0"] + own["bias_hh_l0"]).detach().repeat(len(X), 1)
        biases.append(bias.requires_grad_())
        return lstm(X, own, bias, held_sigmoid, held_tanh)

    H = stacked_bilstm(S, part(weights, "token_encoder."), config, held_lstm)
    of_words, *of_biases = torch.autograd.grad((H * slopes).sum(), [S, *biases])
    words = (of_words * S).sum(1)
    for number, (gradient, bias) in enumerate(zip(of_biases, biases, strict=True)):
        added = (gradient * bias).sum(1)
        words = words + (added.flip(0) if number % 2 else added)
    return words.detach()


def held_sigmoid(z: Tensor) -> Tensor:
    """Return a gate, held fixed."""
    return torch.sigmoid(z).detach()


def held_tanh(z: Tensor) -> Tensor:
    """Return z times its quotient, held fixed."""
    return z * (torch.tanh(z) / z).detach()


# The loss


def cross_entropy(
    logits: Tensor, label: Any, smoothing: float, weights: Sequence[float] | None = None
) -> Tensor:
    """Return -sum_k q_k log p_k, where q gives `smoothing` to all classes and the rest to one.

    p is the softmax of the logits less the logarithms of the weights. Soft labels divide the rest
    as their probabilities say.
    """
    logits = logits - torch.tensor(weights or 1.0).double().log()
    log_p = logits - torch.logsumexp(logits, dim=0)
    loss = torch.zeros((), dtype=torch.float64)
    for k in range(len(logits)):
        share = float(k == label) if isinstance(label, int) else label[k]
        q = (1 - smoothing) * share + smoothing / len(logits)
        loss = loss - q * log_p[k]
    return loss


def binary_cross_entropy(logits: Tensor, labels: Sequence[float]) -> Tensor:
    """Return the mean over the labels of -(y log p + (1 - y) log(1 - p))."""
    loss = logits.new_zeros(())
    for x, y in zip(logits, labels, strict=True):
        p, q = 1 / (1 + torch.exp(-x)), 1 / (1 + torch.exp(x))  # q = 1 - p, never rounded to 0
        loss = loss - (y * torch.log(p) + (1 - y) * torch.log(q))
    return loss / len(logits)


def squared_error(
    logits: Tensor, targets: Sequence[float], deviations: Sequence[float] | None
) -> Tensor:
    """Return the mean over the targets of ((x - y) / s)^2, where s is 1 or their deviation."""
    scales = deviations or [1] * len(logits)
    errors = [((x - y) / s) ** 2 for x, y, s in zip(logits, targets, scales, strict=True)]
    return torch.stack(errors).sum() / len(logits)


def loss(config: Any, predictions: Sequence[Prediction], labels: Sequence[Any]) -> Tensor:
    """Return the mean over the examples of task loss + coefficient * P (section 2.2)."""
    total = torch.zeros((), dtype=torch.float64)
    for (logits, P), label in zip(predictions, labels, strict=True):
        if config.problem_type == "regression":
            task = squared_error(logits, label, config.target_deviation)
        elif config.problem_type == "multi_label_classification":
            task = binary_cross_entropy(logits, label)
        else:
            task = cross_entropy(logits, label, config.label_smoothing, config.class_weights)
        total = total + task + config.penalty_coef * P
    return total / len(predictions)


# Ranking by the matrix


def score(config: Any, query: Tensor, document: Tensor) -> Tensor:
    """Return the mean over the query's rows of the cosine to the nearest row of the document."""
    if config.score_mode == "flat":
        query, document = query.reshape(1, -1), document.reshape(1, -1)
    total = query.new_zeros(())
    for q in query:
        cosines = [(q * d).sum() / (q.square().sum() * d.square().sum()).sqrt() for d in document]
        total = total + max(cosines)
    return total / len(query)


def rank(
    config: Any, weights: Weights, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> tuple[Tensor, Tensor]:
    """Return the scores of all queries and documents, and the loss with the other documents."""
    encoder = part(weights, "encoder.")
    queries, documents = (
        [encode(config, encoder, ids) for ids in side] for side in zip(*pairs, strict=True)
    )
    scores = torch.stack(
        [torch.stack([score(config, q.M, d.M) for d in documents]) for q in queries]
    )
    total = scores.new_zeros(())
    for i, (q, d) in enumerate(zip(queries, documents, strict=True)):
        total = total + cross_entropy(scores[i] / config.score_temperature, i, 0.0)
        total = total + config.penalty_coef * (q.P + d.P)
    return scores, total / len(queries)


# RNNsearch and RNNencdec: Bahdanau, Cho and Bengio (ICLR 2015), appendix A, in its own symbols


class Translated(NamedTuple):
    """What the translation model computes for a source x of T words and the L words before y.

    h are the annotations (T x 2n), alpha the alignment (L x T), s the states s_0 to s_L and p the
    distribution of each target word. RNNencdec has no alpha.
    """

    h: Tensor
    alpha: Tensor | None
    s: Tensor
    p: Tensor


def gated_unit(x: Tensor, h: Tensor, weights: Weights, context: Tensor | float = 0.0) -> Tensor:
    """Return f(x, h) (appendix A.1.1); `context` adds C_r c, C_z c and C c, one below the other."""
    n = len(h)
    U_r, U_z, U = *weights["gates_weight"].split(n), weights["state_weight"]
    from_x = (weights["input.weight"] @ x + weights["input.bias"] + context).split(n)
    r = torch.sigmoid(from_x[0] + U_r @ h)
    z = torch.sigmoid(from_x[1] + U_z @ h)
    candidate = torch.tanh(from_x[2] + U @ (r * h))
    return (1 - z) * h + z * candidate


def read_words(words: Sequence[Tensor], weights: Weights) -> list[Tensor]:
    """Return the states of a gated unit after each word, from the state 0."""
    h = weights["state_weight"].new_zeros(len(weights["state_weight"]))
    states = []
    for x in words:
        h = gated_unit(x, h, weights)
        states.append(h)
    return states


def translate(config: Any, weights: Weights, source: Sequence[int], y: Sequence[int]) -> Translated:
    """Score target words: `y` holds y_0 to y_{L-1}, the word before each."""
    words = [weights["encoder.embeddings.weight"][word] for word in source]
    forward = read_words(words, part(weights, "encoder.units.0."))
    if config.has_attention:
        backward = read_words(words[::-1], part(weights, "encoder.units.1."))[::-1]
        h = [torch.cat(both) for both in zip(forward, backward, strict=True)]
        first = backward[0]
    else:
        h, first = forward, forward[-1]
    own = part(weights, "decoder.")
    s = [torch.tanh(own["first_state.weight"] @ first + own["first_state.bias"])]
    alphas, distributions = [], []
    for word in y:
        c = first
        if config.has_attention:
            parts = ("score_weight", "query_weight", "key_weight", "key_bias")
            v_a, W_a, U_a, b_a = (own[f"alignment.{name}"] for name in parts)
            e = torch.stack([v_a @ torch.tanh(W_a @ s[-1] + U_a @ h_j + b_a) for h_j in h])
            alpha = torch.exp(e) / torch.exp(e).sum()
            alphas.append(alpha)
            c = sum((a * h_j for a, h_j in zip(alpha, h, strict=True)), torch.zeros_like(h[0]))
        E_y = own["embeddings.weight"][word]
        hidden = own["readout.weight"] @ torch.cat([s[-1], E_y, c]) + own["readout.bias"]
        t = torch.stack([torch.maximum(hidden[k], hidden[k + 1]) for k in range(0, len(hidden), 2)])
        logits = weights["lm_head.weight"] @ t + weights["lm_head.bias"]
        distributions.append(torch.exp(logits) / torch.exp(logits).sum())
        s.append(gated_unit(E_y, s[-1], part(own, "unit."), own["context.weight"] @ c))
    alpha = torch.stack(alphas) if alphas else None
    return Translated(torch.stack(h), alpha, torch.stack(s), torch.stack(distributions))


# Word vectors of texts (section 3 of Levy and Goldberg, "Neural Word Embedding as Implicit Matrix
# Factorization", 2014, with the smoothed contexts of their "Improving Distributional Similarity")


def positive_information(texts: Sequence[Sequence[int]], V: int, window: int) -> Tensor:
    """Return the positive PMI (V, V) of words that stand together, at a distance k counted 1 / k.

    A negative id is no word.
    """
    C = torch.zeros(V, V, dtype=torch.float64)
    for ids in texts:
        for i, word in enumerate(ids):
            for j, context in enumerate(ids):
                if i != j and abs(i - j) <= window and word >= 0 and context >= 0:
                    C[word, context] += 1 / abs(i - j)
    smoothed = C.sum(0) ** 0.75
    information = torch.zeros_like(C)
    for word in range(V):
        for context in range(V):
            if C[word, context] > 0:
                p_word = C[word].sum() / C.sum()
                p_context = smoothed[context] / smoothed.sum()
                p_both = C[word, context] / C.sum()
                information[word, context] = (p_both / (p_word * p_context)).log().clamp(min=0)
    return information


def own_vectors(information: Tensor, d: int, std: float) -> Tensor:
    """Return the rows of U sqrt(S), d columns (V, d), each of the length std * sqrt(d)."""
    U, S, _ = torch.linalg.svd(information)
    vectors = U[:, :d] * S[:d].sqrt()
    return vectors / vectors.norm(dim=1, keepdim=True) * std * d**0.5


def places_of_phrase(phrase: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Return the spans at which a phrase stands in a text of ASCII letters, trying each place."""
    found = []
    for start, end in itertools.combinations(range(len(text) + 1), 2):
        part = text[start:end]
        if part != part.strip():
            continue
        begins_in_word = start > 0 and text[start - 1].isalpha() and part[0].isalpha()
        ends_in_word = end < len(text) and text[end].isalpha() and part[-1].isalpha()
        words = "".join(letter if letter.isalpha() else f" {letter} " for letter in part.lower())
        if words.split() == list(phrase) and not begins_in_word and not ends_in_word:
            found.append((start, end))
    return found
