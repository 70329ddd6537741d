#!/usr/bin/env bash
# clang-tidy 19, warnings as errors, on the .cc files changed since main and those that include a changed header.
# ALL=1: on every file. FILES="a.cc b.cc": on these.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_deps.sh
scripts/install_deps.sh tools
mkdir -p build/release
cmake --preset release >build/release/configure.log 2>&1 || { cat build/release/configure.log >&2; exit 1; }
python3 tools/check_headers.py

if [[ -n "${FILES:-}" ]]; then
  files=($FILES)
elif [[ -n "${ALL:-}" ]]; then
  mapfile -t files < <(git ls-files 'src/*.cc' 'tests/*.cc' 'fuzz/*.cc' 'bench/*.cc')
else
  base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main)
  mapfile -t changed < <({ git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } | sort -u)
  mapfile -t files < <(printf '%s\n' "${changed[@]}" | grep '\.cc$' || true)
  for header in $(printf '%s\n' "${changed[@]}" | sed -n 's|^src/\(.*\.h\)$|\1|p'); do
    mapfile -t -O "${#files[@]}" files < <(git grep -l "#include \"$header\"" -- '*.cc' || true)
  done
  mapfile -t files < <(printf '%s\n' "${files[@]}" | sed '/^$/d' | sort -u)
fi
[[ ${#files[@]} -gt 0 ]] || { echo "lint.sh: no files changed"; exit 0; }

echo "clang-tidy on ${#files[@]} files"
printf '%s\0' "${files[@]}" | xargs -0 -P "${JOBS:-$(nproc)}" -n 1 clang-tidy-19 -p build/release --quiet
