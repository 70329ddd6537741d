#!/usr/bin/env bash
# Rules of the tree that need no build: layers, sizes, forbidden headers, formatting.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
python3 tools/check_layers.py || failed=1
python3 tools/check_tree.py || failed=1
if command -v clang-format-19 >/dev/null; then
  git ls-files -z '*.h' '*.cc' '*.cu' '*.cuh' | xargs -0 clang-format-19 --dry-run -Werror || failed=1
elif [[ -n "${REQUIRE_CLANG_FORMAT:-}" ]]; then
  echo "check.sh: clang-format-19 is missing (scripts/install_deps.sh tools installs it)" >&2
  failed=1
else
  echo "check.sh: formatting not checked, clang-format-19 is missing" >&2
fi
exit $failed
