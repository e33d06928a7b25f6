# ruff: noqa: RUF001  (look-alikes of ASCII are what this module replaces)
r"""One notation for answers: Unicode as LaTeX, without wrappers, with marks in their usual forms."""

from __future__ import annotations

import html
import re
import unicodedata
from fractions import Fraction
from math import perm
from typing import Any

LONGEST = 1000
"""Characters of an answer that is read. A longer one is wrong."""


CURRENCIES = "\xa3\xa5\u0e3f\u20a0-\u20c0"
"""Signs of currencies but the dollar, for a set of a regular expression."""


def pairs(table: str) -> list[tuple[str, str]]:
    items = table.split()
    return list(zip(items[::2], items[1::2], strict=True))


Rules = list[tuple[re.Pattern[str], Any]]


def rules(*written: tuple[str, Any]) -> Rules:
    """Patterns, and what stands for them, as `rewritten` takes them."""
    return [(re.compile(pattern), form) for pattern, form in written]


def rewritten(text: str, rules: Rules) -> str:
    """The text after all rules, one after the other."""
    for pattern, form in rules:
        text = pattern.sub(form, text)
    return text


_SIGNS = r"""
− - ‐ - ‑ - ‒ - – - — - ﹣ - × \times ✕ \times · \cdot ⋅ \cdot ∙ \cdot ∗ * ÷ / ⁄ / ∕ / ± \pm ∓ \mp
≤ \le ≥ \ge ⩽ \le ⩾ \ge ≠ \ne ≈ \approx ≃ \approx ≅ \cong ≡ \equiv ∞ \infty ∪ \cup ∩ \cap ∈ \in ∉ \notin
∅ \emptyset ∖ \setminus ⊂ \subset ⊆ \subseteq ∧ \land ∨ \lor ° ^\circ º ^\circ ˚ ^\circ ′ ' ’ ' ‘ ' “ " ” "
ℝ \mathbb{R} ℤ \mathbb{Z} ℕ \mathbb{N} ℚ \mathbb{Q} ℂ \mathbb{C} → \to ∑ \sum ∫ \int ∠ \angle △ \triangle
⊥ \perp ⟨ \langle ⟩ \rangle ⌊ \lfloor ⌋ \rfloor ⌈ \lceil ⌉ \rceil ‖ \|
¬ \neg µ \mu ϕ \phi ϵ \epsilon α \alpha β \beta γ \gamma δ \delta ε \epsilon ζ \zeta
η \eta θ \theta ι \iota κ \kappa λ \lambda μ \mu ν \nu ξ \xi π \pi ρ \rho σ \sigma τ \tau υ \upsilon φ \phi
χ \chi ψ \psi ω \omega Γ \Gamma Δ \Delta Θ \Theta Λ \Lambda Ξ \Xi Π \Pi Σ \Sigma Φ \Phi Ψ \Psi Ω \Omega
"""
_AS_LATEX = {sign: latex + " " * latex[-1].isalpha() for sign, latex in pairs(_SIGNS)}
_AS_LATEX |= dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\xad\u2061\u2062\u2063\u2064", "")
_RAISED = re.compile(r"[⁰¹²³⁴-⁹⁺⁻⁽⁾ⁿⁱʰ-ʸˣᵃ-ᵗᵛᶜᶠᶻ]+")
_LOWERED = re.compile(r"[₀-₉₊₋₍₎ₐₑₒₓₕₖₗₘₙₚₛₜ]+")
_VULGAR = re.compile(r"[¼-¾⅐-⅞↉]|[⁰¹²³⁴-⁹]{1,9}[⁄/][₀-₉]{1,9}")
_ROOT = re.compile(
    r"([√∛∜])\s*(\((?:[^()]|\([^()]*\))*\)|\{[^{}]*\}|\d+(?:\.\d+)?|[A-Za-z]|\\frac\{\d+\}\{\d+\}|\\[a-z]+)"
)
_INDEX = {"√": "", "∛": "[3]", "∜": "[4]"}


def as_latex(text: str) -> str:
    """The text with LaTeX and ASCII for Unicode's mathematical characters."""
    if text.isascii():
        return text
    text = _CHINESE.sub(_chinese, text).translate({0x66B: ".", 0x66C: ",", 0xFF05: "%"})
    text = _VULGAR.sub(_fraction, text)
    text = _RAISED.sub(lambda m: "^{" + unicodedata.normalize("NFKC", m[0]).replace("−", "-") + "}", text)
    text = _LOWERED.sub(lambda m: "_{" + unicodedata.normalize("NFKC", m[0]).replace("−", "-") + "}", text)
    text = "".join(map(_character, text))
    for _ in range(_DEEPEST):
        text = _ROOT.sub(lambda m: rf"\sqrt{_INDEX[m[1]]}{{{_inside(m[2])}}}", text)
    return text


_NUMERAL = "([零〇一二两三四五六七八九十百千万]{1,40})"
_CHINESE = re.compile(f"(负?)(?:百分之{_NUMERAL}|{_NUMERAL}(?:分之{_NUMERAL})?)(?![一-龥])")


