# ruff: noqa: RUF001  (look-alikes of ASCII are what this module replaces)
r"""One notation for answers: Unicode as LaTeX, without wrappers; and the numbers that need no algebra.

A number may be an integer, a decimal, a fraction, a mixed number or in scientific notation, with a currency,
a percent sign or a unit. Such numbers are compared here, exactly, as fractions. Everything else is left to
math-verify.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

LONGEST = 1000
"""Characters of an answer that is read. A longer one is wrong."""


def _pairs(table: str) -> list[tuple[str, str]]:
    items = table.split()
    return list(zip(items[::2], items[1::2], strict=True))


_SIGNS = r"""
− - ‐ - ‑ - ‒ - – - — - ﹣ - × \times ✕ \times · \cdot ⋅ \cdot ∙ \cdot ∗ * ÷ / ⁄ / ∕ / ± \pm ∓ \mp
≤ \le ≥ \ge ⩽ \le ⩾ \ge ≠ \ne ≈ \approx ≃ \approx ≅ \cong ≡ \equiv ∞ \infty ∪ \cup ∩ \cap ∈ \in ∉ \notin
∅ \emptyset ∖ \setminus ⊂ \subset ⊆ \subseteq ∧ \land ∨ \lor ° ^\circ º ^\circ ˚ ^\circ ′ ' ’ ' ‘ ' “ " ” "
ℝ \mathbb{R} ℤ \mathbb{Z} ℕ \mathbb{N} ℚ \mathbb{Q} ℂ \mathbb{C} → \to ∑ \sum ∫ \int ∠ \angle △ \triangle
⊥ \perp ⟨ \langle ⟩ \rangle µ \mu ϕ \phi ϵ \epsilon α \alpha β \beta γ \gamma δ \delta ε \epsilon ζ \zeta
η \eta θ \theta ι \iota κ \kappa λ \lambda μ \mu ν \nu ξ \xi π \pi ρ \rho σ \sigma τ \tau υ \upsilon φ \phi
χ \chi ψ \psi ω \omega Γ \Gamma Δ \Delta Θ \Theta Λ \Lambda Ξ \Xi Π \Pi Σ \Sigma Φ \Phi Ψ \Psi Ω \Omega
"""
_AS_LATEX = {sign: latex + " " * latex[-1].isalpha() for sign, latex in _pairs(_SIGNS)}
_AS_LATEX |= dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\xad\u2061\u2062\u2063\u2064", "")
_RAISED = re.compile(r"[⁰¹²³⁴-⁹⁺⁻⁽⁾ⁿⁱ]+")
_LOWERED = re.compile(r"[₀-₉₊₋₍₎ₐₑₒₓₕₖₗₘₙₚₛₜ]+")
_VULGAR = re.compile(r"[¼-¾⅐-⅞↉]")
_ROOT = re.compile(r"([√∛∜])\s*(\((?:[^()]|\([^()]*\))*\)|\{[^{}]*\}|\d+(?:\.\d+)?|[A-Za-z]|\\[a-z]+)")
_INDEX = {"√": "", "∛": "[3]", "∜": "[4]"}


def as_latex(text: str) -> str:
    """The text with LaTeX and ASCII for Unicode's mathematical characters."""
    if text.isascii():
        return text
    text = _RAISED.sub(lambda m: "^{" + unicodedata.normalize("NFKC", m[0]).replace("−", "-") + "}", text)
    text = _LOWERED.sub(lambda m: "_{" + unicodedata.normalize("NFKC", m[0]).replace("−", "-") + "}", text)
    text = _VULGAR.sub(_fraction, text)
    text = "".join(map(_character, text))
    return _ROOT.sub(lambda m: rf"\sqrt{_INDEX[m[1]]}{{{_inside(m[2])}}}", text)


def _fraction(match: re.Match[str]) -> str:
    top, _, bottom = unicodedata.normalize("NFKC", match[0]).partition("⁄")
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


