#!/usr/bin/env bash
# Counts the instructions of the benchmark's programs, which neighbours on a shared machine
# do not change. Each program runs at two sizes and the difference is counted, so start-up
# is not in it. One thread marks, and collections are done at once.
#   scripts/bench/instructions.sh
# Environment:
#   PROGRAMS   names from the list below, blanks between; all unless given
#   VARIANTS   stock, default, ashlar (this clone's library), inside (this clone's Ruby with
#              Ashlar inside), or the name of any other collector library that the modular
#              Ruby finds; "stock default ashlar inside" unless given
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v valgrind >/dev/null || {
  echo "instructions.sh: needs valgrind (Debian: apt-get install valgrind)" >&2
  exit 2
}

# name: program, arguments of the small run | of the large run
programs() {
  cat <<'LIST'
object-new|object_new.rb 200000|object_new.rb 1200000
binary-trees|binary_trees.rb 11|binary_trees.rb 14
templates|templates.rb 40|templates.rb 240
splay|splay.rb 1000 500|splay.rb 3000 4500
json|json_round_trip.rb 10|json_round_trip.rb 60
cpu|cpu.rb 1|cpu.rb 6
full-collections|full_collections.rb 2|full_collections.rb 12
LIST
}

# shellcheck source=scripts/bench/instruction-table.sh
. "$here/instruction-table.sh"
refuse_unknown_programs
VARIANTS=${VARIANTS:-stock default ashlar inside}
# shellcheck source=scripts/bench/variants.sh
. "$here/variants.sh"
exports=$("$here/../ruby/env.sh" "$(rubies_of "$VARIANTS")")
eval "$exports"
unset RUBY_GC_LIBRARY RUBYOPT LD_PRELOAD
cd "$here/../../workloads/ruby"

# count VARIANT COMMAND...
count() {
  local variant=$1 ruby library
  shift
  choose_ruby "$variant"
  RUBY_GC_LIBRARY=$library ASHLAR_INCREMENTAL=0 ASHLAR_THREADS=1 \
    valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null \
    --log-file="$counted/log" "$ruby" "$@" >"$counted/answer" || {
    echo "instructions.sh: '$*' failed on $variant:" >&2
    tail -n 5 "$counted/log" >&2
    return 1
  }
  awk '/I +refs/ {gsub(",", "", $NF); print $NF}' "$counted/log"
}

read -ra variants <<<"$VARIANTS"
print_table "${variants[@]}"
