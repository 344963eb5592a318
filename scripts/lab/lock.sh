#!/usr/bin/env bash
# Make lab/requirements.txt anew: of each package that the lab, its extras and its build need, the newest version that
# lab/pyproject.toml allows, with the hashes of all its files. Run the lab's tests then, and commit it.
set -euo pipefail
cd "$(dirname "$0")/../../lab"
python="${PYTHON:-python3}"
# Newer ones need no more packages than the oldest that the lab is for, and some need fewer.
if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
  echo "lock: $python is $("$python" -V 2>&1); the oldest Python that the lab is for decides, so set PYTHON to a 3.11" >&2
  exit 2
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work"
"$work/bin/python" -m pip install --quiet --disable-pip-version-check pip-tools
"$work/bin/pip-compile" --quiet --upgrade --all-extras --all-build-deps --allow-unsafe --strip-extras --generate-hashes \
  --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file "$work/requirements.txt" pyproject.toml
{ echo "# Made by scripts/lab/lock.sh."; grep -v '^#\|^$' "$work/requirements.txt"; } > requirements.txt.new
mv requirements.txt.new requirements.txt
grep -c '==' requirements.txt | sed 's/$/ packages are in lab\/requirements.txt/' >&2
