#!/usr/bin/env bash
# One training run: data, training, export and evaluation, in under ten minutes on one GPU.
#
#   OUT=DIR training/run.sh                       from scratch
#   OUT=DIR INIT=models/mini SEED=2 training/run.sh   continue on fresh examples
#
# OUT        where the checkpoint, the logs and the results go
# INIT       checkpoint to continue from
# SEED       of the examples (1)
# EXAMPLES   how many of them (6000000)
# TOTAL_S    seconds for the whole run (480), of which EVALUATION_S for evaluation (70)
# COUNT      problems per task in the evaluation (128)
# MODEL      folder with the tokenizer and the held-out problems (models/mini)
# further arguments go to train.py
set -euo pipefail
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false
start=$(date +%s)
cd "$(dirname "$0")/.."
: "${OUT:?where to write the checkpoint}" "${INIT:=}" "${SEED:=1}" "${EXAMPLES:=6000000}" "${MODEL:=models/mini}"
: "${TOTAL_S:=480}" "${EVALUATION_S:=70}" "${COUNT:=128}" "${PYTHON:=python3}" "${EVALUATE:=}"
: "${PROCESSES:=$(($(nproc) > 4 ? $(nproc) - 3 : 1))}"
parts=$(mktemp -d)
mkdir -p "$OUT"

# The examples are made while the model is being compiled and trained.
$PYTHON training/data.py --train "$EXAMPLES" --seed "$SEED" --out "$parts" --tokenizer "$MODEL" --processes "$PROCESSES" &
data=$!
trap 'kill $data 2>/dev/null || true; rm -rf "$parts"' EXIT

$PYTHON training/train.py --data "$parts" --tokenizer "$MODEL" --out "$OUT" --minutes 60 --seed "$SEED" \
    --deadline $((start + TOTAL_S - EVALUATION_S)) ${INIT:+--init "$INIT"} "$@" 2>&1 | tee "$OUT/train.log"
left=$((start + TOTAL_S - $(date +%s) - 10))
$PYTHON training/evaluate.py --model "$OUT" --problems "$MODEL" --count "$COUNT" --seconds "$left" --out "$OUT/results.json" \
    $EVALUATE 2>&1 | tee "$OUT/evaluate.log" || echo "evaluation failed"
echo "whole run: $(($(date +%s) - start)) s"
