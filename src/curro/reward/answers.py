r"""Where a completion's answer stands: one order for `math`, `exact`, `reasoning-gym` and multiple choice.

Only text outside of thoughts is read, and a completion that ends inside a thought has no answer. In that text
the first of these that is there decides:

1. the last `<answer>...</answer>`; its content is read by the rules that follow, or taken whole;
2. the last `\boxed{...}` or `\fbox{...}`; boxes with only "and", "or" or a comma between them are one list;
3. the line after the last `####` that is not a heading;
4. what follows the last "answer is", "answer:" or a heading "Answer";
5. the last formula or number (`math`), or the whole text (`exact`).

All functions take time linear in the text, because a model wrote it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from curro.core.identity import as_written, plain_value
from curro.data.raw import Row
from curro.reward.literals import read
from curro.reward.reward import Unscored, last_message

TAIL = 20_000
"""Characters at the end of a text in which an answer is looked for."""

_NAMES = (
    r"think|thinking|thoughts?|reasoning|reason|reflection|scratchpad|analysis|seed:think|working_out"
    r"|internal_monologue"
)
_OPENING = (
    rf"<\s*(?:{_NAMES})\s*>|<start_working_out>|<\|(?:begin_of_thought|START_THINKING|inner_prefix)\|>"
    r"|\[THINK\]|◁think▷|<unused94>|<\|channel>\s*thought\b"
)
_CLOSING = (
    rf"<\s*/\s*(?:{_NAMES})\s*>|<end_working_out>|<\|(?:end_of_thought|END_THINKING|inner_suffix)\|>"
    r"|\[/THINK\]|◁/think▷|<unused95>|<channel\|>"
)
_THOUGHT_TAG = re.compile(rf"(?P<opening>{_OPENING})|{_CLOSING}", re.IGNORECASE)
_ENDS_OPENED = re.compile(rf"(?:{_OPENING})\s*\Z", re.IGNORECASE)
_FINAL_CHANNEL = re.compile(r"<\|channel\|>\s*final\b[^<]{0,40}(?:<\|constrain\|>[^<]{0,40})?<\|message\|>")
_END_TOKENS = re.compile(r"(?:<\|(?!\w*tool|end_of_(?:box|solution)\|)\w{1,40}\|>|<end_of_turn>|</s>|\s)+\Z")


def outside_thoughts(text: str, *, opened: bool = False) -> str:
    """The text that is not a thought; empty if the text ends inside one.

    Thoughts stand between `<think>`, `<thinking>`, `<reasoning>`, `[THINK]` and the like, and in every
    channel of gpt-oss but the final one. A closing tag without an opening one ends a thought that the prompt
    opened.

    Args:
        opened: whether the text begins inside a thought.
    """
    text = _final_channel(text)
    depth, start, pieces = int(opened), 0, []
    for tag in _THOUGHT_TAG.finditer(text):
        if tag["opening"]:
            if depth == 0:
                pieces.append(text[start : tag.start()])
            # a tag written twice in a row, such as one after the prompt's own, opens one thought
            depth = max(depth, 1) if not text[start : tag.start()].strip() and depth else depth + 1
        elif depth:
            depth -= 1
        else:
            pieces.clear()
        start = tag.end()
    return "" if depth else "\n".join([*pieces, text[start:]])


def _final_channel(text: str) -> str:
    """What gpt-oss says in its final channel; texts without channels are unchanged."""
    if "<|channel|>" in text:
        finals = list(_FINAL_CHANNEL.finditer(text))
        return (
            ""
            if not finals
            else re.split(r"<\|(?:end|return|start)\|>", text[finals[-1].end() :], maxsplit=1)[0]
        )
    if re.match(r"analysis(?=[A-Z])", text):  # decoded without its special tokens
        return text.rpartition("assistantfinal")[2] if "assistantfinal" in text else ""
    return text


def begins_in_thought(row: Row) -> bool:
    """Whether the row's prompt ends with the opening tag of a thought."""
    return _ENDS_OPENED.search(last_message(row)[-100:]) is not None


