"""Mathematical equality by kinds of answers; and hostile text, in any thread."""

# ruff: noqa: RUF001

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curro.reward import choices, resolve_reward
from curro.reward.answers import accepted
from curro.reward.checks import checks
from curro.reward.notation import symbolic

MATH = resolve_reward("math")


@pytest.fixture(scope="module", autouse=True)
def all_in_time():
    """However long the workers of a busy machine take to start, every answer of a batch is checked."""
    pool = checks("curro.reward.math_check")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "scores", partial(pool.scores, seconds=900.0))
        yield


def score(completion: str, answer: str | None) -> float | None:
    return MATH.score([completion], [{"answer": answer, "key": "k"}])[0]


RIGHT: dict[str, list[tuple[str, str]]] = {
    "words and other signs": [
        (r"\boxed{3 over 4}", "3/4"), (r"\boxed{{3 \over 4}}", "0.75"), ("the square root of 2", r"\sqrt2"),
        ("3 squared", "9"), ("2 to the power of 10", "1024"), ("x cubed", "x^3"),
        ("&lt;answer&gt;42&lt;/answer&gt;", "42"), (r"\boxed{x &lt; 5}", "x<5"), (r"\boxed{a dozen}", "12"),
        ("half a dozen", "6"), ("a third", "1/3"), ("There are 2 dozen eggs.", "24"),
        ("It takes him twenty-four minutes.", "24"), ("six eggs", "6"), (r"\boxed{10p}", "10"),
        ("5'6\"", "66 inches"), (r"\boxed{60^\circ 30'}", r"60.5^\circ"), ("1 in 4", "1/4"),
        ("It is $64.00 (after the 20% discount).", "64"), ("The smallest is 12 (since 11 fails).", "12"),
        (r"\boxed{3.5 (7/2)}", "7/2"), (r"\boxed{\frac{7}{2}\ (3.5)}", "7/2"),
        (r"\boxed{2\pi (≈ 6.28)}", r"2\pi"), (r"\boxed{C_5^2}", "10"), (r"\boxed{_5C_2}", "10"),
        ("5 choose 2", "10"), (r"\boxed{\lg 2}", r"\log_{10} 2"), (r"\boxed{4\pi\text{ cm}^3}", r"4\pi"),
        (r"66.\overline{6}\%", r"66\frac23\%"), (r"\boxed{0 < x \le 5 and x \ne 2}", r"(0,2)\cup(2,5]"),
        (r"\boxed{\text{All real numbers except }2}", r"(-\infty,2)\cup(2,\infty)"),
        (r"\boxed{\{3k+1 : k \in \mathbb{Z}\}}", "3k+1"), (r"1:\sqrt{3}:2", r"1:\sqrt3:2"),
        (r"\boxed{5 µm}", "5e-6 m"), (r"\boxed{2 GHz}", "2e9 Hz"), (r"\boxed{€1.234,56}", "1234.56"),
        ("It is 0.25, or 25%.", "0.25"), ("B is the right answer, since A and C are wrong.", "B"),
        (r"\boxed{2^{-1}}", "one half"), (r"\boxed{\log_e 2}", r"\ln 2"),
        (r"\boxed{\cos\left(60^\circ\right)}", "1/2"), ('{"answer": [1, 2], "confidence": 3}', "[1, 2]"),
    ],
    "names that count": [
        (r"\boxed{(R-r)(R+r)}", "R^2-r^2"), (r"\boxed{\frac{dy}{dx}=x+x}", r"\frac{dy}{dx}=2x"), ("2r", "2R"),
        ("3 out of 4", "3/4"),
    ],
    "names that do not count": [
        (r"\boxed{x=-1 \text{ or } x=2}", r"x_{1}=-1, x_{2}=2"), (r"\boxed{n\pi}", r"k\pi, k \in \mathbb{Z}"),
        (r"\boxed{\frac{\pi}{2}+2k\pi}", r"2k\pi+\frac{\pi}{2} (k\in Z)"),
        (r"\boxed{C_{10}^3}", "120"), (r"\boxed{{}_{10}C_3}", "120"),
    ],
    "what JSON and Python took for escapes": [
        ("\x08oxed{42}", "42"), ("\\boxed{\x0crac{1}{2}}", "1/2"), (r"\boxed{\frac12}", "\x0crac{1}{2}"),
    ],
    "answer tags": [
        ("<answer>42</answer>", "42"), ("<answer>42</answer", "42"), ("<think>x</think><answer>42", "42"),
        ("<answer>The total is 42 dollars.</answer>", "42"), ("<final_answer>42</final_answer>", "42"),
        ("<answer>42</answer><|im_end|>", "42"), ("<think>a</think>\n<answer>(2, 3)</answer>", "(2,3)"),
    ],
    "thoughts": [
        (r"<thinking>\boxed{41}</thinking>\boxed{42}", "42"),
        ("<reasoning>\n#### 41\n</reasoning>\n42", "42"), ('perhaps \\boxed{41}</think>\n42', "42"),
        (r"<think>a<think>\boxed{41}</think>\boxed{41}</think>\boxed{42}", "42"),
        (
            r"<|begin_of_thought|>\boxed{41}<|end_of_thought|>"
            r"<|begin_of_solution|>It is \boxed{42}.<|end_of_solution|>", "42",
        ),
        (r"<|channel|>analysis<|message|>\boxed{41}<|end|><|channel|>final<|message|>42<|return|>", "42"),
        (r"analysisWe think \boxed{41}assistantfinalThe answer is 42", "42"),
        (r"◁think▷\boxed{41}◁/think▷42", "42"), (r"[THINK]\boxed{41}[/THINK]42", "42"),
        ('<think>\n<think>\\boxed{41}</think>42', "42"),
    ],
    "tiny and huge numbers": [
        (r"\boxed{1.0\times 10^{-7}}", r"1\times10^{-7}"), (r"\boxed{0}", "0.0"),
        (r"\boxed{2^{-30}}", r"\frac{1}{2^{30}}"), (r"\boxed{\frac{1}{1073741824}}", "2^{-30}"),
        (r"\boxed{6.022\times10^{23}}", "6.022e23"),
        (r"\boxed{1.6\times10^{-19}\text{ C}}", r"1.6\times10^{-19}"), (r"\boxed{0.5}", "1/2"),
        (r"\boxed{\frac{1}{3}}", "0.333333"),
    ],
    "intervals and inequalities": [
        (r"\boxed{[3,\infty)}", r"x\ge 3"), (r"\boxed{x \geq 3}", r"[3,\infty)"),
        (r"\boxed{x≥3}", r"[3,\infty)"), (r"\boxed{[0, 1]}", r"0 \leq x \leq 1"),
        (r"\boxed{\{x | x>0\}}", r"(0,\infty)"), (r"\boxed{]0,1[}", "(0,1)"),
        (r"\boxed{2\leq k\leq 5}", "[2,5]"),
        (r"\boxed{(-\infty,-1]\cup[1,\infty)}", r"x\le -1 \text{ or } x\ge 1"),
        (r"\boxed{x \neq 2}", r"(-\infty,2)\cup(2,\infty)"),
    ],
    "scientific notation": [
        (r"\boxed{1.2×10⁵}", "120000"), (r"\boxed{1.2*10^5}", "120000"), (r"\boxed{1.2 x 10^5}", "120000"),
        (r"\boxed{1.2\cdot10^{5}}", "1.2e5"), (r"\boxed{1E-3}", "10^{-3}"),
        (r"\boxed{1{,}200{,}000}", "1.2e6"),
    ],
    "money, units, percents and times": [
        (r"\boxed{10 USD}", "10"), (r"\boxed{¥10}", "10"), (r"\boxed{₹500}", "500"),
        (r"\boxed{Rs. 500}", "500"), (r"\boxed{20 square feet}", "20"), (r"\boxed{20 cm²}", "20"),
        (r"\boxed{60 mph}", "60"), (r"\boxed{60 miles per hour}", "60"), (r"\boxed{3 PM}", "3:00 pm"),
        (r"\boxed{12 units}", "12"), (r"\boxed{12\pi\text{ cm}^3}", r"12\pi"),
        (r"\boxed{2\sqrt{3} cm}", r"2\sqrt{3}"), ("#### 10 years old", "10"), (r"\boxed{150 pounds}", "150"),
        (r"\boxed{$\frac{3}{4}$ cup}", "3/4"), (r"\boxed{1/4 of the pizza}", "1/4"),
        (r"\boxed{5 times}", "5"), (r"\boxed{18 students are left}", "18"),
    ],
    "choices": [
        (r"\boxed{\textbf{B}}", "B"), ("The correct option is (B).", "B"), ("<answer>B. Paris</answer>", "B"),
        ("The answer is option B", "B"), ("I choose B.", "B"), ("Answer: (b)", "B"),
        (r"Therefore, the correct answer is $\boxed{B}$.", "B"), ("(A) is wrong, (C) is wrong, so (B)", "B"),
        ("B is correct", "B"), (r"\boxed{AC}", "A, C"), (r"\boxed{A and C}", "AC"), ("**D**", "D"),
        ("Answer: D", "D) 12"), ("<think>C</think>D", "D"), ("答案：B", "B"),
    ],
    "Unicode": [
        (r"\boxed{–5}", "-5"), (r"\boxed{√(x+1)}", r"\sqrt{x+1}"), (r"\boxed{¾}", "3/4"),
        (r"\boxed{10⁻³}", "0.001"), (r"\boxed{x₁}", "x_1"), (r"\boxed{１２．５}", "12.5"),
        ('\\boxed{1\xa0234}', "1234"), ('\\boxed{1\u202f234}', "1234"), (r"\boxed{∅}", r"\emptyset"),
        (r"\boxed{α+β}", r"\alpha+\beta"), (r"\boxed{𝑥+1}", "x+1"), (r"\boxed{∛8}", "2"),
        (r"\boxed{±2}", r"\pm 2"), (r"\boxed{8÷2}", "4"), (r"\boxed{（1，2）}", "(1,2)"),
        (r"\boxed{x ∈ [0, 1]}", "[0,1]"), (r"\boxed{3∕4}", "3/4"), ("Answer: −½", "-1/2"),
        (r"\boxed{∞}", r"\infty"), (r"\boxed{٣٤}", "34"), ('\u200b42', "42"), (r"\boxed{ℝ}", r"\mathbb{R}"),
        ('\\boxed{5\u2009000}', "5000"), (r"\boxed{5’000}", "5000"),
    ],
    "equations": [
        (r"\boxed{x=2}", "2"), (r"\boxed{2=x}", "2"), (r"\boxed{2+3=5}", "5"),
        (r"\boxed{1/3 \approx 0.333}", "1/3"), (r"\boxed{f(x)=2x}", "2x"), (r"\boxed{y=2x+1}", "2x+1"),
        (r"\boxed{x = 2}", "x=2"), (r"\boxed{x=1=1}", "1"), (r"\boxed{5=5}", "5"),
        (r"\boxed{10=2\cdot5}", "10"), (r"\boxed{x+y=5}", "5"), (r"\boxed{\sqrt{4}=2}", "2"),
        ("so 2 + 3 = 5", "5"), (r"\boxed{n=10}", "10"), (r"\boxed{AB=10}", "10"),
        (r"\boxed{\angle A = 30^\circ}", "30"), (r"\boxed{m = \frac{1}{2}}", "0.5"),
        (r"\boxed{P(X=2)=0.3}", "0.3"), (r"\boxed{100 = 99 + 1 = 100}", "100"), (r"\boxed{S=1+2+3=6}", "6"),
        (r"\boxed{x = \pi \approx 3.14}", r"\pi"), (r"\boxed{2x+1=5}", "5"), (r"\boxed{x^2=5}", "5"),
    ],
    "lists of answers and sets": [
        (r"\boxed{0.5}", "['1/2', '0.5']"), (r"\boxed{1 \text{ and } 2}", "1,2"),
        (r"\boxed{1} and \boxed{2}", "1,2"), (r"$\boxed{1}$, $\boxed{2}$", "2,1"), (r"\boxed{\pm 2}", "-2,2"),
        (r"\boxed{1;2}", "1,2"), (r"\boxed{x_1=1, x_2=2}", "1,2"),
        (r"\boxed{\frac12, \frac13}", r"0.5, \frac{1}{3}"), (r"\boxed{18}", "[\"\", \"18\"]"),
    ],
    "empty answers": [
        ("0", "0"), (r"\boxed{no solution}", "no solution"), (r"\boxed{\text{No solution}}", "no solution"),
    ],
    "wrappers and prose": [
        ("He saw $3$ cats, and then came $5$ dogs.", "5"),
        (r"\boxed{\dfrac{1}{2}}", r"\tfrac12"), (r"\fbox{5}", "5"), (r"\boxed 5", "5"),
        (r"\boxed{\displaystyle \frac12}", "1/2"), ('**Final Answer:**\n\\[\n42\n\\]', "42"),
        ("### Answer\n42", "42"), ("#### Step 2: add\nThe answer is 42", "42"),
        ("#### 42\nI hope this helps", "42"), ("The answer is 42, because 6*7=42.", "42"),
        (r"\boxed{101}", "101_2"), (r"\boxed{5!}", "120"),
    ],
}  # fmt: skip

