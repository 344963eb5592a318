# shellcheck shell=bash
# Which of a script's programs PROGRAMS asks for. The script defines
#   programs   prints lines: name|...
read -ra asked_programs <<<"${PROGRAMS-}"

# refuse_unknown_programs: fails with one line if PROGRAMS has a name that is none of `programs`.
refuse_unknown_programs() {
  local name known
  known=$(programs | cut -d'|' -f1 | paste -sd' ')
  for name in "${asked_programs[@]}"; do
    [[ " $known " == *" $name "* ]] || {
      echo "${0##*/}: PROGRAMS has '$name', which is none of the programs; there are $known." >&2
      exit 2
    }
  done
}

# is_asked_for NAME
is_asked_for() { ((!${#asked_programs[@]})) || [[ " ${asked_programs[*]} " == *" $1 "* ]]; }