def spoken(text: str, row: Row, *, opened: bool = False) -> str:
    """The last 20,000 characters of a completion outside of thoughts, without tokens that end a sequence."""
    return without_end_tokens(outside_thoughts(text, opened=opened or begins_in_thought(row))[-TAIL:])


def without_end_tokens(text: str) -> str:
    """The text without tokens that end a sequence, if it ends in one."""
    tail = text[-1000:]
    return text[:-1000] + _END_TOKENS.sub("", tail) if tail.rstrip().endswith(">") else text


_TAG = re.compile(
    r"<(?P<slash>/?)\s*(?:answer|final[_ ]answer|ans|solution|result)\s*(?:>|\Z)"
    r"|<\|(?P<mark>begin|end)_of_(?:solution|box)\|>",
    re.IGNORECASE,
)


def in_answer_tags(text: str) -> str | None:
    """What stands in the last complete `<answer>...</answer>`, stripped.

    Without a complete one, what follows an `<answer>`: generation may stop at the closing tag.
    """
    begin, content = None, None
    for tag in _TAG.finditer(text[-TAIL:]):
        if not tag["slash"] and tag["mark"] != "end":
            begin = tag.end()
        elif begin is not None:
            content, begin = text[-TAIL:][begin : tag.start()], None
    if content is None and begin is not None:
        content = text[-TAIL:][begin:]
    return None if content is None else content.strip()


_BRACES = re.compile(
    r"(?:\\(?:[Bb]oxed|f(?:rame)?box)|(?<![\\\w])boxed(?=\{))\s*(?:\{|(?P<bare>[A-Za-z0-9](?![A-Za-z0-9])|\d+))|\\.|[{}]",
    re.DOTALL,
)
_JOINT = re.compile(r"[\s$,;.]*(?:\\[()\[\],; ]|\\text\s*\{\s*(?:and|or)\s*\}|\band\b|\bor\b|[\s$,;.])*\Z")
_LONGEST_JOINT = 40


def last_boxed(text: str) -> str | None:
    r"""What the last complete `\boxed{...}` (or `\fbox`) in the last 20,000 characters holds, stripped.

    Several boxes with only "and", "or", commas or dollars between them are joined by commas. If there is none
    but one that the end of the text cuts, it is "": 4 may be the beginning of 42.
    """
    text = text[-TAIL:]
    opened: list[tuple[int, int] | None] = []  # begin of a box and of its content; None for a brace of no box
    boxes: list[tuple[int, int, str]] = []  # begin and end of each box that is complete, and its content
    for token in _BRACES.finditer(text):
        if token["bare"]:
            boxes.append((token.start(), token.end(), token["bare"]))
        elif token[0] == "{":
            opened.append(None)
        elif token[0] != "}":
            if token[0].endswith("{") and len(token[0]) > 2:
                opened.append((token.start(), token.end()))
        elif opened:
            box = opened.pop()
            if box is not None and not (boxes and boxes[-1][0] > box[0]):  # a box around a box counts once
                boxes.append((box[0], token.end(), text[box[1] : token.start()].strip()))
    if not boxes:
        is_cut = any(box is not None and "\n" not in text[box[1] :] for box in opened)
        return "" if is_cut else None
    begin, _, content = boxes[-1]
    contents = [content]
    for earlier, end, content in reversed(boxes[:-1]):
        between = text[end:begin]
        if len(between) > _LONGEST_JOINT or not _JOINT.match(between):
            break
        if content not in contents:
            contents.append(content)
        begin = earlier
    return ", ".join(reversed(contents))


_HEADING = re.compile(r"\**(?:[A-Za-z]{2,}|\d+[.):]\s*\**[A-Za-z]|[^\n]*:\**\s*\Z)")


