"""The rows of a ranker's sentence matrix as the vectors of a `MultiVectorEncoder`.

`modules.json` of a ranker names `SentenceRows`, and sentence-transformers alone imports this file.
Shapes: B texts, r rows of H numbers.
"""

from typing import Any

from torch import Tensor, nn

from .configuration_self_attentive import SelfAttentiveConfig

try:  # the file also lies beside checkpoints that are read without sentence-transformers
    from sentence_transformers.base.modules import Dense
except ImportError:
    Dense = object  # type: ignore[misc, assignment]

_VECTORS = "token_embeddings"


class SentenceRows(Dense):
    """Hands the rows to a `MultiVectorEncoder`; changes nothing for a `SentenceTransformer`.

    A `MultiVectorEncoder` adds a random projection to a checkpoint that has no `Dense`; this one, a
    `Dense` without weights, prevents that. A `MultiVectorEncoder` also sets `module_input_name` to
    `token_embeddings`, which tells the two apart. `projection_dim` is r * H, `hidden_size` H.
    """

    config_keys = ["projection_dim", "hidden_size", "module_input_name"]

    def __init__(
        self,
        projection_dim: int,
        hidden_size: int,
        module_input_name: str = "sentence_embedding",
    ) -> None:
        nn.Module.__init__(self)  # without weights
        self.projection_dim = projection_dim
        self.hidden_size = hidden_size
        self.module_input_name = module_input_name
        self.module_output_name = module_input_name

    def forward(self, features: dict[str, Tensor], **kwargs: object) -> dict[str, Tensor]:
        """Return the features; for a `MultiVectorEncoder` with the vectors (B, r, H), all real."""
        if self.module_input_name == _VECTORS:
            matrix = features["sentence_embedding"]  # (B, r * H)
            rows = matrix.unflatten(-1, (-1, self.hidden_size))
            features[_VECTORS] = rows
            features["attention_mask"] = rows.new_ones(rows.shape[:2])
        return features

    def get_embedding_dimension(self) -> int:
        """Return the size of what `encode` returns: of a vector, or of the embedding."""
        return self.hidden_size if self.module_input_name == _VECTORS else self.projection_dim

    def get_config_dict(self) -> dict[str, object]:
        """Return what `load` reads."""
        return {key: getattr(self, key) for key in self.config_keys}

    def save(self, output_path: str, *args: object, **kwargs: object) -> None:
        """Write the fields of `get_config_dict`."""
        self.save_config(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, *args: object, **options: Any) -> "SentenceRows":
        """Read the fields from the config of the ranker, or from that of `save`."""
        names = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
        places = {name: options[name] for name in names if name in options}
        config = cls.load_config(model_name_or_path, **places)
        if "model_type" in config:
            ranker = SelfAttentiveConfig(**config)
            config |= {name: getattr(ranker, name) for name in ("projection_dim", "hidden_size")}
        return cls(**{key: config[key] for key in cls.config_keys if key in config})
