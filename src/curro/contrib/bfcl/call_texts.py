# ruff: noqa: E501, RUF001, RUF002  (a table; DeepSeek's marks have full-width bars)
"""Function calls in the forms that models write them.

| form | written by |
|---|---|
| `[f(a=1), g()]`, `f(a=1)`, in a fence or not | BFCL's prompts, Gemma, Llama 4 |
| `{"name": "f", "arguments": {"a": 1}}`, a list of these, one a line, in a fence or not | Llama, xLAM, ToolACE |
| either in a tag whose name has tool, function, action or plugin in it, after `<|python_tag|>` or `[TOOL_CALLS]` | Qwen, Hermes, Phi, Granite, Mistral |
| `{"tool_calls": [{"function": {"name": "f", "arguments": "{...}"}}]}` | OpenAI |
| `<function=f><parameter=a>1</parameter></function>`, `<function=f>{"a": 1}</function>` | Qwen3-Coder, Llama 3.1 |
| `to=functions.f ...<|message|>{"a": 1}` in gpt-oss's commentary channel | gpt-oss |
| `f <arg_key>a</arg_key><arg_value>1</arg_value>` in `<tool_call>` | GLM |
| `<｜tool▁sep｜>f` and a fence of JSON, `f<｜tool▁sep｜>{...}` | DeepSeek |
| `functions.f:0<|tool_call_argument_begin|>{...}` | Kimi |
| `call:f{a:1,b:<escape>text<escape>}` | FunctionGemma, Gemma 4 |

The forms are also read as TRL decodes them, without special tokens.

Nothing is evaluated: Python and JSON are parsed, and only literals are values.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from curro.reward.answers import in_answer_tags, outside_thoughts, without_end_tokens
from curro.reward.literals import value_of

LONGEST = 20_000
"""Characters of a text that is read."""


@dataclass(frozen=True)
class Call:
    """A call of a function.

    Attributes:
        name: with its dots.
        positional: the values of arguments without a name.
        named: the values of named arguments.
    """

    name: str
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)


class Untyped(str):
    """A value written as bare text, as between XML tags: "5" may be a text or a number."""


class Broken(ValueError):
    """A text that begins a call which cannot be read."""


_OPENING = (
    r"<\|?(?!\w*(?:end|suffix|result|response|output|name))\w*(?:tool|func|action|plugin|python_)\w*(?:\s[^<>]*)?\|?>"
    r"|\[TOOL_CALLS?\]|functools(?=\[)"
)
_MARK = re.compile(
    rf"{_OPENING}|<｜tool▁calls?▁begin｜>|<function=|<invoke\s|to=functions\.|\bcall:\w+\{{|```tool_(?:call|code)|✿FUNCTION✿",
    re.IGNORECASE,
)
_TAGGED = re.compile(
    rf"(?:{_OPENING})(.*?)(?=<\|?/?\w*(?:tool|func|action|plugin)|<\|/?(?!\|)[a-z_]+\|>|\[/?TOOL_CALLS?\]|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_JSON_BEGINS = re.compile(rf"(?:{_OPENING}|<function=[\w.-]+>)\s*(?:[\w.-]+\s*)?(?=[\[{{])", re.IGNORECASE)
_NAMESPACE = re.compile(r"(</?)(?:\w+:|｜\w+｜|longcat_(?=arg_))(?=\w)")
_UNREAD = re.compile(r"[A-Za-z_][\w.]*\(.*\)[.;]?", re.DOTALL)
_FENCE = re.compile(r"```[ \t]*([A-Za-z_]*)[ \t]*\n(.*?)(?:```(?![\"'\\\w])|\Z)", re.DOTALL)
_XML = re.compile(
    r"<(?:function=|invoke name=\"?)\s*\"?([\w.-]+)\"?\s*>(.*?)(?:</(?:function|invoke)>|\Z)", re.DOTALL
)
_XML_VALUE = re.compile(r"<parameter(?:=|\s+name=)\"?([\w.-]+)\"?[^<>]*>\n?(.*?)\n?</parameter>", re.DOTALL)
_CHANNEL = re.compile(
    r"to=functions\.([\w.-]+)[^{]{0,200}?(?:<\|message\|>|(?=\{))(.*?)"
    r"(?:<\|(?:call|end|start)\|>|assistant(?:analysis|commentary|final)|\Z)",
    re.DOTALL,
)
_DEEPSEEK = re.compile(
    r"<｜tool▁sep｜>([\w.-]+)\s*(?:```(?:json)?\s*)?(\{.*?\})\s*(?:```)?\s*<｜tool▁call▁end｜>", re.DOTALL
)
_NAME_BEFORE_SIGN = re.compile(
    r"(?:<｜tool▁call▁begin｜>([\w.-]+)<｜tool▁sep｜>"
    r"|(?:functions\.|<\|tool_call_begin\|>\s{0,9}(?:functions\.)?)([\w.-]{1,200}):\d+\s*(?:<\|tool_call_argument_begin\|>)?)"
    r"\s*(\{.*?\})\s*(?:<[｜|]tool[▁_]call[▁_]end[｜|]>|(?=functions\.)|\Z)",
    re.DOTALL,
)
_GEMMA = re.compile(r"\bcall:([\w.-]+)(\{.*?\})(?=\s{0,9}(?:<(?!escape|\|\")|call:|\Z))", re.DOTALL)
_GEMMA_QUOTE = re.compile(r'<escape>|<\|"\|>')
_GEMMA_NAME = re.compile(r"(?<=[{,])\s*([\w.-]+)\s*:")
_GEMMA_BARE_VALUE = re.compile(r"(?<=[{,])\s*([\w.-]+):(.*?)(?=,\s*[\w.-]+:|\}\Z)", re.DOTALL)
_REACT = re.compile(
    r"^(?:Action|✿FUNCTION✿):[ \t]*([\w.-]+)[ \t]*\n(?:Action Input|✿ARGS✿):\s*(\{.*?\})[ \t]*(?=\n\w+:|\n✿|\s*\Z)",
    re.DOTALL | re.MULTILINE,
)
_GLM_VALUE = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_NAME_BEFORE_JSON = re.compile(
    r"(?:>>>)?([A-Za-z][\w.-]*)\s*(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(\{.*)\Z", re.DOTALL
)


def parse_calls(text: str) -> list[Call] | None:
    """The calls of a completion, possibly none (`[]`); None for prose and for a call that cannot be read.

    Calls in tags or fences may have prose around them, and so may bare calls on lines of their own. What
    stands behind "do not call:" is no call, unless it is in tags.
    """
    try:
        return read_calls(text)
    except Broken:
        return None


def read_calls(text: str) -> list[Call] | None:
    """As `parse_calls`, but a call that cannot be read is an error.

    Raises:
        Broken: tags or a call's JSON in which no call can be read.
    """
    text = text if "to=functions." in text else outside_thoughts(text)
    text = _NAMESPACE.sub(r"\1", without_end_tokens(in_answer_tags(text) or text)).strip()
    if len(text) > LONGEST:
        raise Broken("too long")
    text = _without_tags_in_json(text)
    for read in (_marked, _fenced, _bare, _in_lines):
        text = text if read is _marked else _REFUSED.sub("", text)
        calls = read(text)
        if calls is not None:
            return calls
    if _MARK.search(text) or _UNREAD.fullmatch(text):
        raise Broken(text[:80])
    return None


def _without_tags_in_json(text: str) -> str:
    """The text with another form of < within the JSON behind a tag: a text there may hold `</tool_call>`."""
    parts, position = [], 0
    for begins in _JSON_BEGINS.finditer(text):
        if begins.start() >= position:
            with contextlib.suppress(ValueError, RecursionError):
                _, end = json.JSONDecoder().raw_decode(text, begins.end())
                parts += [text[position : begins.end()], text[begins.end() : end].replace("<", r"\u003c")]
                position = end
    return "".join(parts) + text[position:]


def _marked(text: str) -> list[Call] | None:
    """The calls between tags."""
    pairs = [*_CHANNEL.findall(text), *_DEEPSEEK.findall(text), *_REACT.findall(text)]
    pairs += [(name or other, content) for name, other, content in _NAME_BEFORE_SIGN.findall(text)]
    if pairs:
        return [Call(name, (), _arguments(_json(content))) for name, content in pairs]
    if gemma := _GEMMA.findall(text):
        return [Call(name, (), _gemma_arguments(content)) for name, content in gemma]
    functions = _XML.findall(text)
    if functions:
        return [Call(name, (), _xml_arguments(content)) for name, content in functions]
    calls: list[Call] = []
    found = [tagged[1].strip().strip(";").lstrip(">") for tagged in _TAGGED.finditer(text)]
    for content in filter(None, found):
        if "<arg_key>" in content or re.fullmatch(r"[\w.-]+", content):
            values = {key.strip(): Untyped(value) for key, value in _GLM_VALUE.findall(content)}
            calls.append(Call(content.partition("<arg_key>")[0].strip(), (), values))
            continue
        bare = _named(content) or _fenced(content) or _bare(content)
        if bare is None:
            raise Broken(content[:80])
        calls += bare
    return calls if any(found) else None


def _named(text: str) -> list[Call] | None:
    """The call of a text that is a function's name and the JSON of its arguments."""
    named = _NAME_BEFORE_JSON.match(text)
    return [Call(named[1], (), _arguments(_json(named[2])))] if named else None


