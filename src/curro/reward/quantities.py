r"""Numbers, measures, times, dates, ratios and numerals: how they are written, and when they are the same.

A number may be an integer, a decimal, a repeating decimal, a fraction, a mixed number, in words or in
scientific notation, with a currency, a percent sign or a unit. Such numbers are compared exactly, as
fractions. Everything else is left to math-verify.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction

from curro.reward.notation import (
    CURRENCIES,
    LONGEST,
    SCALES,
    SPACES,
    STYLED,
    UNIT_SYMBOLS,
    pairs,
    rewritten,
    rules,
    unwrapped,
    words,
)

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_POWER = r"10\s*(?:\^|\*\*)\s*[{(]{0,2}\s*(?P<POWER>[+-]?\s*\d{1,4})(?!\d)\s*[)}]{0,2}"
_CURRENCY = (
    rf"(?:US|A|C|HK|NT|R)?\\?\$|\\?[{CURRENCIES}]|\\(?:euro|pounds|yen)\b"
    r"|(?:USD|EUR|GBP|INR|RMB|CNY|JPY|Rs\.?)(?=\s?\d)"
)
_NUMBER = re.compile(
    rf"""(?P<sign>[+-])?\s*(?P<currency>{_CURRENCY})?\s*(?P<inner_sign>[+-])?\s*(?:
      (?P<mantissa>{_DIGITS})\s*(?:\\times|\\cdot|\*|[x])\s*{_POWER.replace("POWER", "mantissa_power")}
    | (?P<e_mantissa>{_DIGITS})[eE](?P<e>[+-]?\d{{1,4}})(?!\d)
    | {_POWER.replace("POWER", "power")}
    | (?:(?P<whole>\d+)\s+(?:and\s+)?)?(?P<top>{_DIGITS})\s*/\s*(?P<bottom>{_DIGITS})(?![\d.]*/)
    | (?P<plain>{_DIGITS})
    )(?P<rest>.*)""",
    re.VERBOSE | re.DOTALL,
)
_FRACTION = re.compile(
    rf"(\d*)\s*\\[dtc]?frac\s*\{{\s*([+-]?)({_DIGITS})\s*\}}\s*\{{\s*({_DIGITS})\s*\}}(?!\s*\.?\d)"
)
_THOUSANDS = re.compile(r"(?<=\d)(?:\{,\}|,?\\[,!;: ]|\\thinspace|[ _'~](?=\d{3}(?:\D|\Z)))(?=\d{3}(?!\d))")
_PERCENT = re.compile(
    r"\s*(?:\\?%|percent\b|per\s?cent\b|percentage(?:\s+points?)?\b|pct\b\.?)\s*", re.IGNORECASE
)
_DEGREE = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|\\degree\b|\\deg\b)\s*(?P<scale>[CFKcfk]\b)?")
_WORD = r"(?:[A-Za-zµΩ$]|\\mu\b|\\Omega\b|[^\W\d_])[^\W\d_]*\.?"
_RAISED_UNIT = rf"{_WORD}(?:\s*\^\s*\{{?\s*-?[1-4]\s*\}}?(?!\d)|[23](?!\d))?"
_UNIT = re.compile(rf"\s*/?\s*{_RAISED_UNIT}(?:(?:\s*(?:/|\\cdot|\*|-)\s*|\s+){_RAISED_UNIT}){{0,7}}\s*")
_CLAUSE = re.compile(
    r"\s*(?:[,;]\s*(?:as|because|since|so|for|which|where|by|from)\b.*|(?<!/)\(\s*[A-Za-z][^()\d]+\)\s*)\Z",
    re.DOTALL,
)
_NO_UNITS = re.compile(
    r"and|or|to|times|over|plus|minus|than|not|is|are|squared|cubed|if|when|either|mod|modulo|choose"
    r"|divided|until|factorial|most|least|sqrt|sin|cos|tan|log|ln|exp|pi|infinity",
    re.IGNORECASE,
)
"""Words after a number that make it a part of something else."""

_SCALE = re.compile(rf"\s*({'|'.join(SCALES)})\b", re.IGNORECASE)

_NAMED = {
    "length": "m 1 meter 1 metre 1 in .0254 inch .0254 inche .0254 ft .3048 foot .3048 feet .3048 yd .9144 "
    "yard .9144 mi 1609.344 mile 1609.344",
    "mass": "g 1 gram 1 lb 453.59237 oz 28.349523125 ounce 28.349523125 tonne 1e6",
    "time": "s 1 sec 1 second 1 min 60 minute 60 h 3600 hr 3600 hour 3600 day 86400 week 604800",
    "volume": "l 1 liter 1 litre 1 gallon 3.785411784 quart .946352946 pint .473176473",
    "dollars": "dollar 1 usd 1 buck 1 cent .01 ¢ .01",
    "euros": "€ 1 euro 1 eur 1",
    "sterling": "£ 1 gbp 1",
    "yen": "¥ 1 yen 1",
    "rupees": "₹ 1 rupee 1 inr 1 rs 1",
    "temperature in C": "°c 1 celsius 1",
    "temperature in K": "k 1 kelvin 1",
    "temperature in F": "°f 1 fahrenheit 1",
    "angle": "degree 1 deg 1",
    "angle in radians": "radian 1 rad 1",
    "charge": "coulomb 1",
    "current": "amp 1 ampere 1",
    "field": "tesla 1 gauss 1e-4",
    "capacitance": "farad 1 µf 1e-6 nf 1e-9 pf 1e-12",
    "amount": "mol 1 mole 1",
    "parts": "ppm 1 ppb 1e-3",
    "data": "bit 1 kbit 1e3 mbit 1e6 gbit 1e9 byte 8 kb 8e3 mb 8e6 gb 8e9 tb 8e12",
    "level": "db 1",
    "level over 1 mW": "dbm 1",
    "force": "n 1 newton 1",
    "energy": "j 1 joule 1 wh 3600 cal 4.184 ev 1.602176634e-19 mev 1.602176634e-13",
    "frequency": "hz 1 hertz 1 mhz 1e6",
    "turns": "rpm 1 rps 60",
    "pressure": "pa 1 pascal 1 mpa 1e6 bar 1e5 mbar 100 atm 101325 psi 6894.757 mmhg 133.322 torr 133.322",
    "land": "acre 4046.8564224 hectare 1e4 ha 1e4",
    "time before noon": "am 1 a.m 1",
    "time after noon": "pm 1 p.m 1",
    "power": "w 1 watt 1",
    "voltage": "v 1 volt 1",
    "resistance": "ω 1 ohm 1 kω 1e3",
    "calendar": "month 1 year 12 decade 120 century 1200 centurie 1200",
}  # fmt: skip
_PREFIXED = (
    ("m g s l v mol", "k 1e3 c 1e-2 m 1e-3 µ 1e-6 n 1e-9 p 1e-12"),
    ("j n w hz pa ev wh cal", "k 1e3 g 1e9"),  # without case, mJ may be a millijoule or a megajoule
    (
        "meter metre gram second liter litre joule newton watt volt hertz pascal byte bit mole amp ampere "
        "farad",
        "giga 1e9 mega 1e6 kilo 1e3 centi 1e-2 milli 1e-3 micro 1e-6 nano 1e-9 pico 1e-12",
    ),
)
_UNITS: dict[str, tuple[str, Fraction]] = {
    name: (kind, Fraction(factor)) for kind, names in _NAMED.items() for name, factor in pairs(names)
}
_UNITS |= {
    prefix + unit: (_UNITS[unit][0], _UNITS[unit][1] * Fraction(factor))
    for units, prefixes in _PREFIXED
    for unit in units.split()
    for prefix, factor in pairs(prefixes)
    if prefix + unit not in _UNITS
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


def number(text: str, like: Number | None = None) -> Number | None:
    """The number that a text is, perhaps with a unit; None for any other text.

    Args:
        like: the number that the text may be. If it is a decimal, a comma may be the decimal point, as in
            3,14; if it is 1,000 or more, a k may be a thousand, which is a variable otherwise.
    """
    text = unwrapped(text)
    if len(text) > LONGEST:
        return None
    negative = re.match(r"(?:negative|minus)\s+", text, re.IGNORECASE)
    if negative:
        size = number(text[negative.end() :], like)
        return None if size is None else replace(size, value=-size.value)
    spelled = _SPELLED.match(text)
    if spelled:
        rest = text[spelled.end() :]
        value = _spelled(spelled[0].casefold())
        if value is None or not (
            _PERCENT.fullmatch(rest) or not rest or (_THING.fullmatch(rest) and _is_unit(rest))
        ):
            return None
        text = f"{value}{rest}"
    if not any(map(str.isdecimal, text)):
        return None
    text = rewritten(text, _WRITTEN)
    if "$" in text or (like is not None and abs(like.value) >= 1000):
        text = re.sub(r"(?<=\d)k\b(?!/)", " thousand", text)
        text = re.sub(r"(?<=\d)M\b(?!/)", " million", text)
    if like is not None and like.figures:
        text = re.sub(
            r"\A([+-]?\d+)(?:,|\{,\})(\d{1,2}|\d{4,}|(?<=\A0,)\d+)(?=\s*[^\d,.]*\Z)", r"\1.\2", text
        )
    parts = re.split(r"(?<=[A-Za-z.])\s*,?\s*(?:and\s+)?(?=\d)", STYLED.sub(r" \1 ", text))
    return _plain_number(text) or (_sum_of_measures(parts) if 1 < len(parts) < 4 else None)


_SMALL = {
    word: int(value)
    for word, value in pairs(
        "zero 0 one 1 two 2 three 3 four 4 five 5 six 6 seven 7 eight 8 nine 9 ten 10 eleven 11 twelve 12 "
        "thirteen 13 fourteen 14 fifteen 15 sixteen 16 seventeen 17 eighteen 18 nineteen 19 twenty 20 "
        "thirty 30 forty 40 fifty 50 sixty 60 seventy 70 eighty 80 ninety 90"
    )
}
_ORDINALS = {
    word: int(value)
    for word, value in pairs(
        "first 1 second 2 third 3 fourth 4 fifth 5 sixth 6 seventh 7 eighth 8 ninth 9 tenth 10 eleventh 11 "
        "twelfth 12 thirteenth 13 fourteenth 14 fifteenth 15 sixteenth 16 seventeenth 17 eighteenth 18 "
        "nineteenth 19 twentieth 20 thirtieth 30"
    )
}
_PARTS = {"half": 2, "halves": 2, "quarter": 4} | {w: n for w, n in _ORDINALS.items() if n > 2}
_THING = re.compile(r"\s+[a-z]{3,}", re.IGNORECASE)
_NUMBER_WORD = "|".join(
    [*_SMALL, "dozen", "hundred", "thousand", "million", *(f"{w}s?" for w in _PARTS), "first"]
)
_SPELLED = re.compile(
    rf"(?:\ban?\s+)?(?<![a-z])(?:(?:{_NUMBER_WORD})(?:[\s-]+(?:and\s+)?(?:an?\s+)?)?)+\b(?<=[a-z])",
    re.IGNORECASE,
)


def last_spelled(text: str) -> str | None:
    """The one number above two that is in words in the last line of a text without digits."""
    if re.search(r"\d", text):
        return None
    spelled = [m[0] for m in _SPELLED.finditer(text.strip().rpartition("\n")[2][-LONGEST:])]
    values = [words for words in spelled if (_spelled(words.casefold()) or 0) > 2]
    return values[0] if len(values) == 1 else None


def measure(unit: str) -> tuple[str, Fraction] | None:
    """What a unit that `same_numbers` converts measures, and its size; None for other texts."""
    one = number(f"1 {unit}")
    return _measure(one) if one else None


def _spelled(text: str) -> Fraction | None:
    """The value of a number in words: "one hundred and three", "two and a half", "one third", "third"."""
    names = re.findall(r"[a-z]+", text)
    if names[-1] in _ORDINALS and (len(names) == 1 or ("-" in text and names[0] in ("twenty", "thirty"))):
        return Fraction(_ORDINALS[names[-1]] + (_SMALL[names[0]] if len(names) == 2 else 0))
    total = group = Fraction(0)
    for name in names:
        if name in _SMALL:
            group += _SMALL[name]
        elif name in ("thousand", "million"):
            total, group = total + max(group, Fraction(1)) * SCALES[name], Fraction(0)
        elif name in ("dozen", "hundred"):
            group = (group or Fraction(1)) * SCALES[name]
        elif (bottom := _PARTS.get(name) or _PARTS.get(name.removesuffix("s"))) is not None:
            is_added = re.search(r"and\s+a\b", text)
            group = group + Fraction(1, bottom) if is_added else max(group, Fraction(1)) / bottom
        elif name not in ("and", "a", "an"):
            return None
    return total + group


def _repeating(match: re.Match[str]) -> str:
    """A repeating decimal as a fraction."""
    whole, fixed, period = match["whole"] or "0", match["fixed"], re.sub(r"\D", "", match["period"])
    value = Fraction(
        int(whole + fixed + period) - int(whole + fixed), (10 ** len(period) - 1) * 10 ** len(fixed)
    )
    return str(value)


_WRITTEN = rules(
    (
        r"(?P<whole>\d*)\.(?P<fixed>\d*?)(?P<period>\\overline\s*\{\d+\}|\\bar\s*\{?\d+\}?"
        r"|(?:\\dot\s*\{?\d\}?)+|\(\d+\)|(?:(?P<same>\d{1,6}?)(?P=same){2,}|(?<=\.)(?P<pair>\d{2,6}?)(?P=pair))(?=\.\.\.|\\l?dots))(?:\.\.\.|\\l?dots)?(?=\\?%?\Z)",
        _repeating,
    ),
    (  # 1.234.567 and 1.234,56
        r"(?<![\d.,])(\d{1,3})((?:\.\d{3})+)(?:,(\d+)|(?<=\.\d{3}\.\d{3}))(?![\d.,])",
        lambda m: m[1] + m[2].replace(".", "") + (f".{m[3]}" if m[3] else ""),
    ),
    (r"\A(\d{1,2})((?:,\d{2})+,\d{3})(?![\d,])", lambda m: m[1] + m[2].replace(",", "")),
    (r"\A\(([^(),]*)\)\Z", r"\1"),
    (r"\A\{(\\frac\{[^{}]*\}\{[^{}]*\})\}\Z", r"\1"),
    (r"\A(\d{1,3}(?: \d{3})+),(\d{1,2}|\d{4,})\Z", lambda m: f"{m[1].replace(' ', '')}.{m[2]}"),
    (r"(?<=[A-Za-z])\^\s*\{\s*(-?[1-4])\s*\}", r"^\1"),
    (r"(?<=[a-z]{2}) (squared|cubed)\b", lambda m: "^2" if m[1] == "squared" else "^3"),
    (r"(?<=\d)(?:\^\s*\{?)?\s*(?:\\text\s*\{)?(?:st|nd|rd|th)\}{0,2}\Z", ""),
)


def _sum_of_measures(parts: Sequence[str]) -> Number | None:
    """1 hour 30 minutes, 5 feet 6 inches."""
    numbers = [_plain_number(part) for part in parts]
    measures = [_measure(part) if part else None for part in numbers]
    known = [(n, m) for n, m in zip(numbers, measures, strict=True) if n and m]
    kinds = {kind for _, (kind, _) in known}
    factors = [factor for _, (_, factor) in known]
    if len(known) < len(parts) or len(kinds) > 1 or factors != sorted(factors, reverse=True):
        return None
    total = sum((n.value * factor for n, (_, factor) in known), Fraction(0))
    return Number(total / factors[0], unit=known[0][0].unit)


def _plain_number(text: str) -> Number | None:
    text = _FRACTION.sub(r"\1 \2\3/\4", _THOUSANDS.sub("", STYLED.sub(r" \1 ", text)))
    text = " ".join(SPACES.sub(" ", text).split())
    match = _NUMBER.match(text)
    if match is None:
        return None
    scale = _SCALE.match(match["rest"])
    unit = _unit(match["rest"][scale.end() :] if scale else match["rest"])
    value, last_place, figures = _value(match)
    if unit is None or value is None:
        return None
    sign = -1 if (match["sign"] == "-") != (match["inner_sign"] == "-") else 1
    factor = SCALES[scale[1].casefold()] if scale else 1
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
    top, bottom = (Fraction(match[part].replace(",", "").rstrip(".")) for part in ("top", "bottom"))
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
    rest = re.sub(r"\\frac\s*\{([^{}\d]+)\}\s*\{([^{}\d]+(?:\^\s*[1-4]\s*)?)\}", r"\1/\2", rest)
    degree = _DEGREE.fullmatch(rest)
    if degree:
        return f"°{degree['scale'].lower()}" if degree["scale"] else "degree", False
    rest = re.sub(r"^[-]\s*", " ", rest)  # 5-gallon
    rest = re.sub(r"\{\}|\^\s*\{?\s*\\circ\s*\}?(?=\s*[CFK]\b)", " ", rest)
    rest = re.sub(r"(?<=/)\s*\(([^()]+)\)", r"\1", rest.replace("\\Omega", "Ω"))  # J/(kg K)
    if rest in ("$", "€", "£", "¥", "₹", "¢"):
        return _currency(rest), False
    return (" ".join(rest.casefold().split()), False) if _is_unit(rest) else None


def _is_unit(text: str) -> bool:
    if not _UNIT.fullmatch(text):
        return False
    names = re.findall(r"[^\W\d_]+", text)
    if names != ["times"] and any(map(_NO_UNITS.fullmatch, names)):
        return False
    return all(
        len(name) > 1 or name in UNIT_SYMBOLS or not name.isascii() or (name == "a" and i > 0)
        for i, name in enumerate(names)
    )


def _currency(sign: str | None) -> str:
    sign = (sign or "").strip("\\ .").casefold()
    return (
        "dollar"
        if sign.endswith("$") or sign == "usd"
        else {"pounds": "£", "cny": "yuan", "rmb": "yuan"}.get(sign, sign)
    )


def _measure(number: Number) -> tuple[str, Fraction] | None:
    """What is measured, such as `length^2` or `length/time`, and the unit's size; None if it is not known."""
    text = _WRITTEN_UNITS.get(number.unit, number.unit).replace(r"\mu ", "µ").replace(r"\cdot", " ")
    text = re.sub(r"\bdegrees? (celsius|fahrenheit|c|f)\b", lambda m: f"°{m[1][0]}", text)
    text = re.sub(r"\b(square|cubic|sq|cu)\b\.?\s*(\w+)", lambda m: f"{m[2]}^{2 + (m[1][0] == 'c')}", text)
    size, powers, sign = Fraction(1), Counter[str](), 1
    parts = re.findall(r"([^\W\d_]+|[°¢€£¥₹][cf]?|/)\.?\s*(?:\^?\s*\{?\s*(-?\d)\s*\}?)?", text)
    for name, power in parts:
        if name in ("/", "per"):
            sign = -1
            continue
        known = _UNITS.get(name) or _UNITS.get(name.removesuffix("s")) or _UNITS.get(name.removesuffix("es"))
        if known is None:
            return None
        size *= known[1] ** (sign * int(power or 1))
        powers[known[0]] += sign * int(power or 1)
    for kind, length, unit in (("volume", 3, Fraction(1, 1000)), ("land", 2, Fraction(1))):
        power = powers.pop(kind, 0)
        powers["length"] += length * power
        size *= unit**power
    return (" ".join(f"{kind}^{n}" for kind, n in sorted(powers.items()) if n), size) if parts else None