def _chinese(match: re.Match[str]) -> str:
    """A number in Chinese, alone or at the end of its words: 四十二, 五分之三, 百分之五十, 负三."""
    sign = "-" if match[1] else ""
    if match[2]:
        return f"{sign}{_chinese_value(match[2])}%"
    value = str(_chinese_value(match[3]))
    return sign + (rf"\frac{{{_chinese_value(match[4])}}}{{{value}}}" if match[4] else value)


def _chinese_value(text: str) -> int:
    total = group = digit = 0
    for sign in text:
        value = int(unicodedata.numeric(sign, 2))  # before Unicode 15 两 has no value
        if value < 10:
            digit = value
        elif value < 10_000:
            group, digit = group + (digit or 1) * value, 0
        else:
            total, group, digit = (total + group + digit) * value, 0, 0
    return total + group + digit


def _fraction(match: re.Match[str]) -> str:
    top, _, bottom = unicodedata.normalize("NFKC", match[0]).replace("/", "⁄").partition("⁄")
    return rf"\frac{{{top}}}{{{bottom}}}"


def _character(character: str) -> str:
    if character in _AS_LATEX:
        return _AS_LATEX[character]
    if character.isascii():
        return character
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    plain = unicodedata.normalize("NFKC", character)
    return "".join(_AS_LATEX.get(c, c) for c in plain) if plain != character else character


def _inside(text: str) -> str:
    return text[1:-1] if text[0] in "({" else text


def symbolic(text: str) -> str:
    """The text with signs for what stands in words or in other signs: "3 over 4", "2 squared", 5'6", &lt;.

    Long white space is cut: patterns take the cube of its length.
    """
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[^\S\n]{2,}", " ", text))
    return _PRODUCT.sub(_product, rewritten(text, _SYMBOLIC))


def _product(match: re.Match[str]) -> str:
    command = match["command"] or ""
    return command + "{}".join(match[0].removeprefix(command))


_NO_PRODUCTS = (
    "am|an|as|at|be|by|do|go|he|hi|if|in|is|it|me|my|no|of|oh|ok|on|or|so|to|up|us|vs|we|th|st|nd|rd"
    "|the|and|for|not|are|was|has|can|let|get|per|all|any|one|two|six|ten|sum|ans|yes|odd|set|our|its|you|she"
    "|ln|lg|pi|oo|max|min|sin|cos|tan|cot|csc|sec|log|exp|inf|mod|gcd|lcm|det|abs|arg|dim|ker|sgn|dne|nan"
    "|cm|mm|km|nm|um|ft|yd|mi|mg|kg|lb|oz|hr|ml|dl|cl|pm|pa|hz|ev|kj|kw|mw|gw|ms|ns|rs|cc|sq|cu|pt|qt|kb|mb|gb"
    "|tb|db|deg|rad|mol|mph|kmh|kph|mpg|rpm|lbs|hrs|yrs|cal|gal|kwh|khz|mhz|ghz|kpa|mpa|gpa|pts|pcs|ppm"
    "|usd|eur|gbp|day|men|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat"
)
"""Words and units of two or three letters."""
_PRODUCT = re.compile(
    r"""(?:(?P<command>\\(?!q?quad\b|text)[A-Za-z]+[ ])|(?<![A-Za-z\\]))
    (?!(?!(?<=\\pi[ ])hr|(?:an|as|at|by|my)\^)(?i:NO_PRODUCTS)(?![A-Za-z])) (?![A-Za-z]{0,2}[A-Z][a-z]) (?:
      (?:(?<=\d)(?<!\b0)|(?<=[+=])|(?<=[+=][ ])|(?<=[ ]-[ ])|(?<=\d\*)|(?<=[α-ω])) [A-Za-z]{2,3}
        (?![A-Za-z(]|\s*(?:_|\(?(?:in[ ])?base))
    | (?:(?<=[\d)}]-)|(?<=[\d}])|(?<=\}[ ])) [A-Za-z]{2} (?![A-Za-z_]|\s*\(?(?:in[ ])?base)
    | (?:(?<=\\frac\{)|(?<=\}\{)|(?<=\^\{)|(?<=\\sqrt\{)) (?![clr]+\}) [A-Za-z]{2,3} (?=\})
    | [A-Za-z]{2,3} (?=\s?[+^²³])
    | [A-Za-z]{2} (?=\s?=)
    | (?(command)[A-Za-z]{2}(?![A-Za-z])|(?!))
    )""".replace("NO_PRODUCTS", _NO_PRODUCTS),
    re.VERBOSE,
)
"""Letters beside digits, signs or braces: a product of variables, and no word."""


def _angle(match: re.Match[str]) -> str:
    """Degrees, minutes and seconds of an angle as degrees."""
    degrees, minutes, seconds = (Fraction(part or 0) for part in match.groups())
    return rf"{degrees + minutes / 60 + seconds / 3600}^\circ"


def _share(match: re.Match[str]) -> str:
    """1 in 4 as a fraction."""
    return (
        rf"\frac{{{match[1]}}}{{{match[2]}}}"
        if len(match[0]) < 20 and int(match[1]) < int(match[2])
        else match[0]
    )


