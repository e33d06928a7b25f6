"""Eighteen more families, for the pool `mixture_eighteen`.

Their author had read neither the methods nor families.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, timedelta

from families import LETTERS, Draw, Family


def words(text: str) -> list[str]:
    return text.split()


PLACES = words(
    """harbour meadow lantern candle basket ladder bridge garden window pillow bottle hammer needle
    carpet mirror pencil blanket kettle tunnel helmet ribbon saddle wagon anchor barrel feather
    button cradle fountain market pocket rocket tower valley whistle curtain cushion engine fence
    glove jacket jungle kitchen magnet notebook orchard pepper quilt rabbit spider teapot
    umbrella violin walnut yacht island desert castle forest camera banana dragon finger turtle"""
)
PEOPLE = words(
    """Ann Ben Carl Dora Emma Frank Gina Hans Ida John Karen Lucas Maria Nora Oscar Paul Rosa Sam
    Tina Victor Wendy Alice Bob David Eric Fred Grace Helen Ivan Jane Kate Leo Mark Nick Peter Ruth Simon
    Tom Anna Mary"""
)
MONTHS = words("""January February March April May June July August September October November December""")
OPPOSITES = words(
    """hot/cold big/small tall/short fast/slow up/down left/right open/closed light/dark day/night
    young/old rich/poor happy/sad hard/soft wet/dry full/empty strong/weak early/late first/last high/low
    near/far thick/thin clean/dirty good/bad love/hate win/lose buy/sell push/pull begin/end black/white
    loud/quiet true/false deep/shallow sharp/blunt sweet/sour above/below inside/outside north/south
    east/west male/female war/peace life/death friend/enemy question/answer always/never more/less
    wide/narrow brave/cowardly alive/dead success/failure simple/complex rough/smooth ancient/modern
    arrive/depart accept/reject increase/decrease remember/forget public/private"""
)
FRENCH = """chien dog|chat cat|maison house|eau water|pain bread|lait milk|livre book|arbre tree|fleur flower|
    soleil sun|lune moon|terre earth|feu fire|ciel sky|mer sea|montagne mountain|ville city|rue street|
    pont bridge|porte door|fenêtre window|table table|chaise chair|lit bed|roi king|reine queen|homme man|
    femme woman|enfant child|frère brother|sœur sister|père father|mère mother|ami friend|nuit night|
    jour day|semaine week|mois month|année year|hiver winter|été summer|printemps spring|rouge red|
    bleu blue|vert green|noir black|blanc white|jaune yellow|grand big|petit small|nouveau new|vieux old|
    poisson fish|oiseau bird|cheval horse|vache cow|mouton sheep|cochon pig|lapin rabbit|ours bear|
    loup wolf|pomme apple|fromage cheese|viande meat|beurre butter|œuf egg|sel salt|sucre sugar|vin wine|
    bière beer|main hand|pied foot|tête head|œil eye|bouche mouth|nez nose|cœur heart|sang blood|
    argent money|école school|église church|travail work|guerre war|paix peace|mot word|lettre letter|
    temps time|vie life|mort death|amour love|neige snow|pluie rain|vent wind|pierre stone|bois wood|
    fer iron|or gold|clé key|lampe lamp|chapeau hat|chaussure shoe|papier paper|voiture car|bateau boat|
    avion plane|train train|un one|deux two|trois three|quatre four|cinq five|dix ten""".replace("\n", "")
MORSE = dict(
    zip(
        LETTERS,
        words(""".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. ---
    .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."""),
        strict=True,
    )
)
KEYS = {
    letter: str(key)
    for key, letters in zip(range(2, 10), words("abc def ghi jkl mno pqrs tuv wxyz"), strict=True)
    for letter in letters
}
FOUR = words(
    """barn bell boat bone book calf camp card clay coat coin corn crab deer desk dish drum duck dust farm
    film flag foot fork frog gate gift goat harp hill horn jail kite knot lake leaf lime lion mask milk mint
    nail neck nose note palm path pear pine pipe plum pond rice road rock roof rope rose salt sand seed silk
    soap sock soup star swan tail tent tide town trap vine wall wave well wind wing wood wool worm"""
)
SIMPLE = words(
    """dog cat book car tree bird girl boy apple chair table door hat cup pen star ship bed cow pig hen egg
    ball bag bell boat cake card coat coin desk duck farm film flag frog game gate gift goat hand hill horse
    house king lake lamp letter lion map moon nail nest nose note picture plant plate river road rock room
    rose school seed song snake spoon stone street sword tiger town train truck wall window wing word year"""
)
_opp = [tuple(pair.split("/")) for pair in OPPOSITES]
_french = [tuple(pair.split()) for pair in FRENCH.split("|")]


def pick(pairs: Sequence[tuple[str, str]]) -> Draw:
    return lambda rng: rng.choice(pairs)


def mail(rng: random.Random) -> tuple[str, object]:
    name, host = rng.choice(PEOPLE).lower(), rng.choice(PLACES)
    return f"{name}@{host}.{rng.choice(['org', 'com', 'net'])}", host


def grams(rng: random.Random) -> tuple[str, object]:
    n = rng.randint(2, 99)
    return str(n), n * 1000


def older(rng: random.Random) -> tuple[str, object]:
    names, ages = rng.sample(PEOPLE, 3), rng.sample(range(11, 90), 3)
    return ", ".join(f"{n} is {a}" for n, a in zip(names, ages, strict=True)), names[ages.index(max(ages))]


def table(rng: random.Random) -> tuple[str, object]:
    names, points = rng.sample(PEOPLE, 4), rng.sample(range(1, 10), 4)
    text = " | ".join(f"{n} {a}" for n, a in zip(names, points, strict=True))
    return text, names[points.index(min(points))]


def variables(rng: random.Random) -> tuple[str, object]:
    a, b = rng.sample("abcdkmnpqxyz", 2)
    x, y = rng.sample(range(10, 100), 2)
    if rng.random() < 0.5:
        return f"{a} = {x}; {b} = {y}; {a} = {b}; print({a})", y
    return f"{a} = {x}; {b} = {a}; {a} = {y}; print({b})", x


def taller(rng: random.Random) -> tuple[str, object]:
    a, b, c = rng.sample(PEOPLE, 3)
    facts = [f"{a} beats {b}", f"{b} beats {c}"]
    rng.shuffle(facts)
    return f"{facts[0]}, {facts[1]}", a


def keypad(rng: random.Random) -> tuple[str, object]:
    word = rng.choice(FOUR)
    return word, "".join(KEYS[c] for c in word)


def later(rng: random.Random) -> tuple[str, object]:
    start = date(2023, 1, 1) + timedelta(days=rng.randrange(365))
    n = rng.randint(25, 75)
    end = start + timedelta(days=n)
    first, last = (f"{MONTHS[day.month - 1][:3]} {day.day}" for day in (start, end))
    return f"{n} days after {first}", last


def blocks(rng: random.Random) -> tuple[str, object]:
    a, b, c, d = (rng.randint(10, 99) for _ in range(4))
    return f"({a}, {b}) to ({c}, {d})", abs(a - c) + abs(b - d)


def morse(rng: random.Random) -> tuple[str, object]:
    word = rng.choice(FOUR)
    return " ".join(MORSE[c] for c in word), word


def zipped(rng: random.Random) -> tuple[str, object]:
    a, b = rng.sample([w[:3] for w in FOUR], 2)
    return f"{a} and {b}", "".join(x + y for x, y in zip(a, b, strict=True))


def fahrenheit(rng: random.Random) -> tuple[str, object]:
    c = rng.randrange(105, 700, 5)
    return str(c), c * 9 // 5 + 32


def chorus(rng: random.Random) -> tuple[str, object]:
    thing, verb = rng.choice(PLACES), rng.choice(words("see find want love need hear"))
    return f"We {verb} the {thing}!\n" * 4 + f"We {verb} the", thing


def steps(rng: random.Random) -> tuple[str, object]:
    name = rng.choice(words("Step Page Chapter Line Room Lesson Day Week"))
    n = rng.randint(1, 89)
    return "\n".join(f"{name} {i}" for i in range(n, n + 6)) + f"\n{name}", n + 6


def ordinal(rng: random.Random) -> tuple[str, object]:
    n = rng.choice([n for n in range(14, 200) if n % 10 > 3])
    return str(n), f"{n}th"


def simple_plural(rng: random.Random) -> tuple[str, object]:
    word = rng.choice(SIMPLE)
    return word, word + "s"


LEARNABLE = (
    Family("oldest", "Ages: {}. The oldest is", older, 3),
    Family("table_low", "| {} | lowest:", table, 4),
    Family("variables", "{} #", variables, 2),
    Family("grams", "{} kg in grams is", grams, 2),
    Family("opposite", "the opposite of {} is", pick([*_opp, *((b, a) for a, b in _opp)]), 2),
    Family("french", "French {} means", pick(_french), 4),
    Family("winner", "{}. Champion:", taller, 3),
    Family("mail_host", "host of {} is", mail, 4),
)
"""Solved at 9% to 42% before training; they have held-out problems."""
OTHERS = (
    # solved nearly always
    Family("chorus", "{}", chorus),
    Family("steps", "{}", steps),
    Family("simple_plural", "one {}, many", simple_plural, 5),
    Family("ordinal", "{} ->", ordinal, 8),
    # hopeless
    Family("days_later", "{} is", later, 1),
    Family("keypad", "{} on a phone keypad:", keypad, 1),
    Family("zipped", "{} interleaved:", zipped, 1),
    Family("blocks", "blocks from {}:", blocks, 1),
    Family("fahrenheit", "{} °C in °F:", fahrenheit, 1),
    Family("morse", "morse {} is", morse, 1),
)