_STYLE = (
    r"\\(?:text(?:bf|it|rm|sf|normal)?|math(?:rm|bf|it|sf|tt)|operatorname|[mh]box|bm|boldsymbol|emph|underline"
    r"|ensuremath|rm|bf)\*?\s*"
)
_STYLED = re.compile(_STYLE + r"\{([^{}]*)\}")
_SPACES = re.compile(r"\\(?:[,;:! ]|q?quad\b|(?:display|text)style\b|(?:left|right)(?![a-z])|limits\b)|~|\s")
_WRAPPERS = [
    (r"\(", r"\)"),
    (r"\[", r"\]"),
    *((sign, sign) for sign in ("$$", "$", "**", "__", "```", "`", '"', "'", "*")),
]
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{(.*)\}", re.DOTALL)
_SET_BUILDER = re.compile(
    r"\\?\{\s*[a-z]\s*(?:\\in\s*\\mathbb\s*\{?[A-Z]\}?\s*)?(?:\\mid|\\vert|\||:)\s*(.*?)\\?\}\Z"
)


def unwrapped(text: str) -> str:
    r"""An answer without what stands only around it: dollars, `\text{}`, bold, quotes, a final full stop."""
    text = as_latex(text).strip()
    for _ in range(8):
        before = text
        text = text.strip().rstrip(",;。\\").strip()
        if text.endswith(".") and not text.endswith(("..", r"\.")):
            text = text[:-1].rstrip()
        text = text.removeprefix("=").removeprefix(":").strip()
        for begin, end in _WRAPPERS:
            inner = text[len(begin) : len(text) - len(end)]
            if (
                len(text) > len(begin + end)
                and text.startswith(begin)
                and text.endswith(end)
                and begin not in inner
            ):
                text = inner.strip()
        for whole in (_BOX, _STYLED):
            match = whole.fullmatch(text)
            if match and match[1].count("{") == match[1].count("}"):
                text = match[1].strip()
        if text == before:
            break
    return text


def words(text: str) -> str:
    """An answer as words to compare: unwrapped, without styles, case and superfluous white space."""
    text = _STYLED.sub(r"\1", _SPACES.sub(" ", unwrapped(text)))
    return " ".join(text.casefold().replace('"', "").split())


