# shellcheck shell=bash
# The lab and its stores. Sourced with clone set, the project's folder. Sets ashlar_lab, the
# lab's command, and results, a folder outside version control.
# shellcheck disable=SC2154 # clone: the script that sources this
ashlar_lab=$("$clone/scripts/lab/setup.sh")
results=$clone/build/bench
mkdir -p "$results"
ASHLAR_COMMIT=$(git -C "$clone" describe --always --dirty 2>/dev/null || echo unknown)
export ASHLAR_COMMIT

# fresh NAME: the path of a store that does not exist yet.
fresh() {
  rm -f "$results/$1.ashlar"
  echo "$results/$1.ashlar"
}