SCALES = {
    "dozen": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "lakh": 10**5,
    "crore": 10**7,
}
"""What the words of large numbers stand for."""


def _restated(match: re.Match[str]) -> str:
    """3.5 (7/2) as an approximation, unless it is a product."""
    values = [Fraction(re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"\1/\2", part)) for part in match.groups()]
    is_product = abs(values[0] - values[1]) > max(values) / 100
    return match[0] if is_product else rf"{match[1]} \approx {match[2]}"


_GREEK = "alpha|beta|gamma|theta|lambda|mu|phi|pi|rho|sigma|tau|omega"
_ARGUMENT = rf"(\{{[^{{}}]*\}}|\\(?:var)?(?:{_GREEK})(?![A-Za-z])|[A-Za-z0-9])"
_ALIGNED = r"aligned|align\*?|gathered|split|array|equation\*?"


def _braced(match: re.Match[str]) -> str:
    """A fraction with braces around its parts: LaTeX takes one sign, or one command, without them."""
    top, bottom = (part if part.startswith("{") else f"{{{part}}}" for part in match.group(2, 3))
    return match[1] + top + bottom


_SHARE = r"\d{1,9}/[1-9]\d{0,9}|\\frac\{\d{1,9}\}\{[1-9]\d{0,9}\}"
_DIGITS = r"(?:\{(\d+)\}|(\d+))"
_FUNCTIONS = "sin|cos|tan|cot|sec|csc|log|ln|exp|arctan|arcsin|arccos"
_SAME_COMMANDS = dict(
    pairs(r"\vee \lor \wedge \land \lt < \gt > \lbrace \{ \rbrace \} \bigcup \cup \bigcap \cap")
)


def _tangent(match: re.Match[str]) -> str:
    return (match[1] or "") + ("cot" if match[2] else "tan")


