#!/usr/bin/env bash
# Every GPU figure of docs/benchmarks.md, in one command of less than ten minutes on a machine with one H200: kernels, whole models with random
# weights that are made here (in $WORK, up to 25 GB), the GPU tests, and the kernel tests under compute-sanitizer.
# BIN names a folder with the programs; without it the preset `cuda` is built first.
set -euo pipefail
cd "$(dirname "$0")/.."
work=${WORK:-$(mktemp -d)}
if [[ -z "${BIN:-}" ]]; then
  scripts/build.sh cuda gpu_ops_bench gpu_bench cuda_ops_test golden_test invariance_test
  BIN=$PWD/build/cuda/bin
fi
export MLXCEL_DEVICE=gpu
python=${PYTHON:-python3}

echo "## Kernels"
"$BIN/gpu_ops_bench"

echo "## Models: load, prefill of 2,048 tokens, decoding with 1, 8 and 64 streams"
for shape in 1b 8b; do
  for type in q4g64 bf16; do
    model=$work/$shape-$type
    [[ -d $model ]] || "$python" bench/make_random_model.py "$shape" "$type" "$model"
    "$BIN/gpu_bench" "$model" 1 8 64
    if [[ $shape-$type == 8b-q4g64 ]]; then
      for depth in 8192 32768; do
        MLXCEL_BENCH_CONTEXT=40960 MLXCEL_BENCH_DEPTH=$depth "$BIN/gpu_bench" "$model" 1
      done
    fi
    [[ -n "${WORK:-}" ]] || rm -rf "$model"
  done
done

echo "## Tests on the GPU"
for test in cuda_ops_test invariance_test golden_test; do
  "$BIN/$test" --gtest_brief=1 | tail -1
done
MLXCEL_ACTIVATIONS=f32 "$BIN/golden_test" --gtest_brief=1 | tail -1
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
for tool in memcheck racecheck; do
  "$sanitizer" --tool $tool --error-exitcode 9 "$BIN/cuda_ops_test" --gtest_brief=1 \
    --gtest_filter='*Attention.*:*StackedAndStrided*:*Norms*:*TakeAndCopy*' | tail -2
done
