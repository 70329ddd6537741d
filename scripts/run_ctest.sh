#!/usr/bin/env bash
# run_ctest.sh <preset> [ctest options]: runs the tests of a build folder and leaves their reports in build/<preset>/results.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?run_ctest.sh: name a preset}
shift
results="$PWD/build/$preset/results"
rm -rf "$results"
mkdir -p "$results"
export GTEST_OUTPUT="json:$results/" GTEST_COLOR=no
ctest --test-dir "build/$preset" -j "${JOBS:-$(nproc)}" --output-on-failure --output-junit "$results/ctest.xml" "$@"