_TERM_IN_WORDS = r"\$?(\\?[A-Za-z]\w*|\d+(?:\.\d+)?)\$?"
_SYMBOLIC = rules(
    (  # LaTeX that was read as the text of JSON or Python
        r"\x08(?=oxed|inom|egin|ar)|\x0c(?=rac)|\t(?=ext|imes|heta|an)|\r(?=ight)|\x07(?=lpha)",
        lambda m: {"\x08": r"\b", "\x0c": r"\f", "\t": r"\t", "\r": r"\r", "\x07": r"\a"}[m[0]],
    ),
    (rf"(\\[cdt]?(?:frac|binom))\s*{_ARGUMENT}\s*{_ARGUMENT}", _braced),
    (r"(\\(?:math(?:bb|bf|rm|cal)|vec|hat|bar))\s+([A-Za-z])(?![A-Za-z])", r"\1{\2}"),
    (r"\\var(?=(?:phi|epsilon|theta|rho|sigma|kappa)(?![A-Za-z]))", r"\\"),
    (rf"({'|'.join(map(re.escape, _SAME_COMMANDS))})(?![A-Za-z])", lambda m: _SAME_COMMANDS[m[1]] + " "),
    (
        rf"\\(?:operatorname\*?|mathrm|text)\s*\{{\s*(?!sec)({_FUNCTIONS}|(?:arc)?c?tg)\s*\}}"
        r"|\\((?:arc)?c?tg)(?![A-Za-z])",
        lambda m: "\\" + re.sub("(arc)?(c?)tg", _tangent, m[1] or m[2]) + " ",
    ),
    (r"\\text\s*\{\s*([,;])\s*\}", r"\1"),
    (r"\\([ij])math(?![a-z])", r"\1"),
    (r"(?<=[a-zA-Z]\([a-z]\))\s*\\equiv(?![a-z])", "="),
    (r"\\not\s*=|\\not\s*\\equiv(?![a-z])", r"\\ne "),
    (r"</?(?:b|strong|i|em|u|span|p|br)\s*/?>", ""),
    (r"\\num\s*\{([^{}]*)\}", r"\1"),
    (r"\\(?:SI|qty)\s*\{([^{}]*)\}\s*\{\\?([^{}]*)\}", r"\1\\text{ \2}"),
    (rf"\\begin\{{({_ALIGNED})\}}(?:\{{[clr|]*\}})?((?:(?!\\\\|&)[\s\S]){{0,400}}?)\\end\{{\1\}}", r"\2"),
    (r"&(?:[lg]t|amp|quot|#39|nbsp|times|le|ge|pi|minus);", lambda m: html.unescape(m[0])),
    (r"\{\s*([^{}]{1,60})\\over(?![A-Za-z])\s*([^{}]{1,60})\}", r"{\\frac{\1}{\2}}"),
    (r"(?<![\w.])(\d+)\s*(?:\\over(?![A-Za-z])|\bover\b)\s*(\d+)(?![\w.]*[A-Za-z])", r"\\frac{\1}{\2}"),
    (r"(?<![\w.])(\d+) (?:in|out of) (\d+)(?=[\s.*$}]*(?:\Z|\n|<))", _share),
    (
        r"(?<![\w.,])(\d{1,9}(?:\.\d{1,9})?) (dozen|hundred|thousand|million|billion)\b",
        lambda m: str(float(m[1]) * SCALES[m[2]]).removesuffix(".0"),
    ),
    (rf"(?:\\mathrm\{{)?(?<![A-Za-z\\])C\}}?_{_DIGITS}\s*\^\s*{_DIGITS}", r"\\binom{\1\2}{\3\4}"),
    (rf"(?<![\w)}}\]])(?:\{{\s*\}})?[\^_]\s*{_DIGITS}\s*C_\s*{_DIGITS}", r"\\binom{\1\2}{\3\4}"),
    (
        r"(?<![\w.])(?:(?:\{\s*\})?_(?:\d|\{\d{1,3}\})P_|\d{1,3}P)(?:\d{1,3}|\{\d{1,3}\})(?!\w)",
        lambda m: str(perm(*map(int, re.findall(r"\d+", m[0])))),
    ),
    (r"\\(?:sfrac|nicefrac|flatfrac)(?=\s*\{)", r"\\frac"),
    (r"\\(?:[hv]space|[hv]?phantom)\*?\s*\{[^{}]*\}|\\(?:thin|med|thick|en)space(?![a-z])", " "),
    (r"\{\s*\\(times|cdot)\s*\}", r"\\\1 "),
    (r"\{\}\s*(?=\^\s*\{?\s*\\circ)", ""),
    (r"(?<![\w}])\{(\d+)\}(?=_)", r"\1"),
    (r"(\\sqrt\s*\[\s*\d+\s*\])\s*([\da-z])", r"\1{\2}"),
    (r"(?<=\d)\s*\\l?or(?![a-z])\s*(?=[a-z]\s*=)", " or "),
    (r"(?<![\w.])(\d+)(?: choose |C)(\d+)\b(?!\s*\(?(?:in )?base)", r"\\binom{\1}{\2}"),
    (r"\\\(\s*(\\(?:text|mathrm)\s*\{[^{}]{1,40}\})\s*\\\)", r"\1"),
    (
        r"(?i)(?:\\text\{\s*)?all real numbers (?:x )?except(?: for)?(?: x =)?\s*\}?\s*(-?\d+)",
        r"\\mathbb{R}\\setminus\\{\1\\}",
    ),
    (rf"(?i)(?:the )?square root of {_TERM_IN_WORDS}", r"\\sqrt{\1}"),
    (rf"(?i)(?:the )?cube root of {_TERM_IN_WORDS}", r"\\sqrt[3]{\1}"),
    (r"(?<![\w.])(\d+|[a-z]) factorial\b", r"\1!"),
    (r"(?<![\w.])(\d+|[a-z]) squared\b", r"\1^2"),
    (r"(?<![\w.])(\d+|[a-z]) cubed\b", r"\1^3"),
    (r"(?<![\w.])(\d+|[a-z]) to the (?:power of (\d+)|(\d+)(?:st|nd|rd|th) power)\b", r"\1^{\2\3}"),
    (
        r"(?<![\d.])(\d{1,4})\s*(?:°|\^\s*\{?\\circ\}?)\s*(\d\d?)\s*(?:['′’]|\^(?:\{\\prime\}|\\prime))"
        r"(?:\s*(\d\d?)\s*(?:\"|″|”|''))?",
        _angle,
    ),
    (rf"(?<![\d./}}])({_SHARE})(?:\\ )?\s*\((\d{{0,9}}\.\d{{1,9}})\)", _restated),
    (rf"(?<![\d./}}])(\d{{0,9}}\.\d{{1,9}})\s*\(({_SHARE})\)", _restated),
    (r"\(\s*(?:≈|\\approx|approximately|about|or)\s*(-?\d*\.?\d+)\s*\)", r" \\approx \1"),
    (r"(?<![\d.])(\d+)\s*['′’]\s*-?(\d+(?:\.\d+)?)\s*(?:\"|″|”|''|’’)", r"\1 ft \2 in"),
)


_STYLE = (
    r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:rm|bf|it|sf|tt|cal)|operatorname|[mh]box|bm|ce|boldsymbol|emph|underline"
    r"|ensuremath|rm|bf)\*?\s*"
)
STYLED = re.compile(_STYLE + r"\{([^{}]*)\}")
SPACES = re.compile(r"\\(?:[,;:! ]|q?quad\b|(?:display|text)style\b|limits\b)|~|\s")
_WRAPPERS = [
    (r"\(", r"\)"),
    (r"\[", r"\]"),
    *((sign, sign) for sign in ("$$", "$", "**", "__", "```", "`", '"', "'", "*")),
]
_DRESS = re.compile(
    r"\\(?:left|right)(?![a-z])\s*(?:\.(?!\d))?|\\(?:text)?color\s*\{\w+\}\s*|\\(?:tiny|small|[lL]arge|LARGE|huge|Huge|displaystyle|textstyle|checkmark|blacksquare|newline)(?![a-z])\s*"
    r"|\\tag\*?\s*\{[^{}]*\}"
)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{(.*)\}", re.DOTALL)
_SET_BUILDER = re.compile(
    r"\\?\{\s*[a-z]\s*(?:\\in\s*\\mathbb\s*\{?[A-Z]\}?\s*)?(?:\\mid|\\vert|\||:)\s*(.*?)\\?\}\Z"
)


