"""Two papers at home in Hugging Face Transformers: sentence matrices, and aligned translation.

Once this package is imported, the Auto classes and `pipeline` of transformers load its checkpoints
without `trust_remote_code`. Saved checkpoints carry the code for everyone else.

The import takes no time: a name brings its module, and torch, when it is used. The classes are
registered (`registration`) right after transformers is imported, by whoever imports it. Names here
can be used first in several threads; whoever imports a file of a folder by its path, or
transformers, in several threads at once imports transformers before.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data.tokenizer import build_tokenizer, build_translation_tokenizer
    from .data.vectors import load_word_vectors, own_word_vectors
    from .evaluation.linear_part import fit_linear_part
    from .layers import SelfAttention
    from .models.configuration_rnnsearch import RNNSearchConfig
    from .models.configuration_self_attentive import SelfAttentiveConfig
    from .models.modeling_rnnsearch import RNNSearchForConditionalGeneration, RNNSearchModel
    from .models.modeling_self_attentive import (
        SelfAttentiveForNLI,
        SelfAttentiveForRetrieval,
        SelfAttentiveForSequenceClassification,
        SelfAttentiveModel,
    )
    from .models.pipeline_rnnsearch import AlignedTranslationPipeline
    from .models.pipeline_self_attentive import SelfAttentionPipeline
    from .retrieval.embed import Embedder
    from .tasks.labels.estimators import TextClassifier, TextRegressor
    from .utils.loading import build_on_encoder

__version__ = "0.1.0"

__all__ = [
    "AlignedTranslationPipeline",
    "Embedder",
    "RNNSearchConfig",
    "RNNSearchForConditionalGeneration",
    "RNNSearchModel",
    "SelfAttention",
    "SelfAttentionPipeline",
    "SelfAttentiveConfig",
    "SelfAttentiveForNLI",
    "SelfAttentiveForRetrieval",
    "SelfAttentiveForSequenceClassification",
    "SelfAttentiveModel",
    "TextClassifier",
    "TextRegressor",
    "build_on_encoder",
    "build_tokenizer",
    "build_translation_tokenizer",
    "fit_linear_part",
    "load_word_vectors",
    "own_word_vectors",
]

# The module of each public name; type checkers read the imports above.
_MODULES = {
    "AlignedTranslationPipeline": ".models.pipeline_rnnsearch",
    "Embedder": ".retrieval.embed",
    "RNNSearchConfig": ".models.configuration_rnnsearch",
    "RNNSearchForConditionalGeneration": ".models.modeling_rnnsearch",
    "RNNSearchModel": ".models.modeling_rnnsearch",
    "SelfAttention": ".layers",
    "SelfAttentionPipeline": ".models.pipeline_self_attentive",
    "SelfAttentiveConfig": ".models.configuration_self_attentive",
    "SelfAttentiveForNLI": ".models.modeling_self_attentive",
    "SelfAttentiveForRetrieval": ".models.modeling_self_attentive",
    "SelfAttentiveForSequenceClassification": ".models.modeling_self_attentive",
    "SelfAttentiveModel": ".models.modeling_self_attentive",
    "TextClassifier": ".tasks.labels.estimators",
    "TextRegressor": ".tasks.labels.estimators",
    "build_on_encoder": ".utils.loading",
    "build_tokenizer": ".data.tokenizer",
    "build_translation_tokenizer": ".data.tokenizer",
    "fit_linear_part": ".evaluation.linear_part",
    "load_word_vectors": ".data.vectors",
    "own_word_vectors": ".data.vectors",
}

if not TYPE_CHECKING:  # a type checker would take it for a promise of any name

    def __getattr__(name: str) -> object:
        """Import the module of a public name when the name is first used."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # First, and in every thread: its import ends with `registration`, which imports files here
        # while all others wait. In another order two threads would wait for one another.
        importlib.import_module("transformers")
        value = getattr(importlib.import_module(_MODULES[name], __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return also the names that are not imported yet."""
    return sorted({*globals(), *__all__})


class _Registration(MetaPathFinder):
    """Finds transformers as the other finders do, and imports `registration` at its end."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how transformers is loaded and then registered with; None for other modules."""
        if name != "transformers":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (other.find_spec(name, path, target) for other in others)), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader  # made for this spec
            load = loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                importlib.import_module(".registration", __name__)

            loader.exec_module = load_and_register
        return spec


if "transformers" in sys.modules:
    importlib.import_module(".registration", __name__)
else:
    sys.meta_path.insert(0, _Registration())