_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_POWER = r"10\s*(?:\^|\*\*)\s*[{(]{0,2}\s*(?P<POWER>[+-]?\s*\d{1,4})(?!\d)\s*[)}]{0,2}"
_CURRENCY = (
    r"(?:US|A|C|HK|NT|R)?\\?\$|[€£¥₹₩₽]|\\(?:euro|pounds|yen)\b"
    r"|(?:USD|EUR|GBP|INR|RMB|CNY|JPY|Rs\.?)(?=\s?\d)"
)
_NUMBER = re.compile(
    rf"""(?P<sign>[+-])?\s*(?P<currency>{_CURRENCY})?\s*(?P<inner_sign>[+-])?\s*(?:
      (?P<mantissa>{_DIGITS})\s*(?:\\times|\\cdot|\*|[x])\s*{_POWER.replace("POWER", "mantissa_power")}
    | (?P<e_mantissa>{_DIGITS})[eE](?P<e>[+-]?\d{{1,4}})(?!\d)
    | {_POWER.replace("POWER", "power")}
    | (?:(?P<whole>\d+)(?:\s*\\frac|\s+(?=\d+\s*/)|\s+and\s+(?=\d+\s*/))|\\frac|(?=[\d.,]+\s*/\s*\d))
        \s*(?:\{{\s*(?P<top>[+-]?(?:{_DIGITS}))\s*\}}\s*\{{\s*(?P<bottom>{_DIGITS})\s*\}}
           | (?P<top_digit>\d)(?P<bottom_digit>\d)
           | (?P<top_plain>{_DIGITS})\s*/\s*(?P<bottom_plain>{_DIGITS}))(?![\d.]*/)
    | (?P<plain>{_DIGITS})
    )(?P<rest>.*)""",
    re.VERBOSE | re.DOTALL,
)
_THOUSANDS = re.compile(r"(?<=\d)(?:\{,\}|,?\\[,! ]|\\thinspace|[ _'](?=\d{3}(?:\D|\Z)))(?=\d{3}(?!\d))")
_PERCENT = re.compile(
    r"\s*(?:\\?%|percent\b|per\s?cent\b|percentage(?:\s+points?)?\b|pct\b\.?)\s*", re.IGNORECASE
)
_DEGREE = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|\\degree\b|\\deg\b)\s*(?P<scale>[CFKcfk]\b)?")
_WORD = r"(?:[A-Za-zµΩ$]|\\mu\b|\\Omega\b|[^\W\d_])[^\W\d_]*\.?"
_RAISED_UNIT = rf"{_WORD}(?:\s*\^\s*\{{?\s*-?[1-4]\s*\}}?(?!\d)|[23](?!\d))?"
_UNIT = re.compile(rf"\s*/?\s*{_RAISED_UNIT}(?:(?:\s*(?:/|\\cdot|\*|-)\s*|\s+){_RAISED_UNIT}){{0,7}}\s*")
_CLAUSE = re.compile(
    r"\s*(?:[,;]\s*(?:as|because|since|so|for|which|where|by|from)\b.*|\(\s*[A-Za-z][^()\d]+\)\s*)\Z",
    re.DOTALL,
)
_NO_UNITS = re.compile(
    r"and|or|to|times|over|plus|minus|than|not|is|are|squared|cubed|if|when|either|mod|modulo|choose"
    r"|divided|until|sqrt|sin|cos|tan|log|ln|exp|pi|infinity",
    re.IGNORECASE,
)
"""Words after a number that make it a part of something else."""

_SYMBOLS = "msghlLNJWVAKCFTd"
"""Single letters that are units after a number. Others are variables."""

