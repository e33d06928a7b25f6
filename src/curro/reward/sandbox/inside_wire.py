# Values between a program and its tests, as lines of JSON: plain data by value, anything else by a number.
# Begins both sides. What arrives is built-in types alone, whatever the other side is.
from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Handles:
    """Objects that stay here and are known to the other side by number."""

    def __init__(self) -> None:
        self.objects: list[Any] = []

    def encode(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return {"i": format(int(value), "x")} if abs(value) >> 60 else int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"f": repr(float(value))}
        if isinstance(value, str):
            return str(value)
        if isinstance(value, bytes | bytearray):
            return {"b": value.hex(), "changes": isinstance(value, bytearray)}
        if isinstance(value, complex):
            return {"c": [self.encode(value.real), self.encode(value.imag)]}
        for kind, letter in ((list, "l"), (tuple, "t"), (frozenset, "z"), (set, "s")):
            if isinstance(value, kind):
                return {letter: [self.encode(item) for item in value]}
        if isinstance(value, dict):
            return {"d": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if type(value).__module__ == "numpy":
            return self.encode(value.tolist())
        return self.other(value)

    def other(self, value: Any) -> Any:
        self.objects.append(value)
        return {"h": len(self.objects) - 1}

    def far(self, number: int) -> Any:
        return self.objects[number]

    def decode(self, told: Any) -> Any:
        if not isinstance(told, dict):
            return told
        letter = next(iter(told))
        content = told[letter]
        if letter == "i":
            return int(content, 16)
        if letter == "f":
            return float(content)
        if letter == "b":
            return (bytearray if told.get("changes") else bytes).fromhex(content)
        if letter == "c":
            return complex(*map(self.decode, content))
        if letter == "d":
            return {self.decode(key): self.decode(item) for key, item in content}
        if letter == "h":
            return self.far(content)
        kinds: dict[str, Any] = {"l": list, "t": tuple, "z": frozenset, "s": set}
        return kinds[letter](map(self.decode, content))
