#!/usr/bin/env bash
# Kernel benchmarks, then the end-to-end speed of the demo model. BENCH_FILTER limits the kernel benchmarks (a regular expression).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_deps.sh
scripts/build.sh release
echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores; commit $(git rev-parse --short=12 HEAD)"
for program in build/release/bin/*_bench; do
  [[ -x "$program" && "$program" != */gpu_* ]] || continue  # those have bench/h200.sh
  echo "== $(basename "$program")"
  "$program" --benchmark_filter="${BENCH_FILTER:-.}" --benchmark_min_warmup_time=0.1
done
model=${MODEL:-$(python3 scripts/fetch_demo_model.py --gguf)}
echo "== generate, 512 prompt tokens (about) and 128 generated, $model"
prompt=$(python3 -c 'print("The quick brown fox jumps over the lazy dog. " * 50)')
for _ in 1 2 3; do
  build/release/bin/mlxcel generate -m "$model" -p "$prompt" -n 128 --no-chat-template --profile </dev/null | grep -E 'tok/s'
done
