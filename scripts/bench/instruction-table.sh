# shellcheck shell=bash
# A table of instructions, for the scripts that count them. They define
#   programs                 prints lines: name|words of the small run|words of the large run
#   count VARIANT WORD...    prints the instructions of one run
# Each program runs at two sizes and the difference is counted, so start-up is not in it.

# millions VARIANT SMALL LARGE: the difference, in millions.
millions() {
  local small large
  # shellcheck disable=SC2086
  small=$(count "$1" $2)
  # shellcheck disable=SC2086
  large=$(count "$1" $3)
  echo $(((large - small) / 1000000))
}

# print_table VARIANT...: in millions, and each beside the first. PROGRAMS chooses.
print_table() {
  local variants=("$@") first=$1 variant header rule name small large base row own
  header="| program | $first (millions) |" rule='| --- | ---: |'
  for variant in "${variants[@]:1}"; do
    header+=" $variant (millions) | / $first |" rule+=' ---: | ---: |'
  done
  printf '%s\n%s\n' "$header" "$rule"
  programs | while IFS='|' read -r name small large; do
    [[ -z ${PROGRAMS-} || " $PROGRAMS " == *" $name "* ]] || continue
    base=$(millions "$first" "$small" "$large")
    row="| $name | $base |"
    for variant in "${variants[@]:1}"; do
      own=$(millions "$variant" "$small" "$large")
      row+=" $own | $(awk -v own="$own" -v base="$base" 'BEGIN { printf "%.3f", own / base }') |"
    done
    echo "$row"
  done
}