def unwrapped(text: str) -> str:
    r"""An answer without what stands only around it: dollars, `\text{}`, bold, quotes, a final full stop."""
    text = _DRESS.sub("", as_latex(text)).strip()
    for _ in range(8):
        before = text
        text = text.strip().rstrip(",;。\\").strip()
        if text.endswith(".") and not text.endswith(("..", r"\.")):
            text = text[:-1].rstrip()
        text = text.removeprefix("=").removeprefix(":").strip()
        for begin, end in _WRAPPERS:
            inner = text[len(begin) : len(text) - len(end)]
            if inner and text == begin + inner + end and begin not in inner:
                text = inner.strip()
        for whole in (_BOX, STYLED):
            match = whole.fullmatch(text)
            if match and match[1].count("{") == match[1].count("}"):
                text = match[1].strip()
        if text == before:
            break
    return text


def words(text: str) -> str:
    """An answer as words to compare: unwrapped, without styles, case and superfluous white space."""
    text = STYLED.sub(r"\1", SPACES.sub(" ", _JOINT_LETTERS.sub("", unwrapped(text))))
    if _FORMULA_OF_ATOMS.fullmatch(plain := re.sub(r"[\s_{}$\\]", "", text)):
        return plain  # water is H2O, in any style, and no other order of its letters
    text = " ".join(text.casefold().replace('"', "").split())
    text = _BESIDE_COMMAND.sub(r"\1", _ORDINAL.sub("", _ARTICLE.sub("", text)))
    return next((word for word, pattern in _SYNONYMS.items() if pattern.fullmatch(text)), text)


_JOINT_LETTERS = re.compile(r"(?<=[A-Za-z])\{\}(?=[A-Za-z])")
_FORMULA_OF_ATOMS = re.compile(r"(?=.*\d)(?=.*[A-Z].*[A-Z])(?:[A-Z][a-z]?\d*|\((?:[A-Z][a-z]?\d*)+\)\d*)+")
_BESIDE_COMMAND = re.compile(r"(?<![a-z]{2})\s+(?=\\[a-z])|(\\[a-z]+)\s+(?![a-z])")
_ARTICLE = re.compile(r"\A(?:(?:an?|the|on|in)\s+(?=[a-z]{2}))+")
_ORDINAL = re.compile(r"(?<=\d)\s*(?:\^\s*\{?\s*)?(?:st|nd|rd|th)\b(?:\s*\})?")
_SYNONYMS = {
    word: re.compile(pattern)
    for word, pattern in {
        "no solution": r"(?:there (?:is|are) |it has )?no (?:real )?(?:solutions?|roots?)(?: exists?)?"
        r"|(?:x\\in)?\\(?:emptyset|varnothing)|\\\{\\\}|\{\}|empty set",
        "does not exist": "dne|(?:limit|it) does not exist",
        r"\infty": r"\+?(?:\\infty|infinity|inf)|positive infinity",
        r"-\infty": "(?:-|negative |minus )(?:infinity|inf)",
        "all real numbers": r"all reals?(?: x| numbers)?|(?:x\\in)?\\mathbb\{r\}"
        r"|(?:x\\in)?\(-\\infty,\s?\+?\\infty\)|-\\infty\s?<\s?[a-z]\s?<\s?\+?\\infty",
        "infinitely many": "(?:there are )?(?:infinitely many|an infinite number of|infinite)(?: solutions)?",
    }.items()
}


def ends_with(sentence: str, answer: str) -> bool:
    """Whether a sentence ends by saying that it is this: "The function is even." for "even"."""
    wanted = re.escape(words(answer))
    begins = (
        r"(?:\b(?:is|be|are|was|becomes|equals|called|named|known as)|:)\s+(?:an?\s+|the\s+|on\s+|in\s+)?"
    )
    last = re.split(r"[.!?]\s", words(sentence.replace("*", "")))[-1]
    is_other = re.search(r"\b(?:since|because|if|as|not|cannot|doubt|false that|but)\b|n't\b", last)
    return is_other is None and re.search(rf"{begins}{wanted}\Z", last) is not None


def assignments(text: str) -> dict[str, str] | None:
    """The values of x=1, y=2 by their distinct names; None for another text."""
    text = STYLED.sub(r"\1", _CASES.sub(lambda m: m[1].replace(r"\\", ","), unwrapped(text)).replace("$", ""))
    text = re.sub(r"\\[,;:! ]", " ", text)
    parts = [re.fullmatch(r"([a-zA-Z])\s*=\s*([^=,]+)", part.strip()) for part in _ITEMS.split(text)]
    values = {part[1]: part[2].strip() for part in parts if part}
    return values if len(values) == len(parts) > 1 else None


_CASES = re.compile(r"\\begin\s*\{cases\}(.*)\\end\s*\{cases\}", re.DOTALL)
_ITEMS = re.compile(r"\s*[,;&]\s*(?:and\b)?|\s+and\s+|\s*\\(?:quad|&)\s*")


