#!/bin/sh
# Checks the GPU's code without a GPU: compiles all kernels with nvrtc from PyPI, then runs the GPU tests that are small
# enough on an emulated GPU (tests/emulator), which takes g++.
set -eu
cd "$(dirname "$0")/../.."
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
tests='cargo test --workspace --locked --test cuda'

[ -d "$target/nvrtc" ] || python3 -m venv "$target/nvrtc"
"$target/nvrtc/bin/pip" install --quiet --disable-pip-version-check 'nvidia-cuda-nvrtc-cu12==12.9.86' 'nvidia-cuda-nvrtc==13.0.88'
# What one version compiles another may refuse.
for library in $(find "$target/nvrtc" -name 'libnvrtc.so*'); do
    told=$(LD_LIBRARY_PATH=$(dirname "$library") $tests all_kernels -- --nocapture 2>&1) || { echo "$told"; exit 1; }
    echo "$told"
    case $told in *skipped*) exit 1 ;; esac
done

if ! command -v g++ >/dev/null; then
    [ -n "${CI:-}" ] || { echo 'g++ is missing: see `cargo xtask doctor`' >&2; exit 1; }
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends g++ >/dev/null
fi
emulator=crates/lacuna-models/tests/emulator
# Compiled kernels of earlier runs may be outdated.
rm -rf "$target/emulator"
mkdir "$target/emulator"
cp "$emulator/device.h" "$target/emulator"
g++ -std=c++17 -O2 -Wall -shared -fPIC "$emulator/gpu.cpp" -o "$target/emulator/libcuda.so" -ldl
for name in libnvrtc libcublasLt; do ln -sf libcuda.so "$target/emulator/$name.so"; done
export LD_LIBRARY_PATH="$target/emulator" XDG_CACHE_HOME="$target/emulator"
$tests -- --skip all_kernels
# A replica of the model on each of several GPUs.
EMULATED_GPUS=2 cargo test --workspace --locked --test gpus
# Hopper's way, where it is another.
EMULATED_CAPABILITY=90 $tests -- every a_batch_is reading where_nothing bf16 a_step_waits