def after_hashes(text: str) -> str | None:
    """The line after the last `####` that is not a heading, as GSM8K ends its answers, stripped.

    A line of words with more text after it is a heading of Markdown.
    """
    before, is_last = text[-TAIL:], True
    while "####" in before:
        before, _, tail = before.rpartition("####")
        before = before.rstrip("#")
        line, _, rest = tail.strip().partition("\n")
        if (is_last and not rest.strip()) or not _HEADING.match(line):
            return line.strip()
        is_last = False
    return None


_SAYS = re.compile(
    r"(?:(?<![A-Za-z])answer\b[*\"]*(?:\s*\([^()\n]{0,20}\))?(?:(?:(?!\bnot\b|cannot|n't|\b(?:since|because)\b)[^\n.:=?]){0,60}?\b(?:is|are|be|equals)\b(?!n't|\s+not\b)|\s*\**\s*[:=→]|\s-\s)"
    r"|(?:\A|\n)[ \t#*]*(?:the\s)?(?:final\s)?answer[ \t*]*(?=\n)"
    r"|答案(?:是|为|[:\uff1a])|答え(?:は|[:\uff1a])"
    r"|\b(?:r[ée]ponse|antwort|respuesta|resposta|risposta|ответ|답)(?:\s?\**[:\uff1a]|[^\n.:]{0,40}?(?<!\sno)(?<!\snão)\s(?:est|ist|es|é|è)\b(?!\s(?:pas|nicht|no)\b)))"
    r"[\s:*}]*",
    re.IGNORECASE,
)
HEDGE = (
    r"\W{0,9}(?i:(?:(?:or|but|no|wait|hmm|well|actually|it|that)\W{1,9}){0,4}"
    r"\b(?:or|maybe|perhaps|possibly|(?:might|could|may)\s(?:also\s)?be)\W{1,9}"
    r"(?:(?:it|is|be|also|even|rather|instead|the|option|choice|answer)\W{1,9}){0,4})"
    r"(?:[B-J]|A(?!\s+[a-z])|[$\\]?-?\d+)\b"
)
"""Words after an answer that take it back: "Or is it C?", "Wait, maybe 43", "but it might be C"."""
_SENTENCE_END = re.compile(rf"(?:[.!。]\**(?:\s|\Z)|\n)(?!{HEDGE})|,?\s(?:and not|not|rather than)\s")


_MOST_SAID = 100
"""How many answers of a text that says "answer is" a thousand times are read."""


def said(text: str) -> Iterator[str]:
    """What follows each "answer is" or "answer:", the last one first, to the end of the line or sentence."""
    text = text[-TAIL:]
    for match in reversed(list(_SAYS.finditer(text))[-_MOST_SAID:]):
        tail = text[match.end() :]
        for begin, end in (("$$", "$$"), (r"\[", r"\]")):
            if tail.startswith(begin) and end in tail[2:]:
                tail = tail[2 : tail.index(end, 2)].replace("\n", " ")
        quoted = re.match(r'"([^"\n]+)"', tail)
        if quoted:
            tail = quoted[1]
        elif '"' in match[0]:  # a field of JSON
            tail = re.split(r',\s*"|\}\s*\Z', tail, maxsplit=1)[0]
        content = (
            _SENTENCE_END.split(tail, maxsplit=1)[0].strip(" *").removesuffix("です").removesuffix("입니다")
        )
        if content:
            yield content


def marked(text: str) -> str | None:
    """The answer that a text marks by answer tags, a box or hashes, else None.

    Args:
        text: outside of thoughts.
    """
    content = in_answer_tags(text)
    if content is not None:
        inner = marked(content) if content != text.strip() else None
        return content if inner is None else inner
    boxed = last_boxed(text)
    return after_hashes(text) if boxed is None else boxed


def candidates(text: str) -> Iterator[str]:
    """The texts that may be the answer, in the order of this module, without its last rule.

    Args:
        text: outside of thoughts.
    """
    content = in_answer_tags(text)
    if content is not None:
        if content != text.strip():
            yield from candidates(content)
        yield content
        return
    for find in (last_boxed, after_hashes):
        found = find(text)
        if found is not None:
            yield found
        if found == "" and find is last_boxed and not text.rstrip(" $.*)\\").endswith("}"):
            return
    yield from said(text)


