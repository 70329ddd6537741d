#!/usr/bin/env bash
# Installs what is needed, builds, fetches SmolLM2-135M-Instruct, answers a prompt and prints speed and peak memory.
#   PROMPT="..." make demo     another prompt
#   MODEL=<path or owner/name> another model
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_deps.sh
scripts/build.sh release mlxcel
mlxcel=build/release/bin/mlxcel
model=${MODEL:-$(python3 scripts/fetch_demo_model.py --mlxcel "$mlxcel")}
prompt=${PROMPT:-Explain in two sentences why the sky is blue.}
echo
"$mlxcel" --version
echo
echo "Model:  $model"
echo "Prompt: $prompt"
echo
# Once unmeasured, so that the measured run finds the file in the page cache, as every run but the first does.
"$mlxcel" generate -m "$model" -p "$prompt" -n 1 >/dev/null </dev/null
python3 tools/peak_memory.py --over "$model" -- \
  "$mlxcel" generate -m "$model" -p "$prompt" -n "${TOKENS:-128}" --profile </dev/null
echo
echo "Chat with it:  $mlxcel run $model"