def _gemma_arguments(content: str) -> dict[str, Any]:
    """Arguments whose names have no quotes; neither have texts without the special tokens around them."""
    parts = _GEMMA_QUOTE.split(content)
    quoted = [json.dumps(p) if i % 2 else _GEMMA_NAME.sub(r'"\1":', p) for i, p in enumerate(parts)]
    try:
        values = _arguments(_json("".join(quoted)))
    except Broken:
        values = dict(_GEMMA_BARE_VALUE.findall(content))
    return {name: Untyped(value) if isinstance(value, str) else value for name, value in values.items()}


def _xml_arguments(content: str) -> dict[str, Any]:
    if content.lstrip().startswith("{"):
        return _arguments(_json(content))
    return {name: Untyped(value) for name, value in _XML_VALUE.findall(content)}


def _fenced(text: str) -> list[Call] | None:
    """The calls in the text's fences, of which each must hold calls alone."""
    calls: list[Call] = []
    fences = _FENCE.findall(text)
    for language, content in fences:
        bare = _bare(content.strip())
        if bare is None and language in ("json", "tool_call", "tool_code"):
            raise Broken(content[:80])
        if bare is None:
            return None
        calls += bare
    return calls if fences else None


def _bare(text: str) -> list[Call] | None:
    """The calls of a text that holds nothing else, or begins with JSON."""
    text = text.strip().strip("`*;.").strip()
    if not text:
        return None
    if not _IS_JSON.match(text):
        return _named(text) if _IS_NAMED.match(text) else _from_python(text)
    try:
        return _from_json(_json(text))
    except Broken:
        if _LINE_END.search(text) is None:
            raise
        return _in_lines(text)


