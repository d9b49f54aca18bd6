"""The model as most people write it in PyTorch: what the package is compared with.

Nothing here is slow on purpose, and nothing is tuned. Arguments and outputs have the names of the
package. Shapes: B texts, T tokens, H = 2u width of the states, r hops, c labels.
"""

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification

# The parts of our encoder and of the plain one, where their names differ.
NAMES = {
    "encoder.pooling.": "encoder.",
    "encoder.token_encoder.layers.0.forward_lstm.": "encoder.lstm.",
    "encoder.token_encoder.layers.0.backward_lstm.": "encoder.lstm.",
}


class PlainMLP(nn.Module):
    """Two linear layers with dropout before each."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.hidden = nn.Linear(config.projection_dim, config.classifier_hidden_size)
        self.output = nn.Linear(config.classifier_hidden_size, len(config.id2label or {}))

    def forward(self, matrix: Tensor) -> Tensor:
        """Return logits (B, c) from sentence matrices (B, r, H)."""
        hidden = F.relu(self.hidden(self.dropout(matrix.flatten(1))))
        return self.output(self.dropout(hidden))


class PlainPrunedMLP(nn.Module):
    """The MLP of Appendix A: some units read one row of the matrix, the others one column."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        r, width = config.num_hops, config.hidden_size
        p, q = config.pruned_row_size, config.pruned_column_size
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.row_weight = nn.Parameter(torch.empty(r, width, p))
        self.row_bias = nn.Parameter(torch.empty(r, p))
        self.column_weight = nn.Parameter(torch.empty(width, r, q))
        self.column_bias = nn.Parameter(torch.empty(width, q))
        self.output = nn.Linear(r * p + width * q, len(config.id2label or {}))

    def forward(self, matrix: Tensor) -> Tensor:
        """Return logits (B, c) from sentence matrices (B, r, H)."""
        matrix = self.dropout(matrix)
        rows = torch.bmm(matrix.transpose(0, 1), self.row_weight).transpose(0, 1) + self.row_bias
        columns = torch.bmm(matrix.permute(2, 0, 1), self.column_weight).transpose(0, 1)
        columns = columns + self.column_bias
        hidden = F.relu(torch.cat([rows.flatten(1), columns.flatten(1)], dim=1))
        return self.output(self.dropout(hidden))


class PlainEncoder(nn.Module):
    """Word vectors, one BiLSTM layer and self-attention."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        width, size = config.embedding_size, config.lstm_hidden_size
        self.embeddings = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.lstm = nn.LSTM(width, size, batch_first=True, bidirectional=True)
        self.projection = nn.Linear(config.hidden_size, config.attention_size, bias=False)
        self.hops = nn.Linear(config.attention_size, config.num_hops, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        """Return `sentence_embedding` (B, r, H) and `penalty` (B,) of ids padded on the right."""
        lengths = attention_mask.sum(1).cpu()
        packed = pack_padded_sequence(
            self.embeddings(input_ids), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=input_ids.shape[1]
        )  # (B, T, H)
        scores = self.hops(torch.tanh(self.projection(states))).transpose(1, 2)  # (B, r, T)
        scores = scores.masked_fill(attention_mask.unsqueeze(1) == 0, float("-inf"))
        attention = F.softmax(scores, dim=-1)
        overlap = attention @ attention.transpose(1, 2)  # (B, r, r)
        identity = torch.eye(overlap.shape[-1], device=overlap.device)
        penalty = ((overlap - identity) ** 2).sum((1, 2))
        return SimpleNamespace(sentence_embedding=attention @ states, penalty=penalty)


class PlainClassifier(nn.Module):
    """The whole model, for one label per text."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.penalty_coef = config.penalty_coef
        self.encoder = PlainEncoder(config)
        pruned = config.classifier == "pruned_mlp"
        self.classifier = (PlainPrunedMLP if pruned else PlainMLP)(config)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None
    ) -> SimpleNamespace:
        """Return `logits` (B, c) and, if there are labels (B,), `loss`."""
        encoded = self.encoder(input_ids, attention_mask)
        logits = self.classifier(encoded.sentence_embedding)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits, labels) + self.penalty_coef * encoded.penalty.mean()
        return SimpleNamespace(loss=loss, logits=logits)


def plain_twin(model: SelfAttentiveForSequenceClassification) -> PlainClassifier:
    """Return a plain model with a copy of our weights; RuntimeError if it has other parameters."""
    twin = PlainClassifier(model.config).to(model.device)
    twin.load_state_dict({plain_name(name): weight for name, weight in model.state_dict().items()})
    return twin


def plain_name(name: str) -> str:
    """Return the name that one of our parameters has in the plain model."""
    for ours, plain in NAMES.items():
        if name.startswith(ours):
            suffix = "_reverse" if "backward_lstm" in ours else ""
            return plain + name.removeprefix(ours) + suffix
    return name
