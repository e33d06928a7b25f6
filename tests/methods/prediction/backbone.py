"""A tiny backbone and its tokenizer, for PCL's value model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch


class Backbone(torch.nn.Module):
    """The hidden state of a token is its row of a fixed matrix."""

    WIDTH = 4

    def __init__(self) -> None:
        super().__init__()
        rows = torch.linspace(-1.0, 1.0, 256 * self.WIDTH).sin().view(256, self.WIDTH)
        self.states = torch.nn.Embedding.from_pretrained(rows, freeze=False)
        self.device = rows.device
        self.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(hidden_size=self.WIDTH))

    def forward(self, input_ids, attention_mask):
        return SimpleNamespace(last_hidden_state=self.states(input_ids))


class Bytes:
    """A tokenizer whose tokens are bytes."""

    class Padded(dict[str, Any]):
        def to(self, device: Any) -> Any:
            return self

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}

    def pad(self, rows, padding_side, return_tensors):
        ids = [torch.tensor(row) for row in rows["input_ids"]]
        masks = [torch.ones_like(row) for row in ids]
        padded = [torch.nn.utils.rnn.pad_sequence(part, batch_first=True) for part in (ids, masks)]
        return self.Padded(input_ids=padded[0], attention_mask=padded[1])
