"""The class of the tokenizers that this package builds."""

from collections.abc import Sequence
from copy import copy
from typing import Any

from tokenizers import AddedToken
from transformers import TokenizersBackend

from ..models.checkpoint import TOKENIZER_NAMES, list_files

PAD_TOKEN = "[PAD]"
UNK_TOKEN = "[UNK]"
EOS_TOKEN = "[EOS]"
SPECIAL_TOKENS = [PAD_TOKEN, UNK_TOKEN]


class LenientTokenizer(TokenizersBackend):
    """A stock fast tokenizer that reads a text which spells `[PAD]`, `[UNK]` or `[EOS]` as text.

    Where this package is not imported, the stock class loads in its place, and does the same. Saved
    beside the weights of a model, it is the one that they load with from then on. A token that a
    user adds is read as one token, also a special one; the stock class cuts one that has a name,
    such as `mask_token="[MASK]"`.
    """

    def _add_tokens(
        self, new_tokens: Sequence[str | AddedToken], special_tokens: bool = False
    ) -> int:
        """Add tokens; the backend cuts special ones, so that those of users are none to it."""
        tokens: list[str | AddedToken] = []
        for new_token in new_tokens:
            is_text = str(new_token) in (*SPECIAL_TOKENS, EOS_TOKEN)
            if isinstance(new_token, str):
                token = AddedToken(new_token, normalized=not (special_tokens or is_text))
            else:
                token = copy(new_token)
            token.special = is_text
            tokens.append(token)
        added: int = super()._add_tokens(tokens)
        return added

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> tuple[str, ...]:
        """Save the tokenizer as it is when it is new, and list it beside saved weights."""
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()
        saved: tuple[str, ...] = super().save_pretrained(save_directory, *args, **kwargs)
        list_files(save_directory, TOKENIZER_NAMES)
        return saved