_WRITTEN_UNITS = dict(
    pairs(
        "mph mi/h kph km/h kmh km/h bps bit/s kbps kbit/s mbps mbit/s gbps gbit/s "
        "a.m am p.m pm a.m. am p.m. pm"
    )
)


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


Time = tuple[tuple[int, int, int], str]
Date = tuple[int, int, int]


def clock_time(text: str) -> Time | None:
    """The hours, minutes and seconds of a time, and "a", "p" or "" for the half of the day."""
    text = SPACES.sub(" ", STYLED.sub(r"\1", unwrapped(text))).replace("{:}", ":").replace(" : ", ":")
    text = {"noon": "12:00 pm", "midnight": "12:00 am"}.get(text.casefold().removeprefix("12 "), text)
    match = _TIME.fullmatch(text.replace("o'clock", ":00").replace(" :00", ":00").strip())
    if match is None or not (match[2] or match[4]):
        return None
    return (int(match[1]), int(match[2] or 0), int(match[3] or 0)), (match[4] or "").lower()


def same_times(gold: Time, answer: Time) -> bool:
    """Whether two times can be the same: 3:45 pm, 15:45 and 3:45. Two without a half must be equal."""
    if not (gold[1] or answer[1]):
        return gold[0] == answer[0]
    return bool(_readings(gold) & _readings(answer))


