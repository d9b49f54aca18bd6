"""A translation model with attention as tutorials write it, of the sizes of RNNsearch.

`nn.GRU` reads and writes, every step of the decoder concatenates its state with every annotation
for the alignment, and computes the logits of one word.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sase_hf import RNNSearchConfig


class PlainSeq2Seq(nn.Module):
    """Encoder, attention, decoder and the deep output of the paper, one target word at a time."""

    def __init__(self, config: RNNSearchConfig) -> None:
        super().__init__()
        self.config = config
        m, n, a = config.embedding_size, config.hidden_size, config.attention_size
        self.source_embeddings = nn.Embedding(config.vocab_size, m, padding_idx=0)
        self.target_embeddings = nn.Embedding(config.vocab_size, m, padding_idx=0)
        self.encoder = nn.GRU(m, n, batch_first=True, bidirectional=True)
        self.first_state = nn.Linear(n, n)
        self.attention = nn.Linear(n + 2 * n, a)
        self.score = nn.Linear(a, 1, bias=False)
        self.decoder = nn.GRU(m + 2 * n, n, batch_first=True)
        self.readout = nn.Linear(n + m + 2 * n, 2 * config.maxout_size)
        self.output = nn.Linear(config.maxout_size, config.vocab_size)

    def read(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the annotations (B, T, 2n) and the first state (B, n)."""
        lengths = mask.sum(1).cpu()
        words = nn.utils.rnn.pack_padded_sequence(
            self.source_embeddings(ids), lengths, batch_first=True, enforce_sorted=False
        )
        packed, last = self.encoder(words)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            packed, batch_first=True, total_length=ids.shape[1]
        )
        return states, torch.tanh(self.first_state(last[1]))

    def step(
        self, word: Tensor, state: Tensor, states: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the logits (B, K) and the next state (B, n) from the word before, (B,)."""
        repeated = state.unsqueeze(1).expand(-1, states.shape[1], -1)
        hidden = torch.tanh(self.attention(torch.cat([repeated, states], 2)))
        scores = self.score(hidden).squeeze(2).masked_fill(mask == 0, -1e10)
        context = torch.bmm(F.softmax(scores, 1).unsqueeze(1), states)
        embedded = self.target_embeddings(word).unsqueeze(1)
        output, new = self.decoder(torch.cat([embedded, context], 2), state.unsqueeze(0))
        pairs = self.readout(torch.cat([output, embedded, context], 2)).squeeze(1)
        maxout = pairs.unflatten(1, (-1, 2)).max(2).values
        return self.output(maxout), new.squeeze(0)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Tensor:
        """Return the loss per target word."""
        states, state = self.read(input_ids, attention_mask)
        word = torch.zeros_like(labels[:, 0])
        logits = []
        for place in range(labels.shape[1]):
            scores, state = self.step(word, state, states, attention_mask)
            logits.append(scores)
            word = labels[:, place].clamp(min=0)
        return F.cross_entropy(torch.stack(logits, 1).flatten(0, 1), labels.flatten())

    @torch.inference_mode()
    def translate(self, input_ids: Tensor, attention_mask: Tensor, length: int) -> Tensor:
        """Return the likeliest word of each step, shape (B, length)."""
        states, state = self.read(input_ids, attention_mask)
        words = [torch.zeros_like(input_ids[:, 0])]
        for _ in range(length):
            scores, state = self.step(words[-1], state, states, attention_mask)
            words.append(scores.argmax(1))
        return torch.stack(words[1:], 1)
