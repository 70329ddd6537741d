#!/usr/bin/env bash
# Builds the libFuzzer targets and runs each for FUZZ_SECONDS (60). What libFuzzer finds goes to build/fuzz/corpus/<target>, inputs that
# crash to build/fuzz/crashes. FUZZ_TARGETS limits the run to some targets, FUZZ_MERGE=1 adds new corpus files to the tree.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_deps.sh tools
seconds=${FUZZ_SECONDS:-60}
scripts/build.sh fuzz fuzz_targets
targets=(${FUZZ_TARGETS:-$(cd fuzz && ls ./*_fuzz.cc | sed 's|^./||; s|_fuzz.cc$||')})
[[ ${#targets[@]} -gt 0 ]] || { echo "fuzz.sh: no fuzz/*_fuzz.cc" >&2; exit 1; }
mkdir -p build/fuzz/crashes
failed=()
for target in "${targets[@]}"; do
  found="build/fuzz/corpus/$target"
  mkdir -p "$found" "fuzz/corpus/$target"
  options=(-max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=65536 -print_final_stats=1
           -verbosity=0 -artifact_prefix="build/fuzz/crashes/$target-")
  [[ -f "fuzz/$target.dict" ]] && options+=(-dict="fuzz/$target.dict")
  log="build/fuzz/$target.log"
  start=$SECONDS
  if "build/fuzz/bin/${target}_fuzz" "${options[@]}" "$found" "fuzz/corpus/$target" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$target: ${runs:-0} runs in $((SECONDS - start)) s, no fault"
  else
    failed+=("$target")
    echo "$target: FAILED, see $log and build/fuzz/crashes" >&2
    grep -E 'ERROR|SUMMARY|Error' "$log" | head -5 >&2 || true
  fi
  if [[ -n "${FUZZ_MERGE:-}" ]]; then
    "build/fuzz/bin/${target}_fuzz" -merge=1 -verbosity=0 "fuzz/corpus/$target" "$found" >>"$log" 2>&1
  fi
done
echo "$((${#targets[@]} - ${#failed[@]})) passed, ${#failed[@]} failed"
[[ ${#failed[@]} -eq 0 ]]
