"""slime's or miles' own classes in place of the stand-ins, from a checkout that a variable names.

CURRO_SLIME=~/slime python -m pytest tests/contrib/slime
"""

import os
import sys
from importlib import import_module
from pathlib import Path

NAME = None
if "CURRO_SLIME" in os.environ:
    folder = Path(os.environ["CURRO_SLIME"])
    NAME = next(name for name in ("slime", "miles") if (folder / name).is_dir())
    sys.path.insert(0, str(folder))


def own(path):
    """A class or a function of the framework ("utils.types:Sample")."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(f"{NAME}.{module}"), attribute)


def options(folder, prompts):
    """What the framework's data source reads of its arguments, with a data set and a tokenizer for it."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "prompts.parquet"
    columns = {"prompt": [f"p{row}" for row in range(prompts)], "label": [str(row) for row in range(prompts)]}
    pq.write_table(pa.table(columns), data)
    words = Tokenizer(models.WordLevel({"p": 0}, unk_token="p"))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder / "tokenizer")
    without = ("chat_template_path", "dump_details", "rollout_max_prompt_len", "multimodal_keys", "tool_key")
    return dict.fromkeys(without) | {
        "hf_checkpoint": str(folder / "tokenizer"), "prompt_data": str(data), "input_key": "prompt",
        "label_key": "label", "metadata_key": "metadata", "apply_chat_template": False,
        "apply_chat_template_kwargs": None, "rollout_seed": 0,
    }  # fmt: skip
