#!/usr/bin/env bash
# What the scripts that measure (scripts/bench) promise: a program that fails, or that prints something else on one of the
# variants, is in no table of instructions; a Ruby that no variant names is not made; two measurements of a clone do not mix; and
# what was measured before is kept.
# Nothing is measured: valgrind, the lab and what they run are stand-ins in a clone of their own.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checks=0
mkdir -p "$work"/{bin,scripts/ruby,scripts/mruby,scripts/lab,workloads/ruby,build/native/{malloc,ashlar},built/{stock,ashlar}/bin}
cp -r "$here/../bench" "$work/scripts/"

# stand_in FILE: a program that does what standard input says.
stand_in() {
  { echo '#!/bin/sh'; cat; } >"$work/$1"
  chmod +x "$work/$1"
}
# The first number of a program's arguments, in millions, is what it takes. It says so as valgrind does.
stand_in bin/valgrind <<'E2'
while :; do
  case $1 in
    --log-file=*) log=${1#*=} ;;
    --*) ;;
    *) break ;;
  esac
  shift
done
"$@" || exit
for word; do case $word in [1-9]*) break ;; esac; done
echo "==1== I   refs:      ${word}000000" | if [ "$log" ]; then cat >"$log"; else cat >&2; fi
E2
# A program that fails on FAILS_ON, and prints something of its own on DIFFERS_ON.
program() {
  stand_in "$1" <<E2
[ "\${FAILS_ON-}" != $2 ] || exit 139
[ "\${DIFFERS_ON-}" != $2 ] || echo of its own
echo the answer to "\$@" | sed 's|/.*/||'
E2
}
program bin/stock first
program bin/inside second
program built/stock/bin/mruby first
program built/ashlar/bin/mruby second
program build/native/malloc/native first
program build/native/ashlar/native second
stand_in scripts/ruby/env.sh <<E2
echo "\$@" >"$work/rubies"
echo "export RUBY=$work/bin/inside RUBY_STOCK=$work/bin/stock RUBY_INSIDE=$work/bin/inside ASHLAR_GC_LIBRARY=none"
E2
stand_in scripts/mruby/build.sh <<E2
echo "$work/built/\$1"
E2

# run COMMAND [NAME=VALUE...]: what a script of scripts/bench says, in `answer`, and its status.
run() {
  local command
  read -ra command <<<"$1"
  status=0
  answer=$(env -u FAILS_ON -u DIFFERS_ON -u TURNS "${@:2}" PATH="$work/bin:$PATH" "$work/scripts/bench/${command[0]}" "${command[@]:1}" 2>&1) ||
    status=$?
}

# claims CLAIM STATUS WORDS [WORDS THAT ARE NOT SAID]
claims() {
  [[ $status == "$2" && $answer == *"$3"* && (! ${4-} || $answer != *"$4"*) ]] || {
    printf 'measuring.sh: %s: not so. The script said (status %s):\n%s\n' "$1" "$status" "$answer" >&2
    exit 1
  }
  checks=$((checks + 1))
}

# tries COMMAND VARIANTS PROGRAM ROW
tries() {
  local variants=VARIANTS=$2 one=PROGRAMS=$3
  run "$1" "$variants" "$one"
  claims "$1: the difference of two runs, beside the first's" 0 "$4"
  run "$1" "$variants" "$one" FAILS_ON=second
  claims "$1: a program that fails on one of them ends it" 1 failed "| $3 |"
  run "$1" "$variants" "$one" FAILS_ON=first
  claims "$1: and on the first" 1 failed "| $3 |"
  run "$1" "$variants" "$one" DIFFERS_ON=second
  claims "$1: another answer ends it" 1 'printed another answer on' "| $3 |"
  run "$1" "$variants" "PROGRAMS=$3 typo"
  claims "$1: a program that there is not is refused in one line" 2 "PROGRAMS has 'typo'" $'\n'
}
tries instructions.sh 'stock inside' cpu '| cpu | 5 | 5 | 1.000 |'
# makes ARGUMENT VARIANTS: what env.sh is told for them.
makes() {
  run instructions.sh "VARIANTS=$2" PROGRAMS=cpu
  answer=$(<"$work/rubies") claims "the Rubies of VARIANTS='$2', and no other, are made" 0 "$1"
}
makes --only-stock stock
makes --only-inside 'stock inside'
makes --modular 'stock default ashlar'
makes --inside 'ashlar inside'
tries native-instructions.sh 'glibc ashlar' lists '| lists | 500 | 500 | 1.000 |'
tries 'mruby.sh --instructions' '' json '| json | 18 | 18 | 1.000 |'

# The lab writes its process into the store that it is told to make, and that another one measured meanwhile.
stand_in scripts/lab/setup.sh <<E2
echo "$work/scripts/lab/lab"
E2
stand_in scripts/lab/lab <<'E2'
while [ "$1" != --store ]; do shift; done
[ ! -e "$2" ] || echo the store is there already
[ ! -e "$2.measuring" ] || echo another one measures
echo $$ >"$2"
touch "$2.measuring"
sleep 0.3
rm "$2.measuring"
[ "$INTERRUPTED" != yes ] || { touch "$2-journal"; exit 130; }
E2
measures() { run mruby.sh CURVES=no RECORD= PROGRAMS=trees "$@"; }
store=$work/build/bench/mruby.ashlar
measures INTERRUPTED=yes
interrupted=$(<"$store")
measures
claims 'a store of an interrupted run is kept' 0 "the store of the run before is $store.old"
[[ $(<"$store.old") == "$interrupted" && -e $store.old-journal && ! -e $store-journal ]] || claims 'and it is that one, with its journal' 0 no
for _ in 1 2; do (measures; claims 'two at once wait for each other' 0 '' 'measures') & done
wait -n
wait -n
checks=$((checks + 2))
echo "$checks checks passed"
