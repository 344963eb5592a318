#!/usr/bin/env bash
# Where the time of the benchmark's programs goes: the share of samples in the collector (allocating cells, marking,
# sweeping, write barriers), in malloc (libc's, or Ashlar's payloads) and in the kernel, on each kind of Ruby. What is left is
# the interpreter, which no collector can make faster, and the part of allocating that is inlined into it. Environment:
#   PROGRAMS   names from workloads/ruby/bench.toml, blanks between; all unless given
#   VARIANTS   stock, default, ashlar (this clone's library) or inside (this clone's Ruby with Ashlar inside); "stock inside"
#              unless given
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v perf >/dev/null || {
  echo "profile.sh: needs perf (Debian: apt-get install linux-perf)" >&2
  exit 2
}

# programs: a line "name|arguments" for each program of the benchmark.
programs() {
  awk -F'"' '
    /^\[\[program\]\]/ { program = 1 }
    program && /^name/ { name = $2 }
    program && /^command/ {
      line = name "|"
      for (field = 4; field <= NF; field += 2) line = line $field " "
      print line
      program = 0
    }' "$here/../../workloads/ruby/bench.toml"
}

# shellcheck source=scripts/bench/programs.sh
. "$here/programs.sh"
refuse_unknown_programs
# shellcheck disable=SC2034 # setup.sh
measured="stock inside"
# shellcheck source=scripts/bench/setup.sh
. "$here/setup.sh"
# shellcheck source=scripts/bench/bundled-gems.sh
. "$here/bundled-gems.sh"
unset RUBYLIB
use_bundled_gems rdoc racc
read -ra variants <<<"${VARIANTS:-$measured}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$clone/workloads/ruby"

# shares VARIANT WORD...: "collector malloc kernel" in percent of the samples of a run.
shares() {
  local ruby library
  choose_ruby "$1"
  shift
  RUBY_GC_LIBRARY=$library perf record --quiet --output "$scratch/samples" "$ruby" "$@" >"$scratch/answer" 2>"$scratch/said" || {
    echo "profile.sh: perf could not record '$*': $(tail -n 1 "$scratch/said")" >&2
    return 1
  }
  perf report --input "$scratch/samples" --sort dso,sym --stdio --quiet 2>/dev/null | awk -f "$here/shares.awk"
}

header='| program |' rule='| --- |'
for variant in "${variants[@]}"; do
  header+=" $variant: collector, malloc, kernel |" rule+=' ---: |'
done
printf '%s a free collector / %s |\n%s ---: |\n' "$header" "${variants[0]}" "$rule"
programs | while IFS='|' read -r name arguments; do
  is_asked_for "$name" || continue
  read -ra words <<<"$arguments"
  row="| $name |" least=
  for variant in "${variants[@]}"; do
    own=$(shares "$variant" "${words[@]}")
    row+=" ${own// / %, } % |"
    : "${least:=$(awk '{ printf "%.2f", 1 - ($1 + $2) / 100 }' <<<"$own")}"
  done
  echo "$row $least |"
done
