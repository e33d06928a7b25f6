"""Data sets in, prompts out."""

from curro.data.load import load_prompts
from curro.data.prompt_set import PromptSet
from curro.data.raw import DataError

__all__ = ["DataError", "PromptSet", "load_prompts"]
