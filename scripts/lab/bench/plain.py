"""The encoder as most people write it in PyTorch, not tuned, with a copy of our classifier.

Arguments and outputs have the package's names. Shapes: B texts, T tokens, H = 2u width of the
states, r hops, c labels.
"""

from copy import deepcopy
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification


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
    """The whole model, for one label per text, with a copy of the weights of ours."""

    def __init__(self, ours: SelfAttentiveForSequenceClassification) -> None:
        super().__init__()
        self.penalty_coef = ours.config.penalty_coef
        self.encoder = PlainEncoder(ours.config)
        self.classifier = deepcopy(ours.classifier)
        self.load_state_dict({plain_name(name): value for name, value in ours.state_dict().items()})
        self.to(ours.device)

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


def plain_name(name: str) -> str:
    """Return the name that one of our parameters has in the plain model."""
    half, _, weight = name.rpartition("_lstm.")
    if half:
        return f"encoder.lstm.{weight}" + ("_reverse" if half.endswith("backward") else "")
    return name.replace("encoder.pooling.", "encoder.")
