#!/usr/bin/env bash
# Joins Ruby's gc.o, the shim and the collector's static library into one object that takes
# gc.o's place: what gc.o defined and the malloc family stay global, everything else
# becomes local. So nothing of the collector's Rust runtime meets that of YJIT.
#   join.sh RESULT COLLECTOR GC_OBJECT SHIM_OBJECT...
set -euo pipefail
result=$1 collector=$2
shift 2
kept=$result.kept
# The collector's own names are known to nobody else, but for those that edited files of Ruby call.
"${NM:-nm}" --defined-only --extern-only --format=posix "$@" |
  awk 'NF >= 3 && ($1 !~ /^ashlar_/ || $1 ~ /^ashlar_code_(is_read|loaded|may_wait)$/) {print $1}' | sort -u >"$kept"
sed 's/^/--undefined=/' "$kept" >"$result.roots"
# Groups of sections would be thrown away beside YJIT's of the same names.
"${LD:-ld}" --relocatable --gc-sections --force-group-allocation --no-warnings "@$result.roots" \
  "$@" "$collector" -o "$result.joined"
"${OBJCOPY:-objcopy}" --remove-section=.llvmbc --remove-section=.llvmcmd --keep-global-symbols="$kept" \
  "$result.joined" "$result.new"
rm -f "$result.joined" "$result.roots" "$kept"
mv "$result.new" "$result"
