#!/usr/bin/env bash
# Installs what is needed, builds, and runs every test: the release build, then the suites that read hostile input under
# AddressSanitizer and UndefinedBehaviorSanitizer, and a build with the CUDA backend where nvcc is. The last line is
# "N passed, N failed"; exits 1 unless everything passed. QUICK=1 leaves out the sanitizer and CUDA builds.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/local/cuda/bin"
failed_steps=()
folders=()
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
rm -rf build/release/results build/asan/results

# step <what> <command...>: a failed step counts as one failure.
step() {
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  if "$@"; then
    echo "== $name: $((SECONDS - start)) s"
  else
    echo "== $name: FAILED after $((SECONDS - start)) s" >&2
    failed_steps+=("$name")
    return 1
  fi
}

# run_tests <what> <preset> [ctest options]: failed tests count as themselves.
run_tests() {
  local start=$SECONDS
  echo "== $1"
  scripts/run_ctest.sh "${@:2}" || true
  if [[ -f "build/$2/results/ctest.xml" ]]; then folders+=("build/$2/results"); else failed_steps+=("$1"); fi
  echo "== $1: $((SECONDS - start)) s"
}

step "packages" scripts/install_deps.sh || { echo "0 passed, 1 failed"; exit 1; }
# Tests on the demo model skip when it cannot be fetched.
if model=$(python3 scripts/fetch_demo_model.py --gguf); then export MLXCEL_DEMO_MODEL="$model"; fi
step "rules of the tree" scripts/check.sh
step "release build" scripts/build.sh release && run_tests "tests" release
if [[ -z "${QUICK:-}" ]]; then
  step "sanitizer build" scripts/build.sh asan hostile_tests && run_tests "tests with sanitizers" asan -L hostile
  if command -v nvcc >/dev/null; then step "CUDA build" scripts/build.sh cuda mlxcel; fi
fi

[[ ${#failed_steps[@]} -eq 0 ]] || printf 'FAILED step: %s\n' "${failed_steps[@]}"
python3 tools/count_tests.py --failures --extra-failures ${#failed_steps[@]} "${folders[@]}"