def pieces(text: str) -> dict[str, str] | None:
    """The values of a function that is written in pieces, by their conditions; None for another text."""
    cases = _CASES.search(as_latex(text))
    rows = [_WHERE.split(row, maxsplit=1) for row in cases[1].split(r"\\") if row.strip()] if cases else []
    if not rows or any(len(row) < 2 for row in rows):
        return None
    return {
        re.sub(r"[\s{}$,.]|\\[,;: ]|(?<=\\[lg]e)q", "", STYLED.sub(r"\1", where)): value.strip(" ,")
        for value, where in rows
    }


_WHERE = re.compile(r",?\s*(?:&(?!\s*=)\s*)?(?:\\text\s*\{\s*)?\b(?:if|for|when)\b|&(?!\s*=)")


def _matrix(match: re.Match[str]) -> str:
    """A matrix of LaTeX of a list of lists."""
    rows = [row.replace(",", "&") for row in re.findall(r"\[([^\[\]]+)\]", match[1])]
    return r"\begin{pmatrix}" + r" \\ ".join(rows) + r"\end{pmatrix}"


_POWER_OF_UNIT = r"(\\(?:text|mathrm)\s*\{[^{}]*[a-z]{2}\s*\})\s*\^\s*\{?[1-4]\}?"
_IN_INTEGERS = (
    r"[a-z]\s*(?:\\in\s*(?:\\(?:mathbb|mathbf|mathrm|text|Bbb)\s*)?\{?\s*[ZN]\s*\}?(?:\s*[\^_]\s*\{?[+*]\}?)?"
    r"|(?:\\text\{)?\s*(?:is )?(?:an |any )?integers?\}?)"
)
_IN_REALS = r"[a-z]\s*\\in\s*\\mathbb\{R\}"
_MARKS = rules(
    (r"\s*,?\s*(?:\\text\s*\{\s*(?:for|where)\b|\\forall|\bfor (?:all|any|some)\b).*\Z", ""),
    (rf"(?<=\S)[\s,;\\]*\(?\s*{_IN_INTEGERS}\s*\)?\Z", ""),
    (rf"\A{_IN_REALS}\s*,\s*|(?<=[^\s,])\s*,\s*{_IN_REALS}\Z", ""),
    (rf"\A\\?\{{([^{{}}|:]+)(?:\\mid|\||:)\s*{_IN_INTEGERS}\s*\\?\}}\Z", r"\1"),
    (r"(?<=\D)" + _POWER_OF_UNIT + r"\Z", r"\1"),
    (  # where a formula holds
        r"\A((?:(?!\\(?:[lg]e|ne))[^<>,])+),[\s\\quad]*\(?\s*(?:[a-z]\s*\\neq?|n\s*\\geq?)\s*-?\d+\s*\)?\Z",
        r"\1",
    ),
    (r"\A[a-z]?\s*\\in\s*(?=[(\[]|\\(?:emptyset|varnothing))", ""),
    (r"\\lg(?![a-z])", r"\\log_{10} "),
    (r"\\log_\s*\{?e\}?(?![a-z])", r"\\ln "),
    (r"\A(?:[A-Z]|\\(?:vec|mathbf|overrightarrow)\s*\{\s*\w\s*\})\s*=\s*(?=\\?\{|\()", ""),
    (r"\\lor(?![a-z])(?=\s*[a-z]\s*(?:[<>=]|\\(?:[lg]e|ne)))", r"\\text{ or }"),
    (r"(?<=\\mathbb\{R\})\s*[-\\]\s*(?=\\\{)", r"\\setminus"),
    (r"\\langle", "("),
    (r"\\rangle", ")"),
    (r"\\(?:vec|hat|mathbf|mathcal|overrightarrow)\s*\{\s*(\w)\s*\}", r"\1"),
    (r"\s*\\&\s*|,\s*and\s+", ", "),
    (r"(?<=[\])])\s*[Uu]\s*(?=[\[(])", r"\\cup "),
    (
        r"(?<=[\])])\s*(?:or\b|\\text\s*\{\s*or\s*\})\s*(?:[a-z]\s*\\in\s*)?(?=[(\[][^()\[\]]*\\infty)",
        r"\\cup ",
    ),
    (r"\A(?:[a-z]\s*=\s*)?(\\[dt]?frac\s*\{[^{},]*)\\pm(?![a-z])([^,]*)\Z", r"\1+\2, \1-\2"),
    (r"(?<=[\[(])([^;\[\]()]+);([^;\[\]()]+)(?=[\])])", r"\1,\2"),
    (rf"(?<![A-Za-z\\])({_FUNCTIONS})(?=[ (_^\d{{]|[a-z](?![a-z]))", r"\\\1"),
    (r"[(\[]\s*(?=\\begin\s*\{array)|(?<=array\})\s*[)\]]", ""),
    (r"(?<=\{)(?:(?:[bBvV]|small)?matrix\}|array\}(?:\{[clr|]*\})?)", "pmatrix}"),
    (r"(?<=\\\\)\s*\[\w+\]", ""),
    (r"\A[\[(]([^\[\]()]*)[\])]\s*\^\s*\{?\s*(?:T|\\top)\s*\}?\Z", r"(\1)"),
    (r"\A(\\begin\{pmatrix\}[^\\]*\\end\{pmatrix\})\s*\^\s*\{?\s*(?:T|\\top)\s*\}?\Z", r"\1"),
    (r"\A\[\s*(\[[^\[\]]+\](?:\s*,\s*\[[^\[\]]+\])*)\s*\]\Z", _matrix),
    (
        r"(?<=\\(?:sin|cos|tan|cot|sec|csc))\s*[({]?\s*(\d+(?:\.\d+)?)\s*\^\s*\{?\\circ\s*\}?\s*[)}]?",
        r"\\left(\\frac{\1\\pi}{180}\\right)",
    ),
    (r"(?<=\d)(?:\{,\}|\\[,!])(?=\d{3}(?!\d))", ""),
    (r"(?<![\w.\\])(\d+(?:\.\d+)?|\.\d+)[eE]([+-]?\d{1,4})(?![\w.])", r"\1 \\cdot 10^{\2}"),
    (r"(?<![\d.}])(\d+)\s+(\d+)\s*/\s*(\d+)(?![\d.])", r"\1\\frac{\2}{\3}"),
    (r"(?<![\w.^/}])(\d+)\s*/\s*(\d+)\s+(?=\\?[a-z(])", r"\\frac{\1}{\2} "),
    (r"(?<=\\Theta|\\Omega)\s+(?=\()", ""),
    (r"\\cdots|(?<=[,+={(*])\s*(?:\\[ld]?dots[bcmio]?(?![a-z])|\.\.\.)", r" \\Xi "),
    (r"\*\*", "^"),
    (r"=<", r"\\le "),
    (r"(?<![A-Za-z\\])pi(?![A-Za-z])", r"\\pi "),
    (r"(?<![A-Za-z\\])(?:inf|oo|infinity)(?![A-Za-z])", r"\\infty "),
    (r"\]\s*([^\[\](){}]+,[^\[\](){}]+)\[", r"(\1)"),
    (r"\[([^\[\](){}]+,[^\[\](){}]+)\[", r"[\1)"),
    (r"\]([^\[\](){}]+,[^\[\](){}]+)\]", r"(\1]"),
)  # fmt: skip