_NONE = """
nan|<na>|n/a|n / a|na|n.a|nat|none|null|nil|[null]|proof|notfound|not found|unknown|missing|tbd|todo
|not available|not applicable|not provided|not specified|placeholder|unsolved|qed|q.e.d|proved|proven|as shown
|略|证明略|无|无答案|见解析|
"""
_ELSEWHERE = re.compile(
    r"(?:see|refer to) (?:the )?(?:solution|proof|explanation|above|below|figure|diagram|text|image)\b.{0,40}"
    r"|(?:the )?(?:answer|solution|proof) (?:is )?(?:(?:not )?(?:provided|given|available|found|shown)"
    r"|omitted)(?: (?:above|below))?|omitted|proof by \w+"
    r"|no (?:final )?answer(?: (?:provided|given|available|found))?"
    r"|#(?:n/a|value!|ref!|div/0!|name\?|num!|null!)|[\[<](?:image|figure|img)[\]>]"
    r"|answers? (?:may|will|can) vary|varies"
)
_BLANK = re.compile(r"(?:\\[()\[\]]|\\q?quad|\\(?:black)?square|~|[\s\[\](){}\"'?.#*_$\u2026\u200b-])*")
PLACEHOLDERS = frozenset(_NONE.replace("\n", "").split("|"))
"""Texts that data sets write where they have no answer."""


def accepted(row: Row) -> list[str]:
    """The answers of a row, of which a completion needs one; empty if it has none.

    A list of texts, or the JSON or Python text of one, holds several. Placeholders such as "", "N/A", NaN or
    NuminaMath's "proof" do not count, because a completion that says nothing would equal them.
    """
    answer = plain_value(row["answer"])
    if isinstance(answer, str) and answer.lstrip().startswith("["):
        items = _inner(read(answer))
        answer = items if isinstance(items, list) and items and _are_texts(items) else answer
    answer = _inner(answer)
    if isinstance(answer, list):
        texts = answer if _are_texts(answer) else [json.dumps(answer, default=str)]
    else:
        texts = [answer]
    texts = [as_written(text) for text in texts if text is not None]
    texts = [text if (content := marked(text)) is None else content for text in texts]
    return [text for text in texts if not is_placeholder(text)]


def _inner(answer: Any) -> Any:
    """The list of texts in a list that holds it alone, [["18"]]; anything else as it is."""
    is_nested = isinstance(answer, list) and len(answer) == 1 and isinstance(answer[0], list)
    return answer[0] if is_nested and _are_texts(answer[0]) else answer


def _are_texts(items: Iterable[Any]) -> bool:
    """Whether a list holds texts, beside which a number is the text of one."""
    return all(item is None or isinstance(item, str | int | float) for item in items) and (
        not items or any(item is None or isinstance(item, str) for item in items)
    )


_LONGEST_PLACEHOLDER = 200


def is_placeholder(answer: str) -> bool:
    """Whether a row's answer only says that there is none."""
    if len(answer) > _LONGEST_PLACEHOLDER:
        return False
    bare = (
        re.sub(r"\\(?:text|mathrm)\s*\{(.*)\}", r"\1", answer.strip().strip("$"))
        .replace("_", " ")
        .replace("—", "-")
    )
    text = " ".join(bare.split()).casefold().strip("().")
    is_blank = _BLANK.fullmatch(bare) is not None
    return is_blank or text in PLACEHOLDERS or _ELSEWHERE.fullmatch(text) is not None


def unanswered(row: Row) -> Unscored | None:
    """The verdict on every completion of a row without an answer."""
    answer = row["answer"]
    return None if answer is None else Unscored(f"the answer {str(answer)!r:.60} says that there is none")
