"""Data sets in, prompts out."""

from curro.data.errors import DataError
from curro.data.load import load_prompts
from curro.data.prompt_set import PromptSet
from curro.data.subset import stratified_subset

__all__ = ["DataError", "PromptSet", "load_prompts", "stratified_subset"]
