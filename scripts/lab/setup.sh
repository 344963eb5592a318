#!/usr/bin/env bash
# Make the lab's virtual environment in the cache and print the path of its `ashlar-lab` command.
# It has all that the command and its tests can use, Dask for several machines among it, in the versions of
# lab/requirements.txt: pip checks the hash of each file that it gets. `scripts/lab/lock.sh` makes that file anew.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache="${ASHLAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ashlar}"
# One per clone: the lab is installed in editable form, and clones share the cache.
venv="$cache/lab/venv-$(printf %s "$PWD" | sha256sum | cut -c1-8)"
wanted="$PWD $(cat lab/pyproject.toml lab/requirements.txt | cksum)"

# Whether the environment has what it should. After an upgrade of the system's Python the packages are in the folder of the
# old one, and nothing of it runs.
ready() {
  local version
  [ "$(cat "$venv/.installed" 2>/dev/null)" = "$wanted" ] && [ -x "$venv/bin/ashlar-lab" ] || return
  version="$("$venv/bin/python" -V 2>/dev/null)" || return
  version="${version#Python }"
  [ -d "$venv/lib/python${version%.*}" ]
}

set_up() {
  local python debian pip
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
  # One that was interrupted before it had pip, or whose Python is another one now, cannot be gone on with.
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear "$venv"
  pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
  "${pip[@]}" --require-hashes --requirement lab/requirements.txt >&2
  # With nothing fetched besides: what builds the lab is among those packages.
  "${pip[@]}" --no-deps --no-build-isolation --editable lab >&2
  echo "$wanted" > "$venv/.installed"
}

if ! ready; then
  mkdir -p "$cache/lab" "$cache/locks"
  exec {lock}>"$cache/locks/lab-${venv##*-}.lock"
  if ! flock -n "$lock"; then
    echo "lab: waiting for another process that sets up $venv" >&2
    flock "$lock"
  fi
  ready || set_up
fi
echo "$venv/bin/ashlar-lab"