_SCALES = {
    "dozen": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_SCALE = re.compile(rf"\s*({'|'.join(_SCALES)})\b", re.IGNORECASE)

_NAMED = {
    "length": "mm .001 millimeter .001 millimetre .001 cm .01 centimeter .01 centimetre .01 m 1 meter 1 "
    "metre 1 km 1000 kilometer 1000 kilometre 1000 in .0254 inch .0254 inche .0254 ft .3048 foot .3048 "
    "feet .3048 yd .9144 yard .9144 mi 1609.344 mile 1609.344",
    "mass": "mg .001 milligram .001 g 1 gram 1 kg 1000 kilogram 1000 lb 453.59237 oz 28.349523125 "
    "ounce 28.349523125",
    "time": "ms .001 millisecond .001 s 1 sec 1 second 1 min 60 minute 60 h 3600 hr 3600 hour 3600 day 86400",
    "volume": "ml .001 milliliter .001 l 1 liter 1 litre 1",
    "dollars": "dollar 1 usd 1 buck 1 cent .01 ¢ .01",
    "euros": "€ 1 euro 1 eur 1",
    "sterling": "£ 1 gbp 1",
    "yen": "¥ 1 yen 1",
    "rupees": "₹ 1 rupee 1 inr 1 rs 1",
    "temperature in C": "°c 1 celsius 1",
    "temperature in F": "°f 1 fahrenheit 1",
    "angle": "degree 1 deg 1",
    "charge": "coulomb 1",
    "force": "n 1 newton 1",
    "energy": "j 1 joule 1 kj 1000 ev 1.602176634e-19",
    "frequency": "hz 1 khz 1000 mhz 1000000",
    "pressure": "pa 1 kpa 1000",
    "time before noon": "am 1 a.m 1",
    "time after noon": "pm 1 p.m 1",
    "power": "w 1 watt 1 kw 1000",
    "voltage": "v 1 volt 1 mv .001",
}  # fmt: skip
_UNITS: dict[str, tuple[str, Fraction]] = {
    name: (kind, Fraction(factor)) for kind, names in _NAMED.items() for name, factor in _pairs(names)
}


@dataclass(frozen=True)
class Number:
    """A number as it is written.

    Attributes:
        value: without its unit and its percent sign.
        last_place: the value of the last digit of a decimal; 0 for a fraction or an integer.
        figures: the significant digits of a decimal.
        is_percent: whether a percent sign or the word stands behind it.
        unit: its words; "" if there is none.
    """

    value: Fraction
    last_place: Fraction = Fraction(0)
    figures: int = 0
    is_percent: bool = False
    unit: str = ""


def number(text: str) -> Number | None:
    """The number that a text is, perhaps with a unit; None for any other text."""
    text = unwrapped(text)
    if len(text) > LONGEST or not any(map(str.isdecimal, text)):
        return None
    text = re.sub(r"\\[dtc]frac", r"\\frac", _STYLED.sub(r" \1 ", text))
    text = _THOUSANDS.sub("", text)
    text = " ".join(_SPACES.sub(" ", text).split())
    match = _NUMBER.match(text)
    if match is None:
        return None
    scale = _SCALE.match(match["rest"])
    unit = _unit(match["rest"][scale.end() :] if scale else match["rest"])
    value, last_place, figures = _value(match)
    if unit is None or value is None:
        return None
    sign = -1 if (match["sign"] == "-") != (match["inner_sign"] == "-") else 1
    factor = _SCALES[scale[1].casefold()] if scale else 1
    name, is_percent = unit
    return Number(
        sign * value * factor, last_place * factor, figures, is_percent, name or _currency(match["currency"])
    )


def _value(match: re.Match[str]) -> tuple[Fraction | None, Fraction, int]:
    power = match["mantissa_power"] or match["e"] or match["power"]
    if match["power"]:
        return Fraction(10) ** int(power.replace(" ", "")), Fraction(0), 0
    decimal = match["mantissa"] or match["e_mantissa"] or match["plain"]
    if decimal is not None:
        scale = Fraction(10) ** int(power.replace(" ", "")) if power else Fraction(1)
        digits = decimal.replace(",", "").rstrip(".")
        places = len(digits.partition(".")[2])
        figures = len(digits.replace(".", "").strip("0")) if places or power else 0
        return Fraction(digits) * scale, (scale / 10**places if figures else Fraction(0)), figures
    top = match["top"] or match["top_digit"] or match["top_plain"]
    bottom = match["bottom"] or match["bottom_digit"] or match["bottom_plain"]
    top, bottom = (Fraction(part.replace(",", "").rstrip(".")) for part in (top, bottom))
    if not bottom:
        return None, Fraction(0), 0
    return Fraction(int(match["whole"] or 0)) + top / bottom, Fraction(0), 0


def _unit(rest: str) -> tuple[str, bool] | None:
    """The unit that follows a number, and whether it is a percent sign; None where algebra follows."""
    clause = _CLAUSE.search(rest)
    rest = rest[: clause.start()] if clause else rest
    rest = rest.strip().rstrip(".").replace("\\$", "$")
    if not rest:
        return "", False
    percent = _PERCENT.match(rest)
    if percent:
        tail = rest[percent.end() :]
        return ("", True) if not tail or _is_unit(tail) else None
    rest = re.sub(r"\\frac\s*\{([^{}\d]+)\}\s*\{([^{}\d]+)\}", r"\1/\2", rest)
    degree = _DEGREE.fullmatch(rest)
    if degree:
        return f"°{degree['scale'].lower()}" if degree["scale"] else "degree", False
    rest = re.sub(r"^[-]\s*", " ", rest)  # 5-gallon
    if rest in ("$", "€", "£", "¥", "₹", "¢"):
        return _currency(rest), False
    return (" ".join(rest.casefold().split()), False) if _is_unit(rest) else None


def _is_unit(text: str) -> bool:
    if not _UNIT.fullmatch(text):
        return False
    names = re.findall(r"[^\W\d_]+", text)
    if names != ["times"] and any(map(_NO_UNITS.fullmatch, names)):
        return False
    return all(len(name) > 1 or name in _SYMBOLS or i > 0 for i, name in enumerate(names))


def _currency(sign: str | None) -> str:
    sign = (sign or "").strip("\\ .").casefold()
    return (
        "dollar"
        if sign.endswith("$") or sign == "usd"
        else {"pounds": "£", "cny": "yuan", "rmb": "yuan"}.get(sign, sign)
    )


def _measure(number: Number) -> tuple[str, Fraction] | None:
    name = number.unit.rstrip(".")
    return _UNITS.get(name) or _UNITS.get(name.removesuffix("s")) or _UNITS.get(name.removesuffix("es"))


def same_numbers(gold: Number, answer: Number, *, asks_percent: bool = True) -> bool:
    """Whether two numbers are the same.

    A unit counts where both have one that is known: 500 cm are 5 m, and 5 cm are not. A percent sign or a
    unit that one of them lacks does not count. But an answer in percent for a number without the sign needs
    a question about percents, unless both are the same share (50% and 0.5).

    A rounded decimal is not the number that it rounds: 0.333333 is not 1/3. Only if the row's own answer is
    a decimal of six or more significant digits, what rounds to it is right.
    """
    measures = _measure(gold), _measure(answer)
    if measures[0] and measures[1]:
        if measures[0][0] != measures[1][0]:
            return False
        return _equal(gold, gold.value * measures[0][1], answer.value * measures[1][1], measures[0][1])
    share = Fraction(1, 100) if gold.is_percent else Fraction(1)
    if _equal(gold, gold.value * share, answer.value / 100 if answer.is_percent else answer.value, share):
        return True
    if gold.is_percent == answer.is_percent or (answer.is_percent and not asks_percent):
        return False
    return _equal(gold, gold.value, answer.value, Fraction(1))


ROUNDED_FIGURES = 6
"""Significant digits from which a row's decimal also stands for the numbers that round to it."""


def _equal(gold: Number, expected: Fraction, value: Fraction, scale: Fraction) -> bool:
    if expected == value:
        return True
    return gold.figures >= ROUNDED_FIGURES and abs(expected - value) <= gold.last_place * scale / 2


_TIME = re.compile(r"(\d{1,2})(?::(\d\d))?(?::(\d\d))?\s*(?:([ap])\.?\s?m\.?)?", re.IGNORECASE)


def clock_time(text: str) -> tuple[tuple[int, int, int], str] | None:
    """The hours, minutes and seconds of a time, and "a", "p" or "" for the half of the day."""
    match = _TIME.fullmatch(_SPACES.sub(" ", _STYLED.sub(r"\1", unwrapped(text))).strip())
    if match is None or not (match[2] or match[4]):
        return None
    return (int(match[1]), int(match[2] or 0), int(match[3] or 0)), (match[4] or "").lower()


_MARKS = [
    (
        re.compile(r"(?<=\\(?:sin|cos|tan|cot|sec|csc))\s*[({]?\s*(\d+(?:\.\d+)?)\s*\^\s*\{?\\circ\s*\}?\s*[)}]?"),
        r"\\left(\\frac{\1\\pi}{180}\\right)",
    ),
    (re.compile(r"\\[dtc]frac(?![a-z])"), r"\\frac"),
    (re.compile(r"(?<=\d)(?:\{,\}|\\[,!])(?=\d{3}(?!\d))"), ""),
    (re.compile(r"(?<![\w.\\])(\d+(?:\.\d+)?|\.\d+)[eE]([+-]?\d{1,4})(?![\w.])"), r"\1 \\cdot 10^{\2}"),
    (re.compile(r"(?<![\d.}])(\d+)\s+(\d+)\s*/\s*(\d+)(?![\d.])"), r"\1\\frac{\2}{\3}"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"<=|=<"), r"\\le "),
    (re.compile(r">="), r"\\ge "),
    (re.compile(r"!="), r"\\ne "),
    (re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])"), r"\\pi "),
    (re.compile(r"(?<![A-Za-z\\])(?:inf|oo|infinity)(?![A-Za-z])"), r"\\infty "),
    (re.compile(r"\\(?:varnothing|emptyset)|\\\{\s*\\\}"), r"\\emptyset "),
    (re.compile(r"\A(?:\\text\{)?\s*all real(?:s| numbers)?\s*\}?\Z", re.IGNORECASE), r"(-\\infty,\\infty)"),
    (re.compile(r"\A\\?\(?\s*[a-z]\s*\\in\s*(?=[-\[({\\\]])"), ""),
    (re.compile(r"\A\\?\\mathbb\s*\{?R\}?\Z"), r"(-\\infty,\\infty)"),
    (re.compile(r"\]\s*([^\[\](){}]+,[^\[\](){}]+)\["), r"(\1)"),
    (re.compile(r"\[([^\[\](){}]+,[^\[\](){}]+)\["), r"[\1)"),
    (re.compile(r"\]([^\[\](){}]+,[^\[\](){}]+)\]"), r"(\1]"),
]  # fmt: skip


