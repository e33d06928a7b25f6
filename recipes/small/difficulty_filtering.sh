#!/usr/bin/env bash
# "Online Difficulty Filtering for Reasoning Oriented RL" in small: worked answers, pass rates by the model itself and by
# another one, the offline baselines, GRPO with the online filter, accuracy. Lab models in place of Qwen2.5-3B and, for
# the other one, Qwen2.5-7B-Instruct; a quarter of an hour on two cores.
#
#     recipes/small/difficulty_filtering.sh OUT
#
# Eight rollouts measure pass rates in eighths, so the band is 0.1 to 0.9; the paper's rows "scheduled" by another model are
# left out.
#
# At paper size: 1,107 worked answers, 16 prompts of 16 rollouts a step, the band (0.3, 0.7) or (0.2, 0.8), and
# the suites AIME24, AMC23, MATH-500, Minerva and OlympiadBench.
set -euo pipefail
out=${1:?usage: difficulty_filtering.sh OUT}
curro=${CURRO:-curro}
python=${PYTHON:-python}
data=${DATA:-lab:chains}
reward=${REWARD:-$data}
prompts=${PROMPTS:-200}
rollouts=${ROLLOUTS:-6400}
problems=${PROBLEMS:-200}
band=0.1,0.9

# 1. Supervised training on a few worked answers gives the model the form of an answer.
$python "$(dirname "$0")/cold_start.py" "$data" "$out/sft"

# 2. How often does this model solve each prompt ("initial" in table 1), and how often another one ("external")?
$curro estimate "$data" --model "$out/sft" --limit "$prompts" -k 8 --out "$out/initial"
$curro estimate "$data" --model "$data" --limit "$prompts" -k 8 --out "$out/external"

# 3. Offline curation keeps the prompts inside the band once and for all; scheduling also orders them, easy ones first.
$curro curate "$out/initial" --keep $band --out "$out/curated.jsonl"
$curro curate "$out/external" --keep $band --out "$out/external.jsonl"
$curro curate "$out/initial" --keep $band --order easy-first --out "$out/scheduled.jsonl"

# 4. Algorithm 1: the least visited prompts first, and only groups whose pass rate is inside the band are trained on.
run=(--model "$out/sft" --prompts-per-step 4 --rollouts "$rollouts" --eval-every 0 --eval-data "$data"
    --eval-prompts "$problems" --learning-rate 3e-4 --warmup-steps 30 --max-completion-length 16)
$curro train --data "$data" --limit "$prompts" --curriculum least-visited --admission band:$band \
    "${run[@]}" --out "$out/online"

# 5. The baselines: all groups of the whole data, of the curated prompts, and of these in their order.
$curro train --data "$data" --limit "$prompts" --curriculum least-visited "${run[@]}" --out "$out/plain"
columns=(--prompt-column prompt --answer-column answer --key-column key --reward "$reward")
$curro train --data "$out/curated.jsonl" --curriculum least-visited "${columns[@]}" "${run[@]}" --out "$out/curated"
$curro train --data "$out/external.jsonl" --curriculum least-visited "${columns[@]}" "${run[@]}" --out "$out/curated-external"
$curro train --data "$out/scheduled.jsonl" --curriculum scheduled "${columns[@]}" "${run[@]}" --out "$out/scheduled"

# 6. What each came to, beside the model that they started from.
$curro evaluate "$out/sft" "$out"/{online,plain,curated,curated-external,scheduled}/model --suite "$data" \
    --limit "$problems" -k 4 --temperature 1 --top-p 1 --out "$out/evaluation"