def expression(text: str) -> str:
    """An answer as math-verify reads it best: unwrapped, in LaTeX, with its marks in their usual forms."""
    text = unwrapped(text)
    builder = _SET_BUILDER.match(text)
    if builder and re.search(r"[<>]|\\(?:[lg]eq?|neq?)(?![a-z])", builder[1]):
        text = builder[1]
    text = re.sub(rf"\A(?:\\?\$|[{CURRENCIES}])\s*(?=[\d.(\\-])", "", text)
    text = rewritten(text, _MARKS)
    for _ in range(_DEEPEST):
        text = _CALL.sub(_called, text)
    return _JOINT_LETTERS.sub(" ", _without_unit(text.strip()))


_DEEPEST = 4
_CALL = re.compile(
    r"(?:(?P<sign>\^)|(?<![A-Za-z\\])(?P<name>sqrt|cbrt|abs|(?P<choose>C(?=\(\s*\w+\s*,\s*\w+\s*\)))))\s*"
    r"\((?P<inside>(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*)\)"
)


def _called(match: re.Match[str]) -> str:
    """The LaTeX of `sqrt(...)` and the like, which math-verify would end at the first parenthesis."""
    inside = match["inside"]
    if match["sign"]:
        return f"^{{{inside}}}"
    if match["choose"]:
        return r"\binom{{{}}}{{{}}}".format(*inside.split(","))
    if match["name"] == "abs":
        return f"|{inside}|"
    return rf"\sqrt{'[3]' * (match['name'] == 'cbrt')}{{{inside}}}"


UNIT_SYMBOLS = "msghlLNJWVAKCFTdp"
"""Single letters that are units after a number. Others are variables."""
_STYLED_LETTER = re.compile(rf"{_STYLE}\{{\s*([A-Za-z])\s*\}}(?!(?<=[{UNIT_SYMBOLS}]\}})\Z)")
_STYLED_UNIT = re.compile(
    rf"(?<=[^\s\\])(?:\s|~|\\[,;:! ])*{_STYLE}\{{(?:[^{{}}]|\{{[^{{}}]*\}})*\}}"
    r"\s*(?:\^\s*\{?\s*-?\d\s*\}?)?\Z"
)
_BARE_UNIT = re.compile(rf"(?:\s|\\[,; ])\s*[{UNIT_SYMBOLS}]\Z")


def _without_unit(text: str) -> str:
    r"""A formula without its unit. A bare letter is one after a number (`2\sqrt{3} m`), not in `x + 2 m`."""
    text = _STYLED_LETTER.sub(r"\1", text)
    text = _STYLED_UNIT.sub("", text)
    bare = _BARE_UNIT.sub("", text)
    return text if re.search("[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", bare)) else bare


