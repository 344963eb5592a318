# shellcheck shell=bash
# The lab and its stores. Sourced with clone set, the project's folder. Sets ashlar_lab, the
# lab's command, and results, a folder outside version control.
# shellcheck disable=SC2154 # clone: the script that sources this
ashlar_lab=$("$clone/scripts/lab/setup.sh")
results=$clone/build/bench
mkdir -p "$results"
ASHLAR_COMMIT=$(git -C "$clone" describe --always --dirty 2>/dev/null || echo unknown)
export ASHLAR_COMMIT

# Two measurements would take each other's processors and stores. Kept until this shell and all that it started has ended.
exec {measuring}>"$results/lock"
if ! flock -n "$measuring"; then
  echo "${0##*/}: waiting for another measurement in this clone (it holds $results/lock)" >&2
  flock "$measuring"
fi

# fresh NAME: the path of a store that does not exist yet. The one that was there, perhaps of an interrupted night, is kept as
# NAME.ashlar.old, with what its last write left.
fresh() {
  local store=$results/$1.ashlar
  if [[ -e $store ]]; then
    rm -f "$store.old-journal"
    [[ ! -e $store-journal ]] || mv "$store-journal" "$store.old-journal"
    mv "$store" "$store.old"
    echo "${0##*/}: the store of the run before is $store.old" >&2
  fi
  echo "$store"
}
