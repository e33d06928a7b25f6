"""An `eval` for text that a model wrote: literals, arithmetic, and SymPy's elementary functions of them."""

from __future__ import annotations

import ast
from typing import Any

_NODES = (
    ast.Expression,
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.Dict,
    ast.BinOp,
    ast.UnaryOp,
    ast.operator,
    ast.unaryop,
    ast.Name,
    ast.Call,
    ast.expr_context,
)
# what sympy.parse_expr makes of numbers and names, and the functions that answers are written in
_CALLS = {
    "Integer",
    "Float",
    "Rational",
    "Symbol",
    "factorial",
    "sqrt",
    "exp",
    "log",
    "ln",
    "Abs",
    "Integral",
}
_CALLS |= {
    h + f + t for h in ("", "a") for f in ("sin", "cos", "tan", "cot", "sec", "csc") for t in ("", "h")
}


def restricted_eval(
    source: str, global_names: dict[str, Any] | None = None, local_names: dict[str, Any] | None = None
) -> Any:
    """As `eval`, for a text that holds nothing else.

    Raises:
        ValueError: anything else in the text: attributes, subscripts, comprehensions, lambdas, other calls,
            names that begin with an underscore.
        SyntaxError: no expression.
    """
    if not isinstance(source, str):
        raise ValueError("only text is evaluated")
    tree = ast.parse(source.strip(), mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise ValueError(f"{type(node).__name__} in {source!r:.80} is not evaluated")
        if isinstance(node, ast.Name) and node.id.startswith("_"):
            raise ValueError(f"the name {node.id!r} is not evaluated")
        if isinstance(node, ast.Call) and (not isinstance(node.func, ast.Name) or node.func.id not in _CALLS):
            raise ValueError(f"a call in {source!r:.80} is not evaluated")
    return eval(compile(tree, "<answer>", "eval"), {**(global_names or {}), "__builtins__": {}}, local_names)
