"""A structured self-attentive sentence embedding, at home in Hugging Face Transformers.

Importing this package registers its classes, so that the Auto classes and `pipeline` load its
checkpoints without `trust_remote_code`, and what it saves carries the code for everyone else.
"""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    TokenizersBackend,
)
from transformers.pipelines import PIPELINE_REGISTRY

from .data.tokenizer import build_tokenizer
from .data.word_vectors import load_word_vectors
from .models.self_attentive.configuration_self_attentive import SelfAttentiveConfig
from .models.self_attentive.modeling_self_attentive import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
)
from .models.self_attentive.pipeline_self_attentive import TASK, SelfAttentionPipeline

__version__ = "0.1.0"

SelfAttentiveConfig.register_for_auto_class()
SelfAttentiveModel.register_for_auto_class("AutoModel")
SelfAttentiveForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
SelfAttentiveForNLI.register_for_auto_class("AutoModelForSequenceClassification")

AutoConfig.register(SelfAttentiveConfig.model_type, SelfAttentiveConfig, exist_ok=True)
AutoModel.register(SelfAttentiveConfig, SelfAttentiveModel, exist_ok=True)
# A tuple: each checkpoint then loads as the head its config names in `architectures`.
AutoModelForSequenceClassification.register(
    SelfAttentiveConfig,
    (SelfAttentiveForSequenceClassification, SelfAttentiveForNLI),
    exist_ok=True,
)
AutoTokenizer.register(SelfAttentiveConfig, fast_tokenizer_class=TokenizersBackend, exist_ok=True)
PIPELINE_REGISTRY.register_pipeline(
    TASK,
    pipeline_class=SelfAttentionPipeline,
    pt_model=AutoModelForSequenceClassification,
    type="text",
)
SelfAttentiveConfig.local_pipelines = (TASK,)

__all__ = [
    "SelfAttentionPipeline",
    "SelfAttentiveConfig",
    "SelfAttentiveForNLI",
    "SelfAttentiveForSequenceClassification",
    "SelfAttentiveModel",
    "build_tokenizer",
    "load_word_vectors",
]