def expression(text: str) -> str:
    """An answer as math-verify reads it best: unwrapped, in LaTeX, with its marks in their usual forms."""
    text = unwrapped(text)
    builder = _SET_BUILDER.match(text)
    if builder and re.search(r"[<>]|\\[lg]e", builder[1]):
        text = builder[1]
    text = re.sub(r"\A(?:\\?\$|€|£|¥|₹)\s*(?=[\d.(\\-])", "", text)
    for pattern, mark in _MARKS:
        text = pattern.sub(mark, text)
    return text.strip()


_FORMULA = re.compile(
    r"\$\$(?P<a>.+?)\$\$|\\\[(?P<b>.+?)\\\]|\\\((?P<c>.+?)\\\)|(?<![\\\w])\$(?P<d>[^$\n]+?)(?<!\\)\$(?!\d)",
    re.DOTALL,
)
_PROSE = re.compile(r"(?<![A-Za-z\\])(?!(?:and|or)\b)[A-Za-z]{2,}(?![A-Za-z({])")
_TERM = re.compile(
    r"[\d.,:+\-*/^()=%\\{}$_<>!|\[\]]*(?:(?:\\[A-Za-z]+|sqrt|(?<![A-Za-z])[A-Za-z](?![A-Za-z]))[\d.,:+\-*/^()=%{}$_<>!|\[\]]*)*\Z"
)
_BEGINS = re.compile(r"[\d.(\[{|+\-$\\]|[A-Za-z]\s*[\^=+\-*/<>_(]")


def last_expression(text: str) -> str | None:
    """The last formula or number in prose: what stands between the last dollars, or the last run of terms."""
    text = _STYLED.sub(r" \1 ", as_latex(text[-LONGEST:]))
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


def _run(line: str) -> str | None:
    run: list[str] = []
    for term in reversed(line.replace("**", " ").replace("`", " ").split()):
        term = term.rstrip(",;:!?")
        term = term.removesuffix(".") if not run else term
        if run and term in ("and", "or"):
            run.insert(0, term)
            continue
        if not term or term in ("a", "A", "I") or not _TERM.match(term):
            if any(re.search(r"\d|\\pi|\\infty|\\frac|\\sqrt", part) for part in run):
                break
            run.clear()
        elif run or re.search(r"[\w]", term):
            run.insert(0, term)
    while run and not _BEGINS.match(" ".join(run)):
        run.pop(0)
    joined = " ".join(run).strip()
    return joined if re.search(r"\d|\\pi|\\infty", joined) else None


def has_prose(text: str) -> bool:
    """Whether there are words in a text, and not one formula alone."""
    return _PROSE.search(re.sub(r"\\[A-Za-z]+", " ", _STYLED.sub(r" \1 ", text))) is not None
