"""The words that are one token each: those of the lab's tasks, and those of ordinary instructions."""

from __future__ import annotations

_AFTER_A_SPACE = """
a about above actual across after all also am an and answer answers any are arithmetic as ask at
attempt attempts back be because below best between both box but by calibrate candidate carefully
chance check choosing clear compute confidence consistently correct count current decide definition
difficult difficulty digit digits do does each easy else end enough error estimate estimates every
exact exactly example examples expect explain expected fail fails false few final find first follow
following following for from get give given good group guess hard has have help helpful high how if
in inside instruction instructions into is it its just know labeled language last learn learning legs
letter letters level line list little low make many math may mean means model more most must name new
next no not now number numbers of often on one only or other others out output over pass passes
performance please poorly policy predict prediction predictor probability problem problems prompt put
question reason reasoning recent repeat response result return reward rewards right rollout rollouts
same score scores second see show shown signal so solution solve solved some start state step steps
sum system take task tell text than that the their them then there these they think this those time
times to token tokens total training true try turn two uncertain until up use user value variance very
well what when where which while will with within word words work write wrong yes you your
assistant
alpha beta gamma delta
animals snake sea slug jellyfish flatworm leech chicken bird human duck dog cat cow horse lion
elephant giraffe tiger deer sheep starfish insect ant butterfly beetle bee wasp grasshopper cricket
cockroach praying mantis firefly spider scorpion crab lobster shrimp woodlouse
"""

_AT_A_START = """
Answer Answers Calculate Candidate Check Confidence Count Do Example Final Find First Give How If In
Is It Let My No Now Output Please Predict Problem Put Question Return Reward Rewards Solve State Step
System The Then There Think This Use User Variance What When Write Yes You Your PROMPT REWARD_VARIANCE
"""

WORDS = tuple(dict.fromkeys([f" {word}" for word in _AFTER_A_SPACE.split()] + _AT_A_START.split()))
