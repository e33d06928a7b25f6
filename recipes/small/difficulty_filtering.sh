#!/usr/bin/env bash
# "Online Difficulty Filtering for Reasoning Oriented RL" in small: worked answers, pass rates, the offline
# baseline, GRPO with the online filter, accuracy. A lab model in place of Qwen2.5-3B; minutes on two cores.
#
#     recipes/small/difficulty_filtering.sh OUT
#
# At paper size: 1,107 worked answers, 16 prompts of 16 rollouts a step, the band (0.3, 0.7) or (0.2, 0.8), and
# the suites AIME24, AMC23, MATH-500, Minerva and OlympiadBench.
set -euo pipefail
out=${1:?usage: difficulty_filtering.sh OUT}
curro=${CURRO:-curro}
data=${DATA:-lab:chains}
prompts=${PROMPTS:-200}
rollouts=${ROLLOUTS:-6400}
problems=${PROBLEMS:-200}

# 1. Supervised training on a few worked answers gives the model the form of an answer.
$curro sft --data "$data" --model "$data" --limit 64 --learning-rate 1e-4 --out "$out/sft"

# 2. How often does this model solve each prompt?
$curro estimate "$data" --model "$out/sft" --limit "$prompts" -k 8 --out "$out/estimate"

# 3. The offline baseline: the prompts inside the band, once and for all, easy ones first.
$curro curate "$out/estimate" --keep 0.1,0.9 --order easy-first --out "$out/scheduled.jsonl"

# 4. The method: uniform prompts, and only groups whose pass rate is inside the band are trained on.
$curro train --data "$data" --model "$out/sft" --limit "$prompts" --curriculum uniform --admission band:0.1,0.9 \
    --prompts-per-step 4 --rollouts "$rollouts" --eval-every 0 --eval-prompts "$problems" --out "$out/run"

# 5. What it came to, beside the model that it started from.
$curro evaluate "$out/sft" "$out/run/model" --suite "$data" --limit "$problems" -k 4 --temperature 1 --top-p 1 \
    --out "$out/evaluation"
