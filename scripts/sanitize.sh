#!/usr/bin/env bash
# sanitize.sh <asan|tsan> [test regex]: builds with a sanitizer and runs the tests (or those whose name matches).
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?sanitize.sh: name asan or tsan}
filter=${2:-}
[[ "$preset" == tsan ]] && scripts/install_deps.sh tools || scripts/install_deps.sh
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0:allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}
scripts/build.sh "$preset"
scripts/run_ctest.sh "$preset" ${filter:+-R "$filter"}
