#!/bin/sh
# Runs all GPU tests, every kernel alone and the benchmark on a machine with an NVIDIA GPU, and prints tables at the end.
#
#   crates/lacuna-models/cuda-check.sh            builds what it needs with cargo
#   crates/lacuna-models/cuda-check.sh FOLDER     takes the binaries `cuda-tests`, `kernel` and `lacuna` from a folder, for
#                                                 machines without a Rust toolchain; made elsewhere with
#                                                   cargo build --release -p lacuna-cli
#                                                   cargo build --release -p lacuna-models --example kernel
#                                                   cargo test --release -p lacuna-models --test cuda --no-run
#
# libcublasLt and libnvrtc must be installed or on LD_LIBRARY_PATH. Ends with 1 if a test failed or a kernel is wrong; the tables
# are printed all the same.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -gt 0 ]; then
    tests=$1/cuda-tests kernel=$1/kernel lacuna=$1/lacuna
else
    cd "$here/../.."
    cargo build --release -p lacuna-cli
    cargo build --release -p lacuna-models --example kernel
    built=${CARGO_TARGET_DIR:-target}/release
    lacuna=$built/lacuna kernel=$built/examples/kernel
    tests=$(cargo test --release -p lacuna-models --test cuda --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))/\1/p')
fi

"$lacuna" inspect --device cuda >/dev/null
"$lacuna" inspect | grep -E '^(computes in|GPU)'
failed=
CARGO_MANIFEST_DIR=$here "$tests" --test-threads 4 --nocapture || failed="$failed tests"
CARGO_MANIFEST_DIR=$here "$tests" --ignored --test-threads 1 || failed="$failed ignored-tests"

echo
"$kernel" all || failed="$failed kernels"

echo
field() { printf '%s' "$line" | sed 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/'; }
row() { printf '%-10s %-5s %-7s %-7s %-12s %9s %9s %8s %9s %6s\n' "$@"; }
row shape prec. batch length strategy 'step ms' forward read 'TFLOP/s' share
bench() {
    line=$("$lacuna" bench --device cuda --format json "$@") || { failed="$failed bench"; return 0; }
    speed=$(field gflops) ceiling=$(field ceiling_gflops)
    row "$(field shape)" "$(field precision)" "$(field batch)" "$(field length)" "$(field strategy)" \
        "$(printf %.3f "$(field ms_per_step)")" "$(printf %.3f "$(field forward_ms)")" "$(printf %.3f "$(field read_ms)")" \
        "$(awk "BEGIN { printf \"%.0f\", $speed / 1000 }")" "$(awk "BEGIN { printf \"%.0f%%\", 100 * $speed / $ceiling }")"
}
for precision in bf16 fp8; do
    # Only Hopper has fp8.
    [ $precision = bf16 ] || "$lacuna" inspect --device cuda --precision $precision >/dev/null || continue
    for length in 320 640 1024; do bench --shape llada-8b --precision $precision --length $length --repetitions 20; done
    bench --shape llada-8b --precision $precision --length 640 --batch 8 --repetitions 8
done
# The same step without dependency scores: what DOS costs.
bench --shape llada-8b --length 640 --strategy random --repetitions 20
bench --shape llada-8b --length 640 --strategy confidence --block-length 32 --repetitions 20
bench --shape llada-8b --length 640 --strategy confidence --block-length 320 --repetitions 20
bench --shape dream-7b --length 640 --repetitions 20
bench --shape medium --length 256 --repetitions 20
bench --shape small --length 256 --repetitions 20
for batch in 1 8 64; do bench --shape mini --length 200 --block-length 128 --strategy dos+eb --batch $batch --repetitions 20; done
bench --shape mini --length 200 --block-length 128 --strategy dos+eb --batch 64 --precision f32 --repetitions 10

echo
if [ -n "$failed" ]; then
    echo "failed:$failed"
    exit 1
fi
echo "all passed"
