#!/usr/bin/env bash
# Where the time of the benchmark's programs goes: the share of samples in the collector, in
# libc's malloc and in the kernel, on each kind of Ruby. What is left is the interpreter,
# which no collector can make faster. Environment:
#   PROGRAMS   names from workloads/ruby/bench.toml, blanks between; all unless given
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v perf >/dev/null || {
  echo "profile.sh: needs perf (Debian: apt-get install linux-perf)" >&2
  exit 2
}
# shellcheck source=scripts/bench/setup.sh
. "$here/setup.sh"
samples=$(mktemp)
said=$(mktemp)
trap 'rm -f "$samples" "$said"' EXIT

# What the collector runs inside Ruby's own executable.
in_ruby='gc_|rb_gc|obj_free|newobj|heap_page|rgengc|objspace'
in_libc='malloc|free|calloc|realloc|unlink_chunk|sysmalloc|systrim|sysdealloc|munmap_chunk|mremap_chunk|alloc_perturb'

# shares COMMAND...: "collector malloc kernel" in percent of the samples of a run.
shares() {
  (cd "$clone/workloads/ruby" && perf record --quiet --output "$samples" "$@" >/dev/null 2>"$said") || {
    echo "profile.sh: perf could not record '$*': $(tail -n 1 "$said")" >&2
    return 1
  }
  perf report --input "$samples" --sort dso,sym --stdio --quiet 2>/dev/null |
    awk -v in_ruby="$in_ruby" -v in_libc="$in_libc" '
      $1 ~ /%$/ {
        share = $1 + 0
        if ($2 ~ /librubygc/) collector += share
        else if ($2 ~ /^libc/ && $4 ~ in_libc) malloc += share
        else if ($2 ~ /kernel/) kernel += share
        else if ($2 == "ruby" && $4 ~ in_ruby) collector += share
      }
      END { printf "%.1f %.1f %.1f", collector, malloc, kernel }'
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
    }' "$clone/workloads/ruby/bench.toml"
}

echo "| program | stock: collector, malloc, kernel | default: collector, malloc, kernel | Ashlar: collector, malloc, kernel | a free collector / default |"
echo "| --- | ---: | ---: | ---: | ---: |"
programs | while IFS='|' read -r name arguments; do
  [[ -z ${PROGRAMS-} || " $PROGRAMS " == *" $name "* ]] || continue
  read -ra command <<<"$arguments"
  stock=$(shares "$RUBY_STOCK" "${command[@]}")
  default=$(RUBY_GC_LIBRARY=default shares "$RUBY" "${command[@]}")
  ashlar=$(RUBY_GC_LIBRARY=$ASHLAR_GC_LIBRARY shares "$RUBY" "${command[@]}")
  floor=$(awk '{ printf "%.2f", 1 - ($1 + $2) / 100 }' <<<"$default")
  echo "| $name | ${stock// / %, } % | ${default// / %, } % | ${ashlar// / %, } % | $floor |"
done
