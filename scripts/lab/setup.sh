#!/usr/bin/env bash
# Make the lab's virtual environment in the cache and print the path of its `ashlar` command.
# It has all that the command can use, Dask for several machines among it; with --test the test tools, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache="${ASHLAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ashlar}"
# One per clone: the lab is installed in editable form, and clones share the cache.
venv="$cache/lab/venv-$(printf %s "$PWD" | sha256sum | cut -c1-8)"
extra="png,cluster"
[ "${1:-}" = "--test" ] && extra="test"
wanted="$PWD $extra $(cksum < lab/pyproject.toml)"

have() { grep -qxF "$1" "$venv/.installed" 2>/dev/null && [ -x "$venv/bin/ashlar" ]; }
if ! have "$wanted"; then
  python="${PYTHON:-$(command -v python3 || true)}"
  debian="apt-get install -y --no-install-recommends python3 python3-venv gcc libc6-dev"
  if [ -z "$python" ] || ! "$python" -c 'import ensurepip, venv' 2>/dev/null || ! command -v "${CC:-cc}" >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      echo "lab: installing Python's venv and a C compiler" >&2
      { apt-get update -qq && $debian; } >&2
      python="${PYTHON:-$(command -v python3)}"
    else
      echo "lab: python3 with venv and a C compiler are needed; run as root: $debian" >&2
      exit 2
    fi
  fi
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "lab: $python is $("$python" -V), 3.11 or newer is needed; set PYTHON to a newer one" >&2
    exit 2
  fi
  echo "lab: setting up $venv" >&2
  mkdir -p "$cache/lab"
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "lab[$extra]" >&2
  # The test tools include everything else, so either wish is met from then on.
  { echo "$wanted"; [ "$extra" = test ] && echo "${wanted/ test / png,cluster }"; } > "$venv/.installed" || true
fi
echo "$venv/bin/ashlar"