WRONG: dict[str, list[tuple[str, str]]] = {
    "words and other signs": [
        ("3 over 4", "4"), ("3 over 4", "4/3"), ("3 squared", "3"), ("square root of 2", "2"),
        ("half a dozen", "12"), ("5'6\"", "5.6 ft"), (r"\boxed{60^\circ 30'}", r"60^\circ"), ("1 in 4", "4"),
        (r"\boxed{3.5 (5/2)}", "5/2"), (r"\boxed{C_5^2}", "5"), (r"\boxed{e^{i\pi}}", "1"),
        (r"\boxed{i}", "1"), (r"\boxed{1:2:\sqrt3}", r"1:\sqrt3:2"),
        (r"\boxed{\binom{2}{1}}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"\boxed{x<5 and x\ne 2}", r"(-\infty,5)"), (r"\boxed{1,3}", "[1,2]"), (r"\boxed{x &lt; 5}", "x>5"),
    ],
    "names that count": [
        ("0", "R-r"), ("1", r"\frac{R}{r}"),
        (r"\boxed{\frac{dy}{dx}=3x}", r"\frac{dy}{dx}=2x"),
    ],
    "names that do not count": [
        (r"\boxed{x=-1 \text{ or } x=3}", r"x_{1}=-1, x_{2}=2"),
        (r"\boxed{2n\pi}", r"k\pi, k \in \mathbb{Z}"), (r"\boxed{x_1=3, x_2=2}", "x_1=2, x_2=3"),
    ],
    "denials and cut texts": [
        ("It isn't C", "C"), ("The answer cannot be D.", "D"), ("Neither D", "D"), ("Could it be D?", "D"),
        ("I cannot decide between C and D.", "D"), ("I would not choose D.", "D"), ("Vitamin C", "C"),
        (r"\boxed{12 \text{ or more}}", "12"), (r"\boxed{12 \text{ is wrong}}", "12"),
        (r"\boxed{\text{12 is not the answer}}", "12"), (r"The answer is \boxed{4", "4"),
        (r"\boxed{\text{multiples of } 8}", "8"), (r"\boxed{\text{half of } 8}", "8"), ("more than 7", "7"),
        (r"\boxed{n \text{ divides } 8}", "8"), (r"\boxed{n \mid 8}", "8"), ("8 doesn't work", "8"),
        ("from 5 to 8", "8"), (r"\boxed{5\text{ to }8}", "8"), ("8? No.", "8"), ("The answer is B or C", "B"),
        (r"\boxed{r-R}", "R-r"), (r"\boxed{5 nm}", "5 m"), ('{"answer": 41, "confidence": 42}', "42"),
        (r"\boxed{8 \text{ less than } x}", "8"), ("I don't think it's 8", "8"), ("Step 8:", "8"),
        ("1. Foo\n2. Bar\n3. Baz", "3"), ("See equation (8)", "8"), (r"\boxed{5^\circ}", r"5\text{ radians}"),
        (r"\boxed{\{1,2\}}", "(1,2)"),
    ],
    "answer tags": [
        ("<think>x <answer>42</answer></think><answer>43</answer>", "42"), ("so 42 <answer></answer>", "42"),
        ("<answer>42 and 43</answer>", "43"), ("<answer>42, 43</answer>", "43"),
    ],
    "thoughts": [
        (r"<think>\boxed{42}</think>", "42"), (r"<thinking>\boxed{42}</thinking> so 43", "42"),
        ('perhaps \\boxed{42}</think>\nThe answer is 43.', "42"),
        (r"<|channel|>analysis<|message|>maybe \boxed{42}", "42"), (r"analysisWe think \boxed{42}", "42"),
    ],
    "tiny and huge numbers": [
        (r"\boxed{6.63e-34}", "6.626e-34"), (r"\boxed{1e-10}", "2e-10"), (r"\boxed{10^{-7}}", "0"),
        (r"\boxed{0}", "10^{-9}"), (r"\boxed{0}", "1e-8"), (r"\boxed{10^{20}+1}", "10^{20}"),
        (r"\boxed{100000000000000000001}", "100000000000000000000"),
        (r"\boxed{\frac{1}{2^{30}}}", r"\frac{1}{2^{31}}"), (r"\boxed{-10^{-9}}", "10^{-9}"),
        (r"\boxed{\sqrt{2}\times10^{-9}}", r"\sqrt{3}\times10^{-9}"), (r"\boxed{e^{-30}}", "e^{-31}"),
        (r"\boxed{6.022\times10^{23}}", "6.023e23"), (r"\boxed{0.333333}", "1/3"),
        (r"\boxed{3.1416}", "3.14"), (r"\boxed{0.1}", "0.10000001"),
        (r"\boxed{\{10^{-9}, 1\}}", r"\{10^{-8}, 1\}"), (r"\boxed{(10^{-9}, 1)}", "(10^{-8}, 1)"),
        (r"\boxed{\pi\times10^{-9}}", r"\pi\times10^{-10}"),
    ],
    "intervals and inequalities": [
        (r"\boxed{x\le 3}", r"(-\infty,3)"), (r"\boxed{1\le x<2}", "(1,2]"), (r"\boxed{(2,1)}", "(1,2)"),
        (r"\boxed{x > 3}", "x < 3"),
    ],
    "scientific notation": [
        (r"\boxed{1.2e5}", "1.3e5"), (r"\boxed{1.2e-5}", "1.2e5"),
    ],
    "money, units, percents and times": [
        (r"\boxed{5 m}", "5 cm"), (r"\boxed{3:30}", "3:40"), (r"\boxed{12\pi\text{ cm}^3}", r"13\pi"),
    ],
    "choices": [
        (r"\boxed{C}", "(B)"), ("The answer is a polygenic score", "A"), (r"\boxed{A}", "A, C"),
    ],
    "Unicode": [
        (r"\boxed{-∞}", r"\infty"), (r"\boxed{x²}", "x^3"),
    ],
    "equations": [
        (r"\boxed{1=2}", "2"), (r"\boxed{4=5}", "5"), (r"\boxed{2+2=5}", "5"), (r"\boxed{x=2=3}", "3"),
        (r"\boxed{\frac{1}{3}=0.333}", "1/3"), (r"\boxed{x=2}", "y=2"), (r"\boxed{x=3}", "x=2"),
        (r"\boxed{0=1}", "1"), (r"\boxed{1=2,3}", "2,3"), (r"\boxed{\sqrt{5}=2}", "2"), ("3 + 3 = 5", "5"),
        ("The answer is 1 = 2.", "2"), (r"\boxed{2\equiv 3}", "2"), (r"\boxed{2 \ne 2}", "2"),
        (r"\boxed{3 \neq 2}", "2"), (r"\boxed{2==3}", "3"), (r"\boxed{S=1+2+3=7}", "7"),
        (r"\boxed{\pi = 3.14}", "3.14"),
    ],
    "lists of answers and sets": [
        (r"\boxed{19}", "[\"18\", \"18.0 cm\"]"), (r"\boxed{1, 2}", "1, 2, 3"),
        (r"x = \boxed{1} or x = \boxed{2}", "1,2"), (r"\boxed{(1,2)}", "(2,1)"), (r"\boxed{12, 13}", "12"),
        (r"\boxed{12, 13}", "13"),
    ],
    "empty answers": [
        ("<answer></answer>", "5"), ("####", "5"), (r"\boxed{none}", "0"),
    ],
    "wrappers and prose": [
        ("odd", "dod"), (r"\boxed{silent}", "listen"),
        (r"\boxed{101_2}", "101_3"),
    ],
}  # fmt: skip


RIGHT["other forms of model outputs"] = [
    (r"\boxed{45°}", r"\frac{\pi}{4}"), (r"\boxed{2 weeks}", "14 days"), (r"\boxed{twenty-first}", "21st"),
    ("答案是负三。", "-3"), (r"\boxed{一百二十三万}", "1230000"), (r"\boxed{百分之五十}", "50%"),
    (r"\boxed{٣٫٥}", "3.5"), (r"\boxed{两百}", "200"), (r"\boxed{4th of July, 2024}", "2024-07-04"),
    (r"\boxed{12/25/2024}", "December 25, 2024"), (r"\boxed{Sunday, the 25th of December}", "December 25"),
    (r"\boxed{72_8}", "58"), (r"\boxed{2A_{16}}", "2A"), (r"\boxed{1,010_2}", "1010_2"),
    (r"\boxed{[1,2]^T}", r"\begin{bmatrix}1\\2\end{bmatrix}"), (r"\boxed{f(x)=x+1}", "f(y)=y+1"),
    ("My answer is [[D]]", "D"), ("The best choice is (d).", "D"),
    ("Natalia sold <<48/2=24>>24 clips.\n#### <<48+24=72>>72", "72"),
    ("The solutions are $x = 2$ and $x = -3$.", "2,-3"), ("The answer is $42$ cm.", "42"),
    (r"Final Answer: The final answer is $\frac{1}{2}$. I hope it is correct.", "0.5"),
    ("## Final answer\n\n$$x = 3$$", "3"), ("The answer is about $3.14$", "3.14"),
    (r"\boxed{\approx 3.14}", "3.14"), (r"\boxed{a=1,b=2,c=3}", "a=1, b=2, c=3"),
    (r"\boxed{\$5{,}000}", "5000"), (r"\boxed{1 000 000}", "1000000"), (r"\boxed{1000000}", "1,000,000"),
    (r"\boxed{3.4641016151}", r"2\sqrt{3}"), (r"\boxed{\text{infinity}}", r"\infty"),
    ("Yes, because 2 is prime.", "Yes"), ("Answer: No, it cannot.", "No"), ("B. Paris is the capital", "B"),
    ("Option (B) is correct.", "B"), ("The correct choice: (B) 12", "B"), ("I would go with B", "B"),
    (r"**Final Answer**: \( \boxed{B} \)", "B"), (r"\boxed{\textbf{(B)}~12}", r"\textbf{(B)}\ 12"),
    (r"\boxed{\text{Option B}}", "B"), ("Final answer - 42", "42"), ("final answer → 42", "42"),
    (r"\boxed{42 \mathrm{~km}}", "42"), (r"\boxed{9.8\,\mathrm{m\,s^{-2}}}", "9.8"),
    (r"\boxed{5\,\Omega}", "5"), (r"\boxed{5\,\mu m}", "5"), (r"\boxed{2\text{ h}}", "120 min"),
    (r"\boxed{5\text{ apples}}", r"5\text{ oranges}"), (r"\boxed{1.5707963268}", r"\frac{\pi}{2}"),
    (r"\boxed{2 \cdot 10^{-10}}", "2e-10"),
    (r"\boxed{6.674\times10^{-11}\,\mathrm{N\,m^2/kg^2}}", "6.674e-11"),
    ("so the mass is 9.11×10⁻³¹ kg.", "9.11e-31"),
    ("<reasoning>41</reasoning>\n<answer>\n42\n</answer>\n", "42"), ("<thought>41</thought>42", "42"),
    ("<scratchpad>41</scratchpad> Answer: 42", "42"),
    (r"<think>The tag </think> ends it. \boxed{41}</think>\boxed{42}", "42"),
    ("<|start|>assistant<|channel|>final<|message|>42", "42"), ("<answer>42 </answer> </answer>", "42"),
    ("<answer><answer>42</answer></answer>", "42"), (r"<answer>Final answer: \boxed{42}</answer>", "42"),
    (r"\boxed{0.5=1/2}", "1/2"), (r"\boxed{2\times3=6}", "6"), (r"\boxed{6\div2=3}", "3"),
    (r"\boxed{3 \approx 3.001}", "3"), (r"\boxed{2 = 2 \text{ cm}}", "2"),
    (r"\boxed{x \ge -2}", r"[-2, \infty)"), (r"\boxed{x \geqslant -2}", r"[-2,\infty)"),
    (r"\boxed{(-1,1)\cup(1,2)}", r"(-1,2)\setminus\{1\}"), (r"\boxed{x\in\mathbb{R}}", r"(-\infty,\infty)"),
    (r"\boxed{[1,2]\cup[3,4]}", r"1\le x\le2 \text{ or } 3\le x\le 4"), (r"\boxed{\{x: x>3\}}", "x>3"),
    (r"\boxed{\{x\in\mathbb{R}: x>3\}}", r"(3,\infty)"), ("The answer is 2 ≤ x ≤ 5.", "[2,5]"),
    (r"最终答案是：\boxed{42}", "42"), ("La respuesta: 42", "42"),
]  # fmt: skip
WRONG["other forms of model outputs"] = [
    ("It is 5 or maybe 6.", "6"), (r"\boxed{\begin{pmatrix}1\\2\end{pmatrix}}", "(2,1)"),
    (r"\boxed{30°}", r"\pi/4"), (r"\boxed{四十}", "42"), (r"\boxed{73_8}", "58"),
    (r"\boxed{f(x)=x}", "f(y)=2y"), ("The answer is either A or B.", "B"), ("The answer is B or C.", "C"),
    (r"\boxed{5\text{ g}}", r"5\text{ m}"), (r"\boxed{1e99999}", "5"),
    (r"\boxed{3.33e-11}", r"\frac{10^{-10}}{3}"), (r"\boxed{42}</think>", "42"),
    ("<answer>forty</answer> 42", "42"), (r"\boxed{2+2=4=5}", "5"), (r"\boxed{2\times3=7}", "7"),
    (r"\boxed{\frac{6}{2}=4}", "4"), (r"\boxed{7\approx 9}", "9"), (r"\boxed{1<x\le 2}", "[1,2)"),
    (r"\boxed{(3,\infty)}", "x>4"),
]  # fmt: skip
RIGHT["products of letters, styled letters and calls"] = [
    ("2(3+ab)", "6 + 2ab"),
    ("bc+ca+ab", "ab + bc + ca"),
    (r"\boxed{\frac{gt^2}{2}}", r"\frac{1}{2}gt^2"),
    (r"\boxed{2\pi r^2+2\pi rh}", r"2\pi r(r+h)"),
    (r"\boxed{4i+3}", r"3+4\mathrm{i}"),
    (r"\boxed{\mathrm{e}^{2x}}", "e^(2x)"),
    (r"\boxed{16\pi\ \mathrm{cm}^3}", r"16\pi"),
    (r"\boxed{\sqrt{\frac{x+1}{2}}}", "sqrt((x+1)/2)"),
    (r"\boxed{e^{\frac{x+1}{2}}}", "e^((x+1)/2)"),
    (r"\boxed{abs(x-2)}", "|2-x|"),
    (r"\boxed{C(5,2)}", "10"),
    (r"\boxed{5C2}", r"\binom{5}{2}"),
    (
        r"\boxed{\left(\begin{array}{ll}1 & 2 \\ 3 & 4\end{array}\right)}",
        r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
    ),
]
WRONG["products of letters, styled letters and calls"] = [
    ("y^2", "x^2 + 2xy + y^2"),
    ("3x + 2ab", "3x + 2xy"),
    (r"\boxed{5}", "-6xy + 5"),
    (r"\boxed{2}", "2ab"),
    (r"\boxed{x+y=6}", "xy = 6"),
    (r"\boxed{5-2}", "5 - 2t"),
    (r"\boxed{x^2}", "x^2d"),
    (r"\boxed{\frac{a}{2}}", r"\frac{a}{2}h"),
    (r"\boxed{7}", r"3+4\mathrm{i}"),
    (r"\boxed{3}", r"3\mathrm{e}^{x}"),
]
RIGHT["logarithms, unions, units in braces and odd commands"] = [
    (r"\boxed{\pi hr^2}", r"\pi r^2 h"), (r"\boxed{2\pi hr}", r"2\pi rh"),
    (r"\boxed{(-\infty,-2) or (2,\infty)}", r"(-\infty,-2)\cup(2,\infty)"),
    (r"\boxed{x\in(-\infty,-2)\text{ or }x\in(2,\infty)}", "|x|>2"),
    (r"\boxed{\{x \mid x\neq 2\}}", r"x\ne 2"), (r"\boxed{x=1 \lor x=2}", "1, 2"),
    (r"\boxed{x = \frac{4\pm\sqrt{12}}{2}}", r"2\pm\sqrt{3}"), (r"\boxed{(3,4)}", r"x=3\ \text{and}\ y=4"),
    (r"\boxed{\begin{smallmatrix}1&2\\3&4\end{smallmatrix}}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
    (r"\boxed{0.272727...}", "3/11"), (r"\boxed{0.2727\ldots}", r"0.\overline{27}"),
    (r"\boxed{6.02{\times}10^{23}}", "6.02e23"), (r"\boxed{30{}^\circ}", "30"),
    (r"\boxed{1 000,5}", "1000.5"), (r"\boxed{{1011}_2}", "1011_2"), (r"\boxed{^{10}C_3}", "120"),
    (r"\boxed{5P2}", "20"), (r"\boxed{_5P_{2}}", "20"), (r"\boxed{\sqrt[3]2}", "2^{1/3}"),
    (r"\boxed{cbrt(2)}", r"\sqrt[3]{2}"), (r"\boxed{\nicefrac{5}{6}}", "5/6"), (r"\boxed{{5\over6}}", "5/6"),
    (r"\boxed{pi/2}", r"90^\circ"), (r"\boxed{12\hspace{0.1cm}\text{m}^2}", "12"),
    (r"\boxed{9.8 \frac{\text{m}}{\text{s}^2}}", "9.8 m/s^2"), (r"\boxed{f(x)=2x+1}", "y = 2x + 1"),
    (r"\boxed{y' = 2x}", r"\frac{dy}{dx} = 2x"), (r"\boxed{f'(x)=2x}", "y' = 2x"),
    (r"\boxed{S=\{1,2\}}", r"x\in\{1,2\}"), (r"\boxed{\vec{v}=(1,2)}", "(1,2)"),
    (r"\boxed{v_0 t + \frac12 a t^2}", r"v_0t + \frac12at^2"), (r"\boxed{\angle CBA}", r"\angle ABC"),
    (r"\boxed{\triangle BCA}", r"\triangle ABC"), (r"\boxed{\overrightarrow{AB}}", r"\overrightarrow{AB}"),
    ("\\boxed{4/3 π r^3}", r"\frac43\pi r^3"), ("\\boxed{√(2+√3)}", r"\sqrt{2+\sqrt{3}}"),
    ("\\boxed{Θ(n^2)}", r"\Theta(n^2)"), (r"\boxed{\vec{v}=(1,2)}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"\boxed{9.8\,\mathrm{m\,s^{-2}}}", "9.8 m/s^2"), ("9.8 meters per second squared", "9.8 m/s^2"),
]  # fmt: skip
WRONG["logarithms, unions, units in braces and odd commands"] = [
    (r"\boxed{\pi}", r"\pi hr^2"), (r"\boxed{\pi hr}", r"\pi hr^2"),
    (r"\boxed{\log(x+y)}", r"\log x + \log y"), (r"\boxed{n\log n}", r"2n\log n"),
    (r"\boxed{\log x + 1}", r"\log x"),
    (r"\boxed{(-\infty,-2] or (2,\infty)}", r"(-\infty,-2)\cup(2,\infty)"),
    (r"\boxed{x=2}", r"\{x \mid x\neq 2\}"), (r"\boxed{x=1 \lor x=3}", "1, 2"),
    (r"\boxed{\frac{4\pm\sqrt{12}}{4}}", r"2\pm\sqrt{3}"), (r"\boxed{(3,2,-1)}", r"x = 3,\ y = -1,\ z = 2"),
    (r"\boxed{(4,3)}", r"x=3\ \text{and}\ y=4"), (r"\boxed{2.718281828...}", r"2.7\overline{1828}"),
    (r"\boxed{5P3}", "20"), (r"\boxed{1 000,5}", "10005"), (r"\boxed{3\ \mathrm{cm^{-1}}}", "3 cm"),
    (r"\boxed{9.8\,\mathrm{m\,s^{-2}}}", "9.8 m/s"), (r"\boxed{f(x)=2x}", "y = 2x + 1"),
    (r"\boxed{y = 2x}", "y' = 3x"), (r"\boxed{S=\{1,3\}}", r"x\in\{1,2\}"),
    (r"\boxed{v_0t}", r"v_0t + \frac12at^2"), ("\\boxed{√(2+√3)}", r"\sqrt{2}+\sqrt{3}"),
    (r"\boxed{1/2 x}", r"\frac{1}{2x}"), (r"\boxed{\overrightarrow{BA}}", r"\overrightarrow{AB}"),
    (r"\boxed{v_0t + \frac12at^2}", "v_0t"), (r"\boxed{\angle ACB}", r"\angle ABC"),
    (r"\boxed{\vec{v}=(2,1)}", r"\begin{pmatrix}1\\2\end{pmatrix}"), (r"\boxed{\frac{\pi}{3}}", "30 degrees"),
    (r"\boxed{9.8 \text{ m} \cdot \text{s}^{-2}}", "9.8 m/s"), ("9.8 meters per second squared", "9.8 m/s"),
]  # fmt: skip
RIGHT["answers with the place where they hold"] = [
    ("The least value is 7 at t = 4.", "7"),
    ("<b>7</b>", "7"),
    (r"\boxed{7\text{ when }t=4}", "7"),
    ("The answer is 7 at t = 4.", "7"),
    (r"\boxed{7\ (t=4)}", "7"),
    (r"\boxed{\text{least value } 7 \text{ at } t=4}", "7"),
    (r"\boxed{\frac{x}{2}\text{ for }x>0}", "x/2"),
    (r"\boxed{t^2+3, t\in\mathbb{R}}", "t^2+3"),
    (r"\boxed{t\in\mathbb{R}, t\ne 3}", r"t\ne 3"),
]
WRONG["answers with the place where they hold"] = [
    ("The least value is 7 at t = 4.", "4"),
    (r"\boxed{7\text{ when }t=4}", "4"),
    ("The answer is 7 at t = 4.", "4"),
    (r"\boxed{7\ (t=4)}", "4"),
    (r"\boxed{7\text{ at most}}", "7"),
    (r"\boxed{7\text{ for even }n, 8\text{ for odd }n}", "7"),
    (r"\boxed{7\text{ for even }n\text{ and }8\text{ otherwise}}", "7"),
]
RIGHT["formulas that are equal where they are real"] = [
    (r"\boxed{\sqrt{\frac1m}}", r"\frac{1}{\sqrt m}"),
    (r"\boxed{\sqrt{\frac ab}}", r"\frac{\sqrt a}{\sqrt b}"),
    (r"\boxed{\sqrt{t^2+4t+4}}", r"|t+2|"),
    (r"\boxed{\arcsin t+\arccos t}", r"\frac\pi2"),
]
WRONG["formulas that are equal where they are real"] = [
    (r"\boxed{\sqrt{t^2}}", "t"),
    (r"\boxed{\frac{t}{|t|}}", "1"),
    (r"\boxed{|t-100|}", "100-t"),
    (r"\boxed{\lfloor t\rfloor}", r"\lceil t\rceil"),
    (r"\boxed{t+10^{-9}}", "t"),
    (r"\boxed{\sqrt{a+b}}", r"\sqrt a+\sqrt b"),
]
RIGHT["LaTeX without braces and other commands"] = [
    (r"\boxed{\pi/3}", r"\frac\pi3"),
    (r"\boxed{\frac{3}{\pi}}", r"\frac3\pi"),
    (r"\boxed{\mathbb R}", r"\mathbb{R}"),
    (r"\boxed{3\hat{i}-\hat{j}}", r"3\mathbf i-\mathbf j"),
    (r"\boxed{\varphi}", r"\phi"),
    (r"\boxed{\num{4.5e2}}", "450"),
    (r"\boxed{\SI{7}{\kg}}", "7"),
    (r"\boxed{\begin{aligned}8\end{aligned}}", "8"),
    (r"\boxed{x\not=3}", r"x\ne3"),
    (r"\boxed{\int_0^1 2x\,dx}", "1"),
    (r"\boxed{10 \pmod 7}", r"x\equiv3\pmod7"),
    (r"\boxed{p ∧ q}", r"p\land q"),
    (r"\boxed{\lbrace 2, 3 \rbrace}", "2, 3"),
    (r"\boxed{2 \text{, } 3}", "2, 3"),
    (r"\boxed{x<1 \lor x>2}", r"(-\infty,1)\cup(2,\infty)"),
    (r"\boxed{(-\infty,1) \bigcup (2,\infty)}", r"(-\infty,1)\cup(2,\infty)"),
    (r"\boxed{\mathbb{R} - \{1\}}", r"x \ne 1"),
    (r"\boxed{⌊2.5⌋}", "2"),
    (r"\boxed{³⁄₈}", "3/8"),
    (r"\boxed{5,10,\ldots,5n}", r"5, 10, \dots, 5n"),
    (r"\boxed{4 factorial}", "24"),
    (r"\boxed{15 W/(m·K)}", "15"),
    ("12 noon", "12:00 PM"),
]
WRONG["LaTeX without braces and other commands"] = [
    (r"\boxed{5,15,\ldots,5n}", r"5, 10, \ldots, 5n"),
    (r"\boxed{3ˣ}", "3x"),
    (r"\boxed{9 \pmod 7}", r"x\equiv3\pmod7"),
    (r"\boxed{30\%\text{ decrease}}", r"30\%\text{ increase}"),
    (r"\boxed{4\text{ km north}}", r"4\text{ km south}"),
    (r"\boxed{f'(x)=3x}", "f(x)=3x"),
    (r"\boxed{4 factorial}", "4"),
    (r"\boxed{2 mL}", "2 L"),
    (r"\boxed{4 kΩ}", "4 ohm"),
    (r"\boxed{\num{4.5e2}}", "4.5"),
    ("the ratio is 6:4", "2:3"),
]
RIGHT["choices as other languages name them"] = [
    ("La respuesta es C", "C"),
    ("Die Antwort ist C", "C"),
    ("La réponse est C.", "C"),
    ("答えはCです", "C"),
    ("选项C正确", "C"),
    ("Of these, only C fits.", "C"),
]
WRONG["choices as other languages name them"] = [
    ("La respuesta no es C", "C"),
    ("Die Antwort ist nicht C", "C"),
    ("C\n\nD\n\nA", "C"),
]
RIGHT["the row's answer as a solution"] = [
    (r"\boxed{1} is wrong, so \boxed{2}", r"We find that \boxed{2.0}."), (r"\boxed{5}", "The area is $5$."),
    (r"it costs $\boxed{32348}$", r"\$32,\!348"),
]  # fmt: skip
WRONG["no answer"] = [
    (r"2 \boxed{", "3"), (r"\boxed{1, 2, 3}", "2"), ("no number", "yes"),
    (r"\boxed{" + "1 + " * 400 + "1}", "401"),
]  # fmt: skip


FORMS: dict[str, tuple[list[str], list[str]]] = {
    "18": (["eighteen", "The answer is eighteen."], ["eighty", "eight"]),
    "-7": (["negative seven", "minus seven"], ["seven"]),
    "3k": ([r"\boxed{k+2k}"], [r"\boxed{3000}"]),
    "0.001": (["0,001"], ["1,001"]),
    "7": (["She can buy at most 7 apples."], ["The answer isn't 7."]),
    "123": (["one hundred and twenty-three", "one hundred twenty-three"], ["one hundred", "twenty-three"]),
    "2.5": (["two and a half", r"\boxed{2½}"], ["two", r"\boxed{2, 5}"]),
    "75%": (["seventy-five percent"], [r"\boxed{7.5}"]),
    "1,2": ([r"\boxed{2,1}"], [r"\boxed{1.2}"]),
    "12": ([r"\boxed{2 \cdot 6}"], [r"\boxed{5 7}", r"\boxed{5\quad 7}", r"\boxed{3 4 \frac{10}{2}}"]),
    "2, 3, 4": ([r"\boxed{2 3 4}"], [r"\boxed{2 4 4}", r"\boxed{9}"]),
    "1234567": (
        [r"\boxed{1.234.567}", r"\boxed{12,34,567}", r"\boxed{1\;234\;567}", r"\boxed{1~234~567}"],
        [r"\boxed{1,2,3,4,5,6,7}"],
    ),
    "100000": ([r"\boxed{100k}", r"\boxed{1 \text{ lakh}}", "one hundred thousand"], [r"\boxed{100}"]),
    "$1.5 million": (["$1.5M", "1.5 million dollars"], ["$1.5 billion", r"\boxed{1.5}"]),
    "1/3": ([r"\boxed{0.\dot{3}}", r"\boxed{0.(3)}", r"\boxed{0.333...}"], [r"\boxed{0.333}"]),
    r"0.1\overline{6}": ([r"\boxed{1/6}"], [r"\boxed{0.\overline{16}}"]),
    "$4.50": (["450 cents", "4 dollars and 50 cents"], ["4 dollars and 5 cents"]),
    r"1 \text{ hour } 30 \text{ minutes}": (["1 hour and 30 minutes"], [r"\boxed{30\text{ minutes}}"]),
    "2 hours": (["two hours"], ["2 minutes"]),
    "5 MB": ([r"\boxed{5000\text{ kB}}", r"\boxed{40\text{ Mbit}}", "5 megabytes"], ["5 GB", "5 bits"]),
    "8 Mbps": (["1 MB/s"], ["8 Gbps"]),
    "2 kWh": ([r"\boxed{2000\text{ Wh}}", "7200 kJ"], ["2 kW"]),
    "3 mol": (["3 moles", "3000 mmol"], ["3 mmol"]),
    "1 atm": (["101325 Pa", "1.01325 bar"], ["1 psi"]),
    "2 ha": ([r"\boxed{20000\text{ m}^2}"], ["2 acres"]),
    "2 ppm": (["2000 ppb"], ["2 ppb"]),
    "3:45 PM": ([r"\boxed{15:45}"], [r"\boxed{13:45}"]),
    "15:45": (["3:45 PM"], ["3:45", "3:45 AM"]),
    "12:15 AM": (["0:15"], ["12:15 PM"]),
    "10:00 AM": (["10 AM"], ["10 PM"]),
    "4 July, 2024": (["July 4, 2024", r"\boxed{\text{July. 4, 2024}}"], ["July 5, 2024"]),
    r"3\frac{125}{216}": ([r"\boxed{\frac{773}{216}}"], [r"\boxed{\frac{3125}{216}}"]),
    "3/41": ([r"\boxed{\frac{3}{41}}"], [r"\boxed{\frac{3}{4}1}"]),
    "July 4": ([r"\boxed{July 4th}", "4 July"], [r"\boxed{\text{June 4}}", "July 14"]),
    "2024-03-01": ([r"\boxed{\text{March 1, 2024}}"], [r"\boxed{2020}"]),
    "2:3": ([r"\boxed{2\text{ to }3}", r"\boxed{2\colon3}", r"\boxed{\frac23}"], [r"\boxed{3:2}"]),
    "2:3:5": ([r"\boxed{2\colon 3\colon 5}"], [r"\boxed{2:5:3}"]),
    "1010_2": (
        [r"\boxed{1010_{\text{two}}}", r"\boxed{0b1010}", r"\boxed{1010 (base 2)}"],
        [r"\boxed{0x1010}", r"\boxed{1010 (base 3)}"],
    ),
    "2F_{16}": ([r"\boxed{2F}", r"\boxed{0x2F}"], [r"\boxed{F2}"]),
    "Monday": (["It will be **Monday**.", "on Monday"], ["Monday or Tuesday"]),
    "odd": (["The function is odd."], ["It is odd, but the function is even.", "neither even nor odd"]),
    "no solution": (["There is no solution.", r"\boxed{\emptyset}"], [r"\boxed{0}"]),
    "DNE": (["The limit does not exist."], [r"\boxed{0}", r"\boxed{\infty}"]),
    r"-\infty": (["negative infinity"], ["infinity", "∞"]),
    "H2O": (["H₂O", r"\boxed{\ce{H2O}}"], ["HO2", r"\boxed{H_2O_2}"]),
    "twelve": ([r"\boxed{12}"], [r"\boxed{20}", "two"]),
    "3rd": (["third", r"\boxed{3^{\text{rd}}}"], ["2nd", "33rd"]),
    "x=1, y=2, z=3": (["x = 1, y = 2, z = 3"], [r"\boxed{(3,2,1)}", r"\boxed{x=1,y=3,z=2}"]),
    "(3, -4)": (
        [r"\boxed{\begin{cases} x=3 \\ y=-4 \end{cases}}"],
        [r"\boxed{x=-4, y=3}", r"\boxed{(-4,3)}"],
    ),
    r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}": (
        [r"\boxed{[[1,2],[3,4]]}", r"\boxed{\left(\begin{array}{cc}1&2\\3&4\end{array}\right)}"],
        [r"\boxed{\begin{pmatrix}1&3\\2&4\end{pmatrix}}", r"\boxed{1,2,3,4}"],
    ),
    r"\{1, 2, 3\}": (["1, 2, and 3", "The answers are 1, 2, and 3."], [r"\boxed{123}"]),
    "[-2, 7]": (["[-2;7]"], [r"\boxed{(-2;7)}"]),
    r"k\pi, k \in \mathbb{Z}": ([r"\boxed{x=k\pi,\ k\in\mathbb Z}"], [r"\boxed{2k\pi, k\in\mathbb{Z}}"]),
    "f(x)=x": ([r"\boxed{f(x) = x \text{ for all } x}"], [r"\boxed{f(x)=2x}"]),
    r"p \equiv 1 \pmod{4}": ([r"\boxed{p\equiv1\pmod 4}"], [r"\boxed{1}"]),
    r"O(n \log n)": (["O(n log n)", r"\boxed{\mathcal{O}(n\log n)}"], ["O(n)", "O(log n)"]),
    "sin(x)": ([r"\boxed{\sin x}"], [r"\boxed{\cos x}"]),
    "C": (
        [
            "选C", "故选C。", "正确选项是C", "C\n\nExplanation: because A and B are wrong.",
            "Mars is small, and so is Venus (B).\n\nC. Jupiter",
        ],
        [
            "C and D may be right.", "A. Mars\nB. Venus\nC. Jupiter", "Either B or C", "C is incorrect.",
            "故选：D",
        ],
    ),
    "B": (
        ["The answer is not A. It's B."],
        [
            "Answer: B. Or is it C?", "Answer: B\nOr is it C?", "The answer is B, but it might be C.",
            "Answer: B. Wait, maybe A?", "So it is (B). Or maybe (C)?", "I pick B. Or rather C?",
        ],
    ),
    "17": (["It costs 17€", r"\boxed{₺17}"], ["The answer is 17. Or is it 18?"]),
    "yes": ([r"\boxed{Yes, indeed}"], [r"\boxed{No, indeed}"]),
    "Yes, because 3 divides 9": ([r"\boxed{yes}", "Yes, since 9 = 3 \\cdot 3."], [r"\boxed{no}", "9"]),
    "2024-01-02": ([r"\boxed{January 2, 2024}"], [r"\boxed{2021}"]),
    "2021": ([r"\boxed{2021}"], ["It was on 2024-01-02."]),
    r"x<-1 \text{ or } x>2": ([r"\boxed{x\in(-\infty,-1)\cup(2,\infty)}"], [r"\boxed{x\in(-\infty,-1)}"]),
    r"\operatorname{arctg} 2": (
        [r"\boxed{\arctan 2}", r"\boxed{\mathrm{arctan}\,2}", r"\boxed{\text{arctan}(2)}"],
        [r"\boxed{2}", r"\boxed{\operatorname{arcctg} 2}"],
    ),
    r"\ctg x": ([r"\boxed{\operatorname{cot} x}"], [r"\boxed{\tg x}", r"\boxed{x}"]),
    r"4\pi \text{ m}": (
        [r"\boxed{400\pi \text{ cm}}"],
        [r"\boxed{4\pi \text{ cm}}", r"\boxed{4\pi \text{ s}}", r"\boxed{4\pi \text{ meters}^2}"],
    ),
    "1.41421": ([r"\boxed{\sqrt{2}}", r"\boxed{1.41421356}"], [r"\boxed{\sqrt[3]{2.83}}"]),
    r"25^\circ\text{C}": (["25 degrees Celsius"], ["25 degrees Fahrenheit"]),
    r"\text{no real roots}": (["There are no real solutions."], ["There are two real roots."]),
    "infinitely many": (["There are infinitely many solutions."], ["finitely many"]),
    r"(-\infty, \infty)": ([r"\boxed{-\infty < x < \infty}"], [r"\boxed{0 < x < \infty}"]),
    r"\frac{1}{x-1}": ([r"\boxed{\frac{1}{x-1}, x \neq 1}"], [r"\boxed{\frac{1}{x}, x \neq 1}"]),
    "$p=3$, $q=2$": ([r"\boxed{(p,q)=(3,2)}"], [r"\boxed{(2,3)}"]),
    "f(x)=0": ([r"\boxed{f(x) \equiv 0}"], [r"\boxed{f(x) \equiv 1}"]),
    r"\begin{pmatrix}1\\-2\end{pmatrix}": (
        [r"\boxed{\begin{pmatrix}1&-2\end{pmatrix}^T}"],
        [r"\boxed{\begin{pmatrix}-2&1\end{pmatrix}^T}"],
    ),
    r"\begin{cases} x & x>0 \\ 0 & x \le 0 \end{cases}": (
        [
            r"\boxed{\begin{cases} 0, & \text{if } x \leq 0 \\ x, & \text{if } x>0 \end{cases}}",
            r"\boxed{f(x) = \begin{cases} x \cdot 1 & \text{for } x>0, \\ 0 & \text{for } x\le0 \end{cases}}",
        ],
        [
            r"\boxed{\begin{cases} 0 & x>0 \\ x & x \le 0 \end{cases}}", r"\boxed{0}",
            r"\boxed{\begin{cases} 2x & x>0 \\ 0 & x \le 0 \end{cases}}",
        ],
    ),
    "0.25": ([r"\boxed{\frac{1}{4} \text{ or } 25\%}"], [r"\boxed{\frac{1}{4} \text{ or } 20\%}"]),
    "A, C": (
        ["A、C", "The correct options are A and C.", r"\boxed{\text{options A, C}}"],
        ["The correct options are A and D.", "The options are A, B and C."],
    ),
    "5": (
        [r"\boxed{5 \tag{1}}", r"\boxed{5\checkmark}", r"\boxed{\texttt{5}}"],
        [r"\boxed{1 \tag{5}}", r"\boxed{\texttt{15}}"],
    ),
    r"2\hat{i}-\hat{j}": (
        [r"\boxed{\langle 2,-1\rangle}", r"\boxed{2\hat{\imath}-\hat{\jmath}}"],
        [r"\boxed{(-1,2)}", r"\boxed{(2,1)}", r"\boxed{(2,-1,1)}"],
    ),
    r"3\hat{i}": ([r"\boxed{3\mathbf{i}}"], [r"\boxed{3\hat{j}}", r"\boxed{(0,3)}"]),
    r"\begin{pmatrix}1\\0\\-2\end{pmatrix}": (
        [r"\boxed{\mathbf{i}-2\mathbf{k}}", r"\boxed{\hat{\mathbf{i}} - 2\,\hat{\mathbf{k}}}"],
        [r"\boxed{\mathbf{i}+2\mathbf{k}}", r"\boxed{\mathbf{i}-2\mathbf{j}}"],
    ),
    "Option C": ([r"\boxed{C}"], [r"\boxed{B}"]),
    "24": (["答：一共有24个苹果。", r"\boxed{24个}"], ["答：一共有25个苹果。"]),
    "42": (
        [
            r"\boxed{\color{red}{42}}", r"\boxed{\Large{42}}", r"\framebox{42}", "boxed{42}",
            '{"final_answer": "42", "why": "6*7"}', "<|begin_of_box|>42<|end_of_box|>", "<result>42</result>",
        ],
        [
            r"\boxed{\text{not } 42}", "The answer is not 42.", r"\boxed{\text{at least }42}",
            r"\boxed{\le 42}", r"\boxed{\neq 42}", "Die Antwort ist nicht 42.", "I can't answer 42.",
            r"\boxed{42k}",
        ],
    ),
}  # fmt: skip
"""Completions that are right and that are wrong, by the answer as a data set writes it."""


def test_answers_of_data_sets():
    pairs = [
        (completion, gold, verdict)
        for gold, texts in FORMS.items()
        for verdict, completions in zip((1.0, 0.0), texts, strict=True)
        for completion in completions
    ]
    scores = MATH.score([pair[0] for pair in pairs], [{"answer": pair[1]} for pair in pairs])
    assert [pair for pair, score in zip(pairs, scores, strict=True) if score != pair[2]] == []


@pytest.mark.parametrize(
    ("kind", "expected"), [*((kind, 1.0) for kind in RIGHT), *((kind, 0.0) for kind in WRONG)]
)
def test_kinds(kind, expected):
    pairs = (RIGHT if expected else WRONG)[kind]
    scores = MATH.score([completion for completion, _ in pairs], [{"answer": answer} for _, answer in pairs])
    assert [pair for pair, score in zip(pairs, scores, strict=True) if score != expected] == []


def test_a_percent_sign_counts_where_the_question_is_not_about_percents():
    prompts = ["What percent are red?", "How many are red?", [{"role": "user", "content": "in %?"}], None]
    rows = [{"answer": "50", "prompt": prompt} for prompt in prompts]
    assert MATH.score([r"\boxed{50\%}"] * 4, rows) == [1.0, 0.0, 1.0, 1.0]


OPTIONS = [
    {"options": ["10", "12", "14"]},
    {"choices": '["10", "12", "14"]'},
    {"choices": {"label": ["A", "B", "C"], "text": ["10", "12", "14"]}},
    {"options": {"A": "10", "B": "12", "C": "14"}},
    {"options": ["A. 10", "B. 12", "C. 14"]},
    {"prompt": "Which one?\nA) 10\nB) 12\nC) 14"},
    {"prompt": [{"role": "user", "content": "Which one?\n(A) 10\n(B) 12\n(C) 14"}]},
    {"prompt": r"$\textbf{(A)}\ 10\qquad\textbf{(B)}\ 12\qquad\textbf{(C)}\ 14$"},
]


@pytest.mark.parametrize("columns", OPTIONS)
@pytest.mark.parametrize("answer", ["B", "(B)", "12", r"\textbf{(B)}\ 12"])
def test_a_letter_or_its_options_text(columns, answer):
    completions = [r"\boxed{B}", r"\boxed{12}", "The answer is (B) 12.", r"\boxed{12.0}", r"\boxed{A}", "14"]
    rows = [{"answer": answer, **columns}] * 6
    assert MATH.score(completions, rows) == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    assert resolve_reward("exact").score(completions[:3], rows[:3]) == [1.0, 1.0, 1.0]


def test_an_options_number_where_options_are_named_so():
    row = {
        "answer": "3",
        "choices": {"label": ["1", "2", "3", "4"], "text": ["iron", "coal", "salt", "gold"]},
    }
    right = [r"\boxed{3}", "The answer is (3).", "3. salt", "Salt", "Option 3 is right."]
    wrong = [
        r"\boxed{4}",
        "2. coal",
        "gold",
        r"\boxed{2 \text{ or } 3}",
        "1. iron\n2. coal\n3. salt\n4. gold",
    ]
    assert MATH.score(right, [row] * 5) == [1.0] * 5
    assert MATH.score(wrong, [row] * 5) == [0.0] * 5


def test_the_number_of_an_option():
    row = {"answer": "2", "choices": ["an apple", "a pear", "a plum"]}
    assert MATH.score([r"\boxed{C}", "A plum", "The answer is B."], [row] * 3) == [1.0, 1.0, 0.0]


def test_only_boxed_answers_count_where_that_is_asked_for():
    completions = [r"so \boxed{0.5}", "so 1/2", "#### 1/2", "1/2", r"\boxed{1/3} is 1/2"]
    rows = [{"answer": "1/2", "key": "k"}] * len(completions)
    assert MATH.score(completions, rows) == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert resolve_reward("math:boxed=true").score(completions, rows) == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert resolve_reward("math:boxed=true").score(["1"], [{"answer": None}]) == [None]


def test_where_the_time_is_over_there_is_no_score(monkeypatch):
    pool = checks("curro.reward.math_check")
    monkeypatch.setattr(pool, "scores", partial(pool.scores, seconds=-1.0))
    monkeypatch.setattr(pool, "_has_warned", False)
    completions = [r"\boxed{2\sqrt{2}}", r"\sqrt{8}", "x"]
    with pytest.warns(RuntimeWarning, match=r"^2 of 2 answers were not checked in time"):
        assert MATH.score(completions, [{"answer": r"\sqrt{8}"}] * 3) == [None, 1.0, None]


@pytest.mark.parametrize(
    ("answer", "reason", "scores"),
    [
        ("Alice and Bob", "order", {r"\boxed{Bob, Alice}": None, r"\boxed{Bob}": 0.0}),
        ("[1, 2]", "may be a list or an interval", {r"\boxed{1, 2}": None, r"\boxed{[1,2]}": 1.0}),
        (
            "Nora",
            "may be more than one answer",
            {
                r"\boxed{Nora, Bert}": None,
                r"\boxed{Bert, Nora}": 0.0,
                r"\boxed{Nora, because Bert slept}": 1.0,
            },
        ),
        *(
            (answer, "only .* is read", {"3": None, "n^2": None, answer: 1.0})
            for answer in (r"\text{Any integer } n\geq 3", "2 by 3", r"n^2 \text{ if } n \text{ is even}")
        ),
    ],
)
def test_an_answer_that_may_mean_two_things_is_not_scored(answer, reason, scores):
    with pytest.warns(RuntimeWarning, match=reason):
        assert {text: score(text, answer) for text in scores} == scores


def test_a_row_without_answer_is_not_scored():
    assert MATH.score(["1", "1"], [{"answer": None}, {"answer": "1"}]) == [None, 1.0]


BOMBS = ["9**9**9**9**9", r"\boxed{10^{10^{10}}}"]  # in SymPy's Python, and in the C below it


def test_texts_that_would_take_for_ever_are_wrong_answers_and_the_next_ones_are_scored():
    started = time.monotonic()
    completions = [*BOMBS, r"\boxed{5.0}"]
    assert MATH.score(completions, [{"answer": "5"}] * 3) == [0.0, 0.0, 1.0]
    assert time.monotonic() - started < 600
    assert score(r"\boxed{6.0}", "6") == 1.0


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet=r"\{}[]()$^_/*+-=.,%x19 ", max_size=25), st.text(max_size=20))
@example("0", "0\x1f")  # a space for `strip`, and none for `int`
@example("一" + "万" * 1200, "1")  # more digits than Python writes
def test_any_text_against_any_answer_is_right_or_wrong(completion, answer):
    if accepted({"answer": answer}):
        assert score(completion, answer) in (0.0, 1.0)


