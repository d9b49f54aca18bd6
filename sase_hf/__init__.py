"""Two papers at home in Hugging Face Transformers: sentence matrices, and aligned translation.

Importing this package registers its classes, so that the Auto classes and `pipeline` load its
checkpoints without `trust_remote_code`. Saved checkpoints carry the code for everyone else.
"""

from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.pipelines import PIPELINE_REGISTRY

from .data.own_vectors import own_word_vectors
from .data.tokenizer import LenientTokenizer, build_tokenizer, build_translation_tokenizer
from .data.word_vectors import load_word_vectors
from .evaluation.linear_part import fit_linear_part
from .layers import SelfAttention
from .models import FAMILIES, Family
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
from .models.pipeline_self_attentive import (
    LimitedTextClassificationPipeline,
    SelfAttentionPipeline,
)
from .utils.loading import build_on_encoder

__version__ = "0.1.0"


STOCK_TASKS = ("text-classification", "sentiment-analysis")  # one task under two names


def _register(family: Family) -> None:
    """Let the Auto classes and `pipeline` know a family."""
    config = family.config
    heads = tuple(family.heads.values())
    config.register_for_auto_class()
    family.base_model.register_for_auto_class("AutoModel")
    for head in heads:
        head.register_for_auto_class(family.auto_class.__name__)
    AutoConfig.register(config.model_type, config, exist_ok=True)
    AutoModel.register(config, family.base_model, exist_ok=True)
    # If a family has several heads, `architectures` in the config selects the head.
    family.auto_class.register(config, heads if len(heads) > 1 else heads[0], exist_ok=True)
    AutoTokenizer.register(config, fast_tokenizer_class=LenientTokenizer, exist_ok=True)
    PIPELINE_REGISTRY.register_pipeline(
        family.pipeline_task,
        pipeline_class=family.pipeline_class,
        pt_model=family.auto_class,
        type="text",
    )
    stock_tasks = STOCK_TASKS if family.hub_task in STOCK_TASKS else ()
    config.local_pipelines = (family.pipeline_task, *stock_tasks)


for _family in FAMILIES.values():
    _register(_family)
# The stock pipeline of labels, which reads of a long text what the others read.
PIPELINE_REGISTRY.supported_tasks["text-classification"]["impl"] = LimitedTextClassificationPipeline

__all__ = [
    "AlignedTranslationPipeline",
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
    "build_on_encoder",
    "build_tokenizer",
    "build_translation_tokenizer",
    "fit_linear_part",
    "load_word_vectors",
    "own_word_vectors",
]
