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


_TOOL_TAG = (
    r"<\|?(?!\w*(?:end|suffix|result|response|output|name))\w*(?:tool|func|action|plugin|python_)\w*(?:\s[^<>]*)?\|?>"
    r"|\[TOOL_CALLS?\]"
)
_MARK = re.compile(
    rf"{_TOOL_TAG}|<｜tool▁calls?▁begin｜>|<function=|<invoke\s|to=functions\.|\bcall:\w+\{{|```tool_(?:call|code)|✿FUNCTION✿",
    re.IGNORECASE,
)
"""What begins calls alone, so that a text with it which holds no call is broken."""
_TAGGED = re.compile(
    rf"(?:{_TOOL_TAG})(.*?)(?=<\|?/?\w*(?:tool|func|action|plugin)|<\|/?(?!\|)[a-z_]+\|>|\[/?TOOL_CALLS?\]|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_NAMESPACE = re.compile(r"(</?)(?:\w+:|｜\w+｜|longcat_(?=arg_))(?=\w)")
_UNREAD = re.compile(r"[A-Za-z_][\w.]*\(.*\)[.;]?", re.DOTALL)
_FENCE = re.compile(r"```[ \t]*([A-Za-z_]*)[ \t]*\n(.*?)(?:```(?![\"'\\\w])|\Z)", re.DOTALL)
_JSON_BEGINS = re.compile(r"(?:\[\s*){0,3}\{\s*[\"'}]")
_JSON_PART = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|[\[\]{}]", re.DOTALL)
_JSON = re.compile(r"\0(\d+)\0")
_NAMED = re.compile(
    r"(?:to=functions\.|functions\.|<function=|<[|｜]tool[^<>\0]{0,40}[|｜]>\s*(?:functions\.)?|\[TOOL_CALLS?\]"
    r"|^Action:[ \t]*|✿FUNCTION✿:[ \t]*)"
    r"([A-Za-z][\w.-]{0,99}+)(?::\d+)?"
    r"(?:\s++|(?:json|code|commentary|analysis)\b|<[|｜][^<>\0]{1,40}>|>|\[ARGS\]|\[CALL_ID\]\w+|```(?:json)?|Action Input:|✿ARGS✿:){0,9}+"
    r"\0(\d+)\0",
    re.MULTILINE,
)
"""A function's name and the JSON of its arguments, with whatever marks and white space stand between them."""
_VALUE = (
    r"<parameter(?:=|\s+name=)\"?([\w.-]+)\"?[^<>]*>\n?(.*?)\n?</parameter>"
    r"|<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>"
)
_XML = re.compile(
    rf"(?:<function=|<invoke name=|<\w*tool_call>)\s*\"?([\w.-]+)\"?\s*>?\s*((?:(?>{_VALUE})\s*)*+)(?=</|\Z)",
    re.DOTALL,
)
_XML_VALUE = re.compile(_VALUE, re.DOTALL)
_GEMMA = re.compile(r"\bcall:([\w.-]+)(\{.*?\})(?=\s{0,9}(?:<(?!escape|\|\")|call:|\Z))", re.DOTALL)
_GEMMA_QUOTE = re.compile(r'<escape>|<\|"\|>')
_GEMMA_NAME = re.compile(r"(?<=[{,])\s*([\w.-]+)\s*:")
_GEMMA_BARE_VALUE = re.compile(r"(?<=[{,])\s*([\w.-]+):(.*?)(?=,\s*[\w.-]+:|\}\Z)", re.DOTALL)


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
    text = re.sub(r"\bfunctools(?=\[)", "", text)  # which some models write before a list of calls
    if len(text) > LONGEST or "\0" in text:
        raise Broken("too long")
    return _Reader(text).calls()


_MOST_FAILED = 30
"""Braces of a text that begin no JSON; behind them none is looked for, because each takes all of the text."""


class _Reader:
    """Reads a text whose JSON, or Python's form of it, is put apart, so that no mark within a value counts."""

    def __init__(self, text: str) -> None:
        self.json: list[tuple[str, Any]] = []  # each value's text, and the value
        parts: list[str] = []
        position = failed = 0
        for begins in _JSON_BEGINS.finditer(text):
            if begins.start() < position or failed == _MOST_FAILED:
                continue
            try:
                value, end = _first_value(text, begins.start())
            except ValueError:
                failed += 1
                continue
            parts += [text[position : begins.start()], f"\0{len(self.json)}\0"]
            self.json.append((text[begins.start() : end], value))
            position = end
        self.text = "".join(parts) + text[position:]

    def calls(self) -> list[Call] | None:
        calls = self._marked()
        text = _REFUSED.sub("", self.text)
        for read in (self._fenced, self._bare, self._in_lines):
            calls = read(text) if calls is None else calls
        if calls is None and (_MARK.search(text) or _UNREAD.fullmatch(text)):
            raise Broken(text[:80])
        return calls

    def _with_json(self, text: str) -> str:
        return _JSON.sub(lambda match: self.json[int(match[1])][0], text)

    def _marked(self) -> list[Call] | None:
        """The calls between tags."""
        if named := _NAMED.findall(self.text):
            return [Call(name, (), _arguments(self.json[int(number)][1])) for name, number in named]
        if gemma := _GEMMA.findall(self._with_json(self.text)):
            return [Call(name, (), _gemma_arguments(content)) for name, content in gemma]
        if functions := _XML.findall(self.text):
            return [Call(name, (), self._xml_arguments(content)) for name, content, *_ in functions]
        calls: list[Call] = []
        found = [tagged[1].strip().strip(";").lstrip(">") for tagged in _TAGGED.finditer(self.text)]
        for content in filter(None, found):
            bare = self._fenced(content) or self._bare(content)
            if bare is None:
                raise Broken(content[:80])
            calls += bare
        return calls if any(found) else None

    def _xml_arguments(self, content: str) -> dict[str, Any]:
        values = _XML_VALUE.findall(content)
        return {(a or c).strip(): Untyped(self._with_json(b or d)) for a, b, c, d in values}

    def _fenced(self, text: str) -> list[Call] | None:
        """The calls in the text's fences, of which each must hold calls alone."""
        calls: list[Call] = []
        fences = _FENCE.findall(text)
        for language, content in fences:
            bare = self._bare(content)
            if bare is None and language in ("json", "tool_call", "tool_code"):
                raise Broken(content[:80])
            if bare is None:
                return None
            calls += bare
        return calls if fences else None

    def _bare(self, text: str) -> list[Call] | None:
        """The calls of a text that holds nothing else, or begins with JSON."""
        text = text.strip().strip("`*;.").strip()
        if not text:
            return None
        if _ONLY_JSON.fullmatch(text):
            return [call for n in _JSON.findall(text) for call in _from_json(self.json[int(n)][1])]
        if named := _NAMED_ALONE.fullmatch(text):
            return [Call(named[1], (), _arguments(self.json[int(named[2])][1]))]
        plain = self._with_json(text)
        if not _IS_JSON.match(plain):
            return _from_python(plain)
        if "\n" in text:
            return self._in_lines(text)
        return _from_json(_value(plain))

    def _in_lines(self, text: str) -> list[Call] | None:
        """The calls that stand alone on lines of prose, perhaps behind the mark of a list's item or a colon.

        Raises:
            Broken: a line of JSON that describes none.
        """
        lines = text.split("\n")
        return [call for line in lines for call in self._bare(_BEFORE_CALL.sub("", line)) or ()] or None


def _gemma_arguments(content: str) -> dict[str, Any]:
    """Arguments whose names have no quotes; neither have texts without the special tokens around them."""
    parts = _GEMMA_QUOTE.split(content)
    quoted = [json.dumps(p) if i % 2 else _GEMMA_NAME.sub(r'"\1":', p) for i, p in enumerate(parts)]
    try:
        values = _arguments(_value("".join(quoted)))
    except Broken:
        values = dict(_GEMMA_BARE_VALUE.findall(content))
    return {name: Untyped(value) if isinstance(value, str) else value for name, value in values.items()}


_NAMED_ALONE = re.compile(r"(?:>>>)?([A-Za-z][\w.-]*)(?:\s*\n\s*)?\0(\d+)\0")
_ONLY_JSON = re.compile(r"(?:\0\d+\0[\s;,]*)+")
_IS_JSON = re.compile(r"\{|\[\s*\{")
_DENIAL = r"(?:\b(?:not|never|cannot|avoid|instead\sof|without)\b|n't\b)"
_REFUSED = re.compile(
    rf"^[^\[({{\"=\n\0]*{_DENIAL}(?:(?!\b(?:but|so)\b)[^.:\[({{\"=\n\0]){{0,200}}:"
    r"(?:[ \t]*\S.*|\s*```(?:.|\n)*?(?:```|\Z)|(?:\s*^[-*\d].*)+|\s*^.*)",
    re.MULTILINE | re.IGNORECASE,
)
_BEFORE_CALL = re.compile(r"\A\s*(?:[-*]|\d+\.)\s+|\A[^\[({\0]*[:!.]\s+(?=[\[{\0])")


def _first_value(text: str, begin: int) -> tuple[Any, int]:
    """The value of a JSON text, or of a Python literal, that begins there, and its end.

    Raises:
        ValueError: none begins there.
    """
    with contextlib.suppress(ValueError, RecursionError):
        return _DECODER.raw_decode(text, begin)
    depth = 0
    for part in _JSON_PART.finditer(text, begin):
        depth += (part[0] in "[{") - (part[0] in "]}")
        if depth == 0:
            return _value(text[begin : part.end()]), part.end()
    raise ValueError("no end")


_DECODER = json.JSONDecoder(strict=False)


def _value(text: str) -> Any:
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
        value = _value(value) if value.strip() else {}
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Broken(repr(value)[:80])
    return {str(name): item for name, item in value.items()}


def _from_python(text: str) -> list[Call] | None:
    """The calls of `[f(a=1), g.h("x")]`, with or without brackets, or of statements; None for other text.

    Names may have white space in them, as many of ToolACE's have, or hyphens, or be words of Python's own.
    """
    for source in (text, _ODD_NAME.sub(_as_name, text)):
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


_AS_LETTERS = str.maketrans({" ": "\u02d1", "-": "\u02d0"})
_END = "\u02cf"
"""Letters for Python, and for nobody else: they stand for a space, a hyphen, and the end of such a name."""
_ODD_NAME = re.compile(
    r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'"
    r"|(?<![\w-])(?<!\.\s)(?P<name>[A-Za-z]\w*+(?:[ -]\w++){1,9}(?=\()|[A-Za-z][\w-]*+(?=\s*=(?!=)))",
    re.DOTALL,
)
"""A text, or a name before a parenthesis or an equals sign."""


def _as_name(match: re.Match[str]) -> str:
    if not match["name"] or re.search(_DENIAL, match["name"], re.IGNORECASE):
        return match[0]
    return match["name"].translate(_AS_LETTERS) + _END


def _plain_name(name: str) -> str:
    return name.replace("\u02d1", " ").replace("\u02d0", "-").removesuffix(_END)


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
        return f"{_name(node.value)}.{_plain_name(node.attr)}"
    if isinstance(node, ast.Name):
        return _plain_name(node.id)
    raise ValueError("no name of a function")
