"""A Structured Self-Attentive Sentence Embedding (Lin et al., ICLR 2017)."""