def _readings(time: Time) -> set[tuple[int, int, int]]:
    """The times of a day of 24 hours that a time may mean."""
    (hour, *rest), half = time
    if not half and not 1 <= hour <= 12:
        return {time[0]}
    return {(hour % 12 + 12 * (name == "p"), rest[0], rest[1]) for name in half or "ap"}


_MONTHS = [
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
]
_NUMBERED = {name: f"m{i}" for i, month in enumerate(_MONTHS, start=1) for name in (month, month[:3])}
"""What stands for the names of months, which `strptime` reads in the machine's language."""
_DATES = (
    *("m%m %d %Y", "%d m%m %Y", "%d of m%m %Y", "%Y-%m-%d", "%Y/%m/%d"),
    *("%m/%d/%Y", "%d/%m/%Y"),  # month first, unless there is no such month
)


def date(text: str) -> Date | None:
    """The month, day and year (0 where there is none) of a date: "July 4th, 2024", "4 July", "2024-07-04"."""
    text = re.sub(r"\A(?:[a-z]+day),?\s+", "", words(text)).removeprefix("the ")
    text = re.sub(r",(?=\s*\d{4}\Z)|(?<=[a-z])\.", " ", text)
    text = re.sub(r"[a-z]+", lambda name: _NUMBERED.get(name[0], name[0]), text)
    has_year = re.search(r"\d{4}", text) is not None
    for form in _DATES:
        try:
            found = datetime.strptime(text if has_year else f"{text} 2000", form)
        except ValueError:
            continue
        return found.month, found.day, found.year if has_year else 0
    return None


