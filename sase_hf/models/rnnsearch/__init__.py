"""Neural Machine Translation by Jointly Learning to Align and Translate (Bahdanau et al., 2015)."""
