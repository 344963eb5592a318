#!/usr/bin/env bash
# Builds Ashlar::WordMap for a Ruby (RUBY, else `ruby`); prints the folder to
# add to the load path. Needs that Ruby's headers.
set -euo pipefail
cd "$(dirname "$0")/../.."
ruby="${RUBY:-ruby}"
command -v "$ruby" >/dev/null || { echo "no Ruby: set RUBY or install ruby and ruby-dev" >&2; exit 2; }
root="$PWD"
out="$root/build/wordmap-ext/$("$ruby" -e 'print RUBY_VERSION')"
mkdir -p "$out/ashlar"
(
    cd "$out"
    "$ruby" "$root/ruby/wordmap-ext/extconf.rb" >&2
    make --quiet >&2
    cp wordmap.so ashlar/
)
echo "$out"
