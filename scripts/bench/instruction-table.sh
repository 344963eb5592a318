# shellcheck shell=bash
# A table of instructions, for the scripts that count them. They define
#   programs                 prints lines: name|words of the small run|words of the large run
#   count VARIANT WORD...    prints the instructions of one run, and leaves what the program printed in $counted/answer
# Each program runs at two sizes and the difference is counted, so start-up is not in it. PROGRAMS chooses. All variants
# must print the same. bash goes on after an error within $(...), so each run is asked for its status.

counted=$(mktemp -d)
trap 'rm -rf "$counted"' EXIT
# shellcheck source=scripts/bench/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/programs.sh"

# counted_run VARIANT WORD...: the instructions of one run that printed what the first variant printed.
counted_run() {
  local instructions words=${*:2} expected
  expected="$counted/expected ${words//\//_}"
  instructions=$(count "$@") || return
  [[ $instructions =~ ^[0-9]+$ ]] || {
    echo "${0##*/}: valgrind counted no instructions of '$words' on $1" >&2
    return 1
  }
  if [[ ! -e $expected ]]; then
    mv "$counted/answer" "$expected"
  elif ! cmp -s "$counted/answer" "$expected"; then
    echo "${0##*/}: '$words' printed another answer on $1 than on the first variant:" >&2
    diff "$expected" "$counted/answer" | head -n 4 >&2
    return 1
  fi
  echo "$instructions"
}

# millions VARIANT SMALL LARGE: the difference, in millions.
millions() {
  local small large
  # shellcheck disable=SC2086
  small=$(counted_run "$1" $2) || return
  # shellcheck disable=SC2086
  large=$(counted_run "$1" $3) || return
  echo $(((large - small) / 1000000))
}

# print_table VARIANT...: in millions, and each beside the first.
print_table() {
  local variants=("$@") first=$1 variant header rule name small large base row own
  header="| program | $first (millions) |" rule='| --- | ---: |'
  for variant in "${variants[@]:1}"; do
    header+=" $variant (millions) | / $first |" rule+=' ---: | ---: |'
  done
  printf '%s\n%s\n' "$header" "$rule"
  programs | while IFS='|' read -r name small large; do
    is_asked_for "$name" || continue
    base=$(millions "$first" "$small" "$large") || exit 1
    row="| $name | $base |"
    for variant in "${variants[@]:1}"; do
      own=$(millions "$variant" "$small" "$large") || exit 1
      row+=" $own | $(awk -v own="$own" -v base="$base" 'BEGIN { printf "%.3f", own / base }') |"
    done
    echo "$row"
  done
}