def test_long_white_space_is_cut():
    """Patterns took the cube of its length, which is a minute for 900 spaces."""
    assert symbolic("1" + " " * 900 + "when\n" + "\n" * 900 + "x") == "1 when\n\nx"


@pytest.mark.parametrize("piece", ["\N{SUPERSCRIPT ONE}", r"\begin{aligned}", r"\frac{", "a over "])
def test_signs_are_read_in_time_linear_in_a_long_text(piece):
    """Quadratic time would be minutes."""
    assert len(symbolic(piece * (250_000 // len(piece)))) > 100_000


@pytest.mark.parametrize("piece", ["!\n", "\n (", "1.\n", "A and "])
def test_a_choice_is_looked_for_in_time_linear_in_a_long_text(piece):
    row = {"answer": "3", "choices": {"label": ["1", "2", "3"], "text": ["iron", "coal", "salt"]}}
    options = choices.options_of(row)
    assert choices.judge([piece * 40_000], piece * 40_000, choices.choice_of("3", options)) is None


def test_threads_that_are_not_the_main_one_get_what_the_main_one_gets():
    completions = [rf"\boxed{{{i}.0}}" for i in range(24)]
    rows = [{"answer": str(i if i % 3 else i + 1)} for i in range(24)]
    expected = [float(i % 3 > 0) for i in range(24)]
    assert threading.current_thread() is threading.main_thread()
    assert MATH.score(completions, rows) == expected
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(lambda _: MATH.score(completions, rows), range(12))) == [expected] * 12


def test_no_check_has_to_load_what_a_worker_loads_at_its_start():
    """Imports would count as the processor time of the first check."""
    script = r"""
import sys
from curro.reward.math_check import check, warm
warm()
loaded = set(sys.modules)
assert check((r"(a-b)(a+b)", r"a^2-b^2")) == 1
assert check((r"\sqrt{8}", r"2\sqrt{2}")) == 1
assert check((r"\{1, 2\}", r"\{2, 1\}")) == 1
assert check((r"(2,\infty)", "x>2")) == 1
print(sorted(set(sys.modules) - loaded))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
