#!/bin/sh
# Compiles all GPU kernels, without a GPU: with nvrtc from PyPI, in a virtual environment of its own.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
[ -d "$target/nvrtc" ] || python3 -m venv "$target/nvrtc"
"$target/nvrtc/bin/pip" install --quiet --disable-pip-version-check 'nvidia-cuda-nvrtc-cu12==12.9.86'
library=$(find "$(cd "$target/nvrtc" && pwd)" -name 'libnvrtc.so*' | head -n 1)
told=$(LD_LIBRARY_PATH=$(dirname "$library") \
    cargo test --workspace --locked --test cuda all_kernels -- --nocapture 2>&1) || { echo "$told"; exit 1; }
case $told in *skipped*) echo "$told"; exit 1 ;; esac
echo "all kernels compile"