_IS_JSON = re.compile(r"\{|\[\s*\{")
_IS_NAMED = re.compile(r"[^\n{(]*\n\{|[\w.-]+\{\s*[\"}].*\Z(?<=\})", re.DOTALL)
_LINE_END = re.compile(r"\n|(?<=\})\s*[;,]?\s*(?=\{)")
_DENIAL = r"(?:\b(?:not|never|cannot|avoid|instead\sof|without)\b|n't\b)"
_REFUSED = re.compile(
    rf"^[^\[({{\"=\n]*{_DENIAL}(?:(?!\b(?:but|so)\b)[^.:\[({{\"=\n]){{0,200}}:"
    r"(?:[ \t]*\S.*|\s*```(?:.|\n)*?(?:```|\Z)|(?:\s*^[-*\d].*)+|\s*^.*)",
    re.MULTILINE | re.IGNORECASE,
)
_BEFORE_CALL = re.compile(r"\A\s*(?:[-*]|\d+\.)\s+|\A[^\[({]*[:!.]\s+(?=[\[{])")


def _in_lines(text: str) -> list[Call] | None:
    """The calls that stand alone on lines of prose, perhaps behind the mark of a list's item or a colon.

    Raises:
        Broken: a line of JSON that describes none.
    """
    lines = _LINE_END.split(text)
    return [call for line in lines for call in _bare(_BEFORE_CALL.sub("", line)) or ()] or None


def _json(text: str) -> Any:
    """The value of a JSON text, or of a Python literal, as some models write."""
    try:
        return value_of(text)
    except ValueError as error:
        raise Broken(str(error)) from None


_NAME = re.compile(r"(?:(?:tool|function|api|action)_?)?name|function|tool|action|api|method")
_ARGUMENTS = re.compile(
    r"(?:(?:tool|function|api|action)_?)?(?:arguments?|args|param(?:eter)?s?|kwargs|input)"
)

_FACTS = {"type", "id", "call_id", "tool_call_id", "index", "description", "thought", "thoughts", "reasoning"}
"""What stands beside a call's name and is no argument."""


