#!/usr/bin/env bash
# The models of the experiment on decoding orders, both at the same time on one GPU, in ten minutes:
#
#   uniform-SEED   mini's shape and data, but LLaDA's masks (every token alike) and its weight 1/t
#   orders-SEED    a smaller model for the tasks with known dependencies, masked alike, unweighted
#
#   OUT=DIR SEED=1 training/experiment.sh
#
# OUT       where the checkpoints and the logs go
# SEED      of examples, weights and masks (1)
# TOTAL_S   seconds for everything (560)
# CHECK     held-out problems per task that are decoded on the way (32)
# further arguments go to train.py
set -euo pipefail
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=2
start=$(date +%s)
cd "$(dirname "$0")/.."
: "${OUT:?where to write the checkpoints}" "${SEED:=1}" "${TOTAL_S:=560}" "${CHECK:=32}" "${PYTHON:=python3}"
: "${MINI:=3600000}" "${ORDERS:=6000000}" "${MINI_PROCESSES:=9}" "${ORDERS_PROCESSES:=4}"
parts=$(mktemp -d)
mkdir -p "$OUT"
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$parts"' EXIT

$PYTHON training/data.py --kind orders --heldout "$CHECK" --seed 1 --out "$parts/heldout"
$PYTHON training/data.py --train "$MINI" --seed "$SEED" --out "$parts/mini" --processes "$MINI_PROCESSES" &
$PYTHON training/data.py --kind orders --train "$ORDERS" --seed "$SEED" --out "$parts/orders" \
    --processes "$ORDERS_PROCESSES" &
train() { # name, arguments
    local out=$OUT/$1-$SEED
    shift
    mkdir -p "$out"
    $PYTHON training/train.py --tokenizer models/mini --out "$out" --minutes 60 --seed "$SEED" --check "$CHECK" \
        --deadline $((start + TOTAL_S)) --uniform "$@" > "$out/train.log" 2>&1
}
train uniform --data "$parts/mini" --weighted "$@" &
uniform=$!
train orders --data "$parts/orders" --problems "$parts/heldout" --shape orders --canvases orders "$@" &
orders=$!
failed=0
wait $uniform || failed=1
wait $orders || failed=1
tail -n 4 "$OUT"/*/train.log
echo "whole experiment: $(($(date +%s) - start)) s"
exit $failed
