#!/usr/bin/env bash
# bench.sh measures Ruby's tables in the project's own Ruby, and never ends without a word. Nothing is
# measured here: cargo, the benchmark and the Rubies are stand-ins in a folder of their own.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{bin,bench/wordmap,ruby/wordmap-ext,scripts/ruby,target/bench-wordmap/release}
cp -r scripts/wordmap "$work/scripts/"
cp scripts/ruby/{paths,messages,packages}.sh "$work/scripts/ruby/"

# stand_in FILE: a program that does what standard input says.
stand_in() {
  { echo '#!/bin/sh'; cat; } >"$work/$1"
  chmod +x "$work/$1"
}
stand_in bin/cargo <<<':'
stand_in bin/id <<<'echo 1000'
stand_in bin/dpkg-query <<<'echo ii'
stand_in bin/make <<<'touch wordmap.so'
stand_in target/bench-wordmap/release/ashlar-bench-wordmap <<<'echo table'
stand_in scripts/ruby/env.sh <<<"echo RUBY_STOCK=$work/bin/stock"
stand_in bin/stock <<'E2'
case "$1" in
  -e) echo 3.4.0 ;;
  -I) echo "measured in the project's Ruby" ;;
esac
E2
# A system's Ruby without its package of headers.
stand_in bin/ruby <<'E2'
[ "$1" != -e ] || { echo 3.1.2; exit; }
echo 'mkmf.rb cannot find header files for ruby' >&2
exit 1
E2

# claim WORDS... : standard output and error of the last run hold each of them.
claim() {
  local word
  for word in "$@"; do
    grep -qF -e "$word" "$work/said" && continue
    echo "bench-test: not said: $word" >&2
    cat "$work/said" >&2
    exit 1
  done
}
run() { (cd "$work" && env -u RUBY "$@" PATH="$work/bin:$PATH" scripts/wordmap/bench.sh --quick) >"$work/said" 2>&1; }

run HOME="$HOME" || { cat "$work/said"; exit 1; }
claim table "measured in the project's Ruby"
if run RUBY=ruby; then
  echo 'bench-test: a Ruby without headers was taken' >&2
  exit 1
fi
claim table 'mkmf.rb cannot find header files for ruby' 'Ashlar::WordMap cannot be built for ruby'
echo 'bench.sh: 2 claims hold'