def _from_json(value: Any) -> list[Call]:
    """The calls that a JSON value describes.

    Raises:
        Broken: it describes none.
    """
    if isinstance(value, list):
        return [call for item in value for call in _from_json(item)]
    if not isinstance(value, Mapping):
        raise Broken(repr(value)[:80])
    if isinstance(value.get("tool_calls"), list):
        return _from_json(value["tool_calls"])
    for wrapper in ("function", "function_call", "tool_call", "tool_use"):
        if isinstance(value.get(wrapper), Mapping):
            return _from_json(value[wrapper])
    names = [item for key, item in value.items() if isinstance(item, str) and _NAME.fullmatch(key)]
    if names:
        arguments = [item for key, item in value.items() if _ARGUMENTS.fullmatch(key)]
        beside = {key: item for key, item in value.items() if not _NAME.fullmatch(key) and key not in _FACTS}
        return [Call(names[0], (), _arguments(arguments[0] if arguments else beside))]
    if len(value) == 1 and isinstance(next(iter(value.values())), Mapping):  # {"f": {"a": 1}}
        ((name, arguments),) = value.items()
        return [Call(str(name), (), dict(arguments))]
    raise Broken(repr(value)[:80])


def _arguments(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        value = _json(value) if value.strip() else {}
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Broken(repr(value)[:80])
    return {str(name): item for name, item in value.items()}


def _from_python(text: str) -> list[Call] | None:
    """The calls of `[f(a=1), g.h("x")]`, with or without brackets, or of statements; None for other text.

    Names may have white space in them, as many of ToolACE's have, or hyphens, or be words of Python's own.
    """
    for source in (
        text,
        _SPACED_NAME.sub(lambda m: m[0].replace(" ", _SPACE), text),
        _ODD_NAME.sub(_as_name, text),
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python warns of odd escapes in the model's strings
                statements = _Constants().visit(ast.parse(source)).body
                calls = [_call(item) for statement in statements for item in _values(statement)]
                return calls if calls or text.startswith("[") else None
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
            continue
    return None


def _values(statement: ast.stmt) -> list[ast.expr]:
    """What a statement calls: `f()`, `x = f()`, `await f()`, `[f(), g()]`, `print(f())`; not `print(x)`."""
    if not isinstance(statement, ast.Expr | ast.Assign):
        raise ValueError("no call")
    value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "print":
        return [item for item in value.args if not isinstance(item, ast.Name)]
    return value.elts if isinstance(value, ast.List | ast.Tuple) else [value]


_SPACE = "\u02d1"  # a letter for Python, and for nobody else
_SPACED_NAME = re.compile(
    rf"(?:(?<=\A\[)|(?<=\), )|\A)(?![^(]*{_DENIAL})[A-Za-z]\w*(?: \w+){{1,9}}(?=\()", re.I
)
_HYPHEN, _END = "\u02d0", "\u02cf"
_ODD_NAME = re.compile(
    r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'"
    r"|(?<![\w-])(?P<name>[A-Za-z]\w*(?:-\w+)+(?=\()|[A-Za-z][\w-]*(?=\s*=(?!=)))",
    re.DOTALL,
)
"""A text, or a name before a parenthesis or an equals sign."""


def _as_name(match: re.Match[str]) -> str:
    return match["name"].replace("-", _HYPHEN) + _END if match["name"] else match[0]


def _plain_name(name: str) -> str:
    return name.replace(_SPACE, " ").replace(_HYPHEN, "-").replace(_END, "")


_JSON_CONSTANTS = {"true": True, "false": False, "null": None}


def _call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call):
        raise ValueError("no call")
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        value = ast.literal_eval(keyword.value)
        is_unpacked = keyword.arg is None  # f(**{"a": 1})
        items = _arguments(value) if is_unpacked else {_plain_name(cast(str, keyword.arg)): value}
        if items.keys() & named.keys():
            raise ValueError("one name twice")
        named |= items
    if len(node.args) == 1 and isinstance(node.args[0], ast.Dict) and not named:  # JavaScript's
        return Call(_name(node.func), (), _arguments(ast.literal_eval(node.args[0])))
    return Call(_name(node.func), tuple(ast.literal_eval(value) for value in node.args), named)


class _Constants(ast.NodeTransformer):
    """Puts Python's constants for JSON's, which some models write in Python's calls."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_JSON_CONSTANTS[node.id]) if node.id in _JSON_CONSTANTS else node


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return _plain_name(node.id)
    raise ValueError("no name of a function")
