# shellcheck shell=bash
# One measurement with its page and its record, for the scripts that have several. Sourced
# after stores.sh. Sets, from the environment, selection, options for `ashlar-lab compare`; whole, which
# is empty when a part was chosen; and points and curves, which are empty when those are left out:
#   PROGRAMS   names from the experiment, blanks between; all unless given
#   VARIANTS   likewise
#   BLOCKS     how often everything runs; what the experiment says unless given
#   TURNS      seconds, such as 0.25: the runs of a program in a block take turns; without it
#              they run one after another
#   CURVES     yes: also the curves over the collectors' knobs; no; only; yes for a whole run
#   RECORD     a folder for the record; unless given, bench/results/DATE-KIND of machine for
#              a whole run and none for a part
selection=()
[[ -z ${VARIANTS-} ]] || selection+=(--variants "$(tr -s ' ' , <<<"$VARIANTS" | tr -d '\n')")
[[ -z ${PROGRAMS-} ]] || selection+=(--programs "$(tr -s ' ' , <<<"$PROGRAMS" | tr -d '\n')")
[[ -z ${BLOCKS-} ]] || selection+=(--blocks "$BLOCKS")
whole=
[[ -n ${PROGRAMS-}${VARIANTS-} ]] || whole=yes

# shellcheck disable=SC2034 # points, curves: the script that sources this
case ${CURVES-} in
  '') points=yes curves=$whole ;;
  yes) points=yes curves=yes ;;
  no) points=yes curves= ;;
  only) points='' curves=yes ;;
  *)
    echo "${0##*/}: CURVES='$CURVES' is none of yes, no and only." >&2
    exit 2
    ;;
esac

record=${RECORD-}
if [[ -z $record && -n $whole ]]; then
  vendor=$(awk -F': *' '/^vendor_id/{print tolower($2); exit}' /proc/cpuinfo | sed 's/genuine//; s/authentic//')
  # shellcheck disable=SC2154 # clone: stores.sh needs it too
  record=$clone/bench/results/$(date -u +%Y-%m-%d)-$(uname -m)-${vendor:-unknown}-$(nproc)cpus
fi

# measure NAME EXPERIMENT OPTION...: an experiment's file, its page in build/bench, its record.
measure() {
  local name=$1 experiment=$2 store turns=()
  shift 2
  [[ -z ${TURNS-} ]] || turns=(--turns "$TURNS")
  store=$(fresh "$name")
  # shellcheck disable=SC2154 # ashlar_lab: stores.sh
  "$ashlar_lab" compare --experiment "$experiment" --store "$store" --form html "${turns[@]}" "$@"
  [[ -n $record ]] || return 0
  mkdir -p "$record"
  "$ashlar_lab" report "$store" --output "$record/$name" --form record --quiet
  echo "recorded $record/$name.md, .json and .csv"
}
