# shellcheck shell=bash disable=SC2154
# Which of several experiments, files of the lab, have the programs and variants that were asked for. Sourced after
# messages.sh and packages.sh, with set in between:
#   files                           the experiments
#   asked_programs, asked_variants  names; all that an experiment runs of itself where there are none
# `choose_all` sets programs_of and variants_of, each by file: the names with commas between. A file that is to be left out
# is in neither.

# named KIND FILE: the names of an experiment's programs or variants; a minus is in front of those that it runs only when
# they are asked for.
named() {
  awk -F'"' -v kind="$1" '
    function told() { if (name) print (left_out ? "-" : "") name; name = left_out = "" }
    /^\[/ { told(); inside = $0 == "[[" kind "]]" }
    inside && /^name = / { name = $2 }
    inside && /^chosen = false/ { left_out = 1 }
    END { told() }' "$2"
}

# among KIND FILE NAME...: which of the names the experiment has; without names, what it runs of itself.
among() {
  local kind=$1 file=$2
  shift 2
  if (($#)); then
    named "$kind" "$file" | sed 's/^-//' | grep -Fxf <(printf '%s\n' "$@") || true
  else
    named "$kind" "$file" | grep -v '^-'
  fi
}

# refuse_unknown KIND VARIABLE NAME...: fails for a name that no experiment has.
refuse_unknown() {
  local kind=$1 variable=$2 name known
  shift 2
  known=$(for file in "${files[@]}"; do named "$kind" "$file"; done | sed 's/^-//' | sort -u)
  for name in "$@"; do
    grep -qFx -e "$name" <<<"$known" ||
      fail "$variable has '$name', which is no $kind of ${files[*]##*/}; there are ${known//$'\n'/ }."
  done
}

declare -A programs_of=() variants_of=()

choose_all() {
  local file programs variants
  refuse_unknown program PROGRAMS "${asked_programs[@]}"
  refuse_unknown variant VARIANTS "${asked_variants[@]}"
  for file in "${files[@]}"; do
    programs=$(among program "$file" "${asked_programs[@]}")
    # Redmine comes from Debian's packages.
    is_debian || ((${#asked_programs[@]})) || programs=$(grep -v '^redmine' <<<"$programs" || true)
    variants=$(among variant "$file" "${asked_variants[@]}")
    [[ $programs ]] || continue
    # One of several variants alone compares nothing.
    if [[ -z $variants ]] || ((${#asked_variants[@]} > 1 && $(wc -l <<<"$variants") < 2)); then
      say "${file##*/} is left out: of VARIANTS it has ${variants:-none}."
      continue
    fi
    programs_of[$file]=${programs//$'\n'/,}
    # shellcheck disable=SC2034 # the script that sources this
    variants_of[$file]=${variants//$'\n'/,}
  done
}

# needed NAMES PREFIX: whether a name, of lists with commas between, begins so.
needed() { [[ ,$1 == *,"$2"* ]]; }