def parameter(text: str) -> str | None:
    r"""The letter that an answer calls an integer at its end, as in `k\pi, k \in \mathbb{Z}`."""
    match = re.search(rf"(?:\A|(?<=[^A-Za-z\\]))({_IN_INTEGERS})[)\s]*\Z", unwrapped(text))
    return match[1][0] if match else None


_FORMULA = re.compile(
    r"\$\$(?P<a>.+?)\$\$|\\\[(?P<b>.+?)\\\]|\\\((?P<c>.+?)\\\)|(?<![\\\w])\$(?P<d>[^$\n]+?)(?<!\\)\$(?!\d)",
    re.DOTALL,
)
_PROSE = re.compile(r"(?<![A-Za-z\\])(?!(?:and|or)\b)[A-Za-z]{2,}(?![A-Za-z({])")
_TERM = re.compile(
    r"[\d.,:+\-*/^()=%\\{}$_<>!|\[\]]*(?:(?:\\[A-Za-z]+|sqrt|pi|inf|mod|sin|cos|tan|log|ln|exp|(?<![A-Za-z])[A-Za-z](?![A-Za-z]))[\d.,:+\-*/^()=%{}$_<>!|\[\]]*)*\Z"
)
_BEGINS = re.compile(r"[\d.(\[{|+\-$\\]|[A-Za-z]\s*[\^=+\-*/<>_(!]|ln|log|sin|cos|tan|exp")


_CJK = re.compile(r"[\u3001\u3002\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")


_REMARK = re.compile(r"\s\([^()\n]*\b[A-Za-z]{3,}\b[^()\n]*\)[\s.!]*\Z")


def last_expression(text: str) -> str | None:
    """The last formula or number in prose: what stands between the last dollars, or the last run of terms.

    A remark in parentheses at the end counts only if there is nothing before it.
    """
    remark = _REMARK.search(text[-LONGEST:])
    if remark and (before := last_expression(text[-LONGEST:][: remark.start()])) is not None:
        return before
    text = re.sub(r"\b(and|or) (?:maybe|perhaps|possibly|even|probably)\b", r"\1", text)
    text = re.sub(_POWER_OF_UNIT, r"\1", text[-LONGEST:])
    text = re.sub("[和与或]", " and ", STYLED.sub(r" \1 ", as_latex(text)))
    text = _CJK.sub(" 。 ", text)
    formulas: list[str] = []
    begin = end = len(text)
    for match in reversed([match for match in _FORMULA.finditer(text) if _is_formula(match)]):
        if formulas and not _JOINT.fullmatch(text[match.end() : begin]):
            break
        end = end if formulas else match.end()
        begin = match.start()
        formulas.append(_content(match))
    for line in reversed(text[end if formulas else 0 :].split("\n")):
        run = _run(line)
        if run is not None:
            return run
    return ", ".join(reversed(formulas)) or None


_JOINT = re.compile(r"\s*,?\s*(?:and|or)?\s*")


def _content(formula: re.Match[str]) -> str:
    return next(group for group in formula.groups() if group is not None).strip()


def _is_formula(match: re.Match[str]) -> bool:
    """Whether dollars hold a formula, and not the prose between two amounts of money."""
    content = _content(match)
    words_in_it = _PROSE.findall(re.sub(r"\\[a-z]+\{[^}]*\}", "", content))
    return re.search(r"[\w\\]", content) is not None and not (match["d"] and len(words_in_it) > 1)


_LABEL = re.compile(
    r"\A\W*(?:\d+[.)](?=\s+\D*[A-Za-z]{2})|(?:step|case|part|method)\s+\d+\s*[:.])|\bequations?\s+\(\d+\)",
    re.IGNORECASE,
)
"""The number of an item, a step or an equation."""


def _run(line: str) -> str | None:
    run: list[str] = []
    line = _LABEL.sub("", re.sub(rf"(?<![\w)])\*\*|\*\*(?![\w(])|`|(?<=\d)[{CURRENCIES}]", " ", line))
    for term in reversed(line.split()):
        term = term.rstrip(";:!?" if run else ",;:!?")
        term = term.removesuffix(".") if not run else term
        if run and term in ("and", "or"):
            run.insert(0, term)
            continue
        if not term or term in ("a", "A", "I") or not _TERM.match(term):
            if any(re.search(r"\d|\\pi|\\infty|\\frac|\\sqrt", part) for part in run):
                break
            run.clear()
        elif run or re.search(r"[\w)\]}]", term):
            run.insert(0, term)
    while run and not _BEGINS.match(" ".join(run)):
        run.pop(0)
    joined = " ".join(run).strip()
    return joined if re.search(r"\d|\\pi|\\infty", joined) else None


def has_prose(text: str) -> bool:
    """Whether there are words in a text, and not one formula alone."""
    text = re.sub(r"(?<![A-Za-z\\])d[a-z]\b", " ", text) if "\\int" in text else text
    text = re.sub(r"\\(?:begin|end)\s*\{\w+\}(?:\{[clr|]*\})?|\\[A-Za-z]+", " ", STYLED.sub(r" \1 ", text))
    return _PROSE.search(re.sub(rf"\b(?:{_FUNCTIONS}|mod|inf(?:inity)?)\b", " ", text)) is not None
