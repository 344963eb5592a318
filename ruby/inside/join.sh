#!/usr/bin/env bash
# Joins Ruby's gc.o, the shim and the collector's static library into one object that takes
# gc.o's place: what gc.o defined and the malloc family stay global, everything else
# becomes local. So nothing of the collector's Rust runtime meets that of YJIT.
#   join.sh RESULT COLLECTOR GC_OBJECT SHIM_OBJECT...
# Code that few programs run lies together. The system maps 64 KiB around each page that is run, so what lies between
# pages that run counts as memory of every process.
set -euo pipefail
# Such code, by the names of Rust's functions: crates, and modules of ours.
rare='ashlar_wordmap[0-9]+(node|tree|walk)|miniz_oxide|flate2|crc32fast|gimli|addr2line|rustc_demangle|backtrace_rs'
rare+='|ashlar_ruby[0-9]+(code_cache|compaction|dump|heap_profile|ruby_gc_variables|size_signal|whole_file)'
rare+='|ashlar_heap[0-9]+(refusals|verify|heap[0-9]+compaction)'
result=$1 collector=$2
shift 2
kept=$result.kept
# The collector's own names are known to nobody else, but for those that edited files of Ruby call.
"${NM:-nm}" --defined-only --extern-only --format=posix "$@" |
  awk 'NF >= 3 && ($1 !~ /^ashlar_/ || $1 ~ /^ashlar_code_(caches|is_read|loaded|may_wait)$/) {print $1}' | sort -u >"$kept"
sed 's/^/--undefined=/' "$kept" >"$result.roots"
# Groups of sections would be thrown away beside YJIT's of the same names.
"${LD:-ld}" --relocatable --gc-sections --force-group-allocation --no-warnings "@$result.roots" \
  "$@" "$collector" -o "$result.joined"
# Each function of Rust has a section of its name; GNU ld gathers .text.sorted by name.
"${NM:-nm}" --defined-only --format=posix "$result.joined" | awk -v rare="$rare" '$1 ~ rare && tolower($2) == "t" && !seen[$1]++ {
  print "--rename-section=.text." $1 "=.text.sorted." $1
  print "--rename-section=.text.unlikely." $1 "=.text.sorted." $1
}' >"$result.rare"
"${OBJCOPY:-objcopy}" --remove-section=.llvmbc --remove-section=.llvmcmd --keep-global-symbols="$kept" \
  "@$result.rare" "$result.joined" "$result.new"
rm -f "$result.joined" "$result.roots" "$result.rare" "$kept"
mv "$result.new" "$result"
