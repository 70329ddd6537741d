#!/usr/bin/env bash
# build.sh <preset> [target...]: configures the preset when needed and builds the targets (default: all).
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?build.sh: name a preset of CMakePresets.json}
shift
# A failed or interrupted configuration leaves no build.ninja; then and only then the whole log is worth reading.
mkdir -p "build/$preset"
if ! cmake --preset "$preset" >"build/$preset/configure.log" 2>&1; then
  cat "build/$preset/configure.log" >&2
  exit 1
fi
grep -A3 'CMake Warning' "build/$preset/configure.log" >&2 || true
targets=()
[[ $# -gt 0 ]] && targets=(--target "$@")
# Ninja rewrites its status line in place on a terminal; elsewhere only what goes wrong is of interest.
quiet=()
[[ -t 1 ]] || quiet=(-- --quiet)
cmake --build "build/$preset" -j "${JOBS:-$(nproc)}" "${targets[@]}" "${quiet[@]}"
