"""Let the Auto classes and `pipeline` of transformers know the families of this package.

Importing this file registers them. `sase_hf/__init__.py` does so once transformers is imported.
"""

from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.pipelines import PIPELINE_REGISTRY

from .models.families import FAMILIES, Family
from .utils import neighbours  # noqa: F401 (classifiers read them)
from .utils.lenient_tokenizer import LenientTokenizer


def register(family: Family) -> None:
    """Let the Auto classes and `pipeline` know a family."""
    config = family.config
    heads = tuple(family.heads.values())
    config.register_for_auto_class()
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
    config.registered_task = family.pipeline_task


for _family in FAMILIES.values():
    register(_family)
