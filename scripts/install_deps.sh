#!/usr/bin/env bash
# Installs the Debian 12 packages that the build needs, asking nothing. A second run with everything present does nothing.
#
#   scripts/install_deps.sh           what a build and the tests need
#   scripts/install_deps.sh tools     also clang 19 with its formatter, linter and sanitizer runtimes (make lint, make fuzz)
#   scripts/install_deps.sh --list    prints the package names instead of installing
set -euo pipefail

build=(
  g++ cmake ninja-build ccache mold pkg-config git ca-certificates python3 curl openssl
  libhwy-dev nlohmann-json3-dev libspdlog-dev libfmt-dev libcli11-dev libpcre2-dev libutf8proc-dev
  libcurl4-openssl-dev libssl-dev libboost1.81-dev libedit-dev libgtest-dev libgmock-dev libbenchmark-dev
)
tools=(clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev lld-19)

packages=("${build[@]}")
list_only=false
for argument in "$@"; do
  case "$argument" in
    tools) packages+=("${tools[@]}") ;;
    --list) list_only=true ;;
    *) echo "install_deps.sh: unknown argument '$argument' (known: tools, --list)" >&2; exit 2 ;;
  esac
done
if $list_only; then printf '%s\n' "${packages[@]}"; exit 0; fi

if ! command -v dpkg-query >/dev/null; then
  echo "install_deps.sh: this is not a Debian system; install the counterparts of: ${packages[*]}" >&2
  echo "install_deps.sh: going on, cmake will name what it does not find" >&2
  exit 0
fi

# A multi-arch package is listed once for each architecture.
installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qx "$package installed" <<<"$installed" || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  elif command -v sudo >/dev/null && [[ -t 0 && -z "${CI:-}" ]]; then
    as_root=(sudo)
  else
    echo "install_deps.sh: no right to install packages; as root run:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi

echo "Installing ${#missing[@]} packages: ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
    -o Dpkg::Use-Pty=0 "$@" </dev/null >"$log" 2>&1 || { cat "$log" >&2; return 1; }
}
apt update
apt install -y --no-install-recommends "${missing[@]}"
