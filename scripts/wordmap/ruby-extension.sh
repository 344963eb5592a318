#!/usr/bin/env bash
# Builds Ashlar::WordMap for a Ruby (RUBY, else `ruby`); prints the folder to
# add to the load path. Needs that Ruby's headers. What the build says is kept
# in build.log there, and shown when the build fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
ruby="${RUBY:-ruby}"
command -v "$ruby" >/dev/null || { echo "no Ruby: set RUBY or install ruby and ruby-dev" >&2; exit 2; }
root="$PWD"
out="$root/build/wordmap-ext/$("$ruby" -e 'print RUBY_VERSION')"
mkdir -p "$out/ashlar"
build() {
    cd "$out"
    "$ruby" "$root/ruby/wordmap-ext/extconf.rb" && make --quiet && cp wordmap.so ashlar/
}
if ! (build) >"$out/build.log" 2>&1; then
    tail -n 15 "$out/build.log" >&2
    echo "Ashlar::WordMap cannot be built for $ruby; set RUBY to a Ruby with its headers, or leave it out for the one of \`make ruby\`" >&2
    exit 1
fi
echo "$out"