def same_dates(gold: Date, answer: Date) -> bool:
    """Whether two dates are the same; a year that one of them lacks does not count."""
    return gold[:2] == answer[:2] and (gold[2] == answer[2] or 0 in (gold[2], answer[2]))


_RATIO = re.compile(r"\d+(?:\.\d+)?(?:\s*(?::|\{:\}|\\colon|\bto\b)\s*\d+(?:\.\d+)?)+")


def ratio(text: str) -> list[Fraction] | None:
    """The shares of a ratio: 2:3, 2 to 3, 2:3:5, each by the first."""
    text = STYLED.sub(r"\1", unwrapped(text))
    if not _RATIO.fullmatch(text):
        return None
    shares = [Fraction(share) for share in re.findall(r"\d+(?:\.\d+)?", text)]
    return [share / shares[0] for share in shares] if shares[0] else None


_BASE = re.compile(
    r"\(?(?P<digits>(?=[A-Fa-f]*\d|[A-F]{2})[0-9A-Fa-f]+(?:,[0-9A-Fa-f]{3})*)\)?\s*(?:_\s*\{?\s*\(?(?P<base>\d+|[a-z]+)\)?\s*\}?|\(?\s*(?:in\s+)?base\s*(?P<word>\d+|[a-z]+)\)?)"
)


def numeral(text: str) -> tuple[str, str] | None:
    """The digits and the base of a numeral with a base: 1010_2, 2F_{16}, 0x2F, 1010 (base 2)."""
    text = STYLED.sub(r"\1", SPACES.sub(" ", unwrapped(text)))
    prefixed = re.fullmatch(r"0([bxo])([0-9A-Fa-f]+)", text)
    if prefixed:
        return prefixed[2].upper(), {"b": "2", "o": "8", "x": "16"}[prefixed[1]]
    match = _BASE.fullmatch(text)
    if match is None:
        return None
    base = match["base"] or match["word"]
    base = str(_SMALL.get(base, base))
    return (match["digits"].upper().replace(",", ""), base) if base.isdecimal() else None
