"""Two papers at home in Hugging Face Transformers: sentence matrices, and aligned translation.

Importing this package registers its classes, so that the Auto classes and `pipeline` load its
checkpoints without `trust_remote_code`, and what it saves carries the code for everyone else.
"""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    TokenizersBackend,
)
from transformers.pipelines import PIPELINE_REGISTRY

from .data.tokenizer import build_tokenizer, build_translation_tokenizer
from .data.word_vectors import load_word_vectors
from .models.rnnsearch.configuration_rnnsearch import RNNSearchConfig
from .models.rnnsearch.modeling_rnnsearch import RNNSearchForConditionalGeneration, RNNSearchModel
from .models.rnnsearch.pipeline_rnnsearch import TASK as TRANSLATION_TASK
from .models.rnnsearch.pipeline_rnnsearch import AlignedTranslationPipeline
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

RNNSearchConfig.register_for_auto_class()
RNNSearchModel.register_for_auto_class("AutoModel")
RNNSearchForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")

AutoConfig.register(RNNSearchConfig.model_type, RNNSearchConfig, exist_ok=True)
AutoModel.register(RNNSearchConfig, RNNSearchModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(RNNSearchConfig, RNNSearchForConditionalGeneration, exist_ok=True)
AutoTokenizer.register(RNNSearchConfig, fast_tokenizer_class=TokenizersBackend, exist_ok=True)
PIPELINE_REGISTRY.register_pipeline(
    TRANSLATION_TASK,
    pipeline_class=AlignedTranslationPipeline,
    pt_model=AutoModelForSeq2SeqLM,
    type="text",
)
RNNSearchConfig.local_pipelines = (TRANSLATION_TASK,)

__all__ = [
    "AlignedTranslationPipeline",
    "RNNSearchConfig",
    "RNNSearchForConditionalGeneration",
    "RNNSearchModel",
    "SelfAttentionPipeline",
    "SelfAttentiveConfig",
    "SelfAttentiveForNLI",
    "SelfAttentiveForSequenceClassification",
    "SelfAttentiveModel",
    "build_tokenizer",
    "build_translation_tokenizer",
    "load_word_vectors",
]
