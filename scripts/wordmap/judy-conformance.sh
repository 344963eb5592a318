#!/usr/bin/env bash
# Runs libJudy's own checks, a differential fuzz beside the stock library, and
# real programs, all against our library in libJudy's place.
#
#   scripts/wordmap/judy-conformance.sh [SECONDS OF FUZZING]
#
# Needs: cc, a stock libJudy.so.1 (package libjudydebian1), and for the last
# part stress-ng. What is not there is named and skipped; the checks are not.
set -euo pipefail
cd "$(dirname "$0")/../.."
fuzz_seconds="${1:-30}"
root="$PWD"
work="$root/build/judy"
mkdir -p "$work/lib"

cargo build --release --quiet -p ashlar-wordmap-capi
target="${CARGO_TARGET_DIR:-$root/target}"
ours="$work/lib/libJudy.so.1"
cp "$target/release/libashlar_judy.so" "$ours"
ln -sf libJudy.so.1 "$work/lib/libJudy.so"
source_dir="$(scripts/wordmap/judy-source.sh)"
headers="$source_dir/src"
checks=0

say() { printf '  %-46s %s\n' "$1" "$2"; }

run() { # NAME COMMAND...: the command must end with 0
    local name="$1" log="$work/log"
    shift
    if LD_LIBRARY_PATH="$work/lib" timeout 600 "$@" >"$log" 2>&1; then
        say "$name" ok
        checks=$((checks + 1))
    else
        say "$name" "FAILED (exit $?)"
        tail -20 "$log"
        exit 1
    fi
}

build() { # OUTPUT SOURCE...: libJudy's tests as they are, warnings and all
    local output="$1"
    shift
    cc -O -w -I"$headers" "$@" -o "$work/$output" -L"$work/lib" -lJudy -lm -ldl
}

echo "Symbols and soname"
nm -D --defined-only "$ours" | awk '{print $3}' | grep '^Judy' | sort >"$work/exported"
sed -n 's/^extern.*[ *]\(Judy[A-Za-z0-9]*\)[ (;].*/\1/p' "$headers/Judy.h" | sort -u >"$work/declared"
missing="$(comm -13 "$work/exported" "$work/declared")"
if [ -n "$missing" ]; then
    echo "Judy.h declares what the library does not export: $missing"
    exit 1
fi
count="$(wc -l <"$work/exported")"
[ "$count" = 52 ] || { echo "52 public symbols expected, $count exported"; exit 1; }
objdump -p "$ours" | grep -q 'SONAME *libJudy.so.1' || { echo "the soname is not libJudy.so.1"; exit 1; }
say "52 symbols, libJudy.so.1" ok

echo "libJudy's own checks"
build lhcheck "$source_dir/test/Judy1LHCheck.c"
build lcheck "$source_dir/test/Judy1LCheck.c"
build slcompare -DJUDYMETHOD "$source_dir/test/SLcompare.c"
build stringcompare "$source_dir/test/StringCompare.c"
build lhtime "$source_dir/test/Judy1LHTime.c"
build ltime "$source_dir/test/Judy1LTime.c"
for bits in 16 20 32 64; do run "Judy1LHCheck -B$bits" "$work/lhcheck" -n 300000 "-B$bits"; done
for options in -S1 -S256 -D -d; do run "Judy1LHCheck $options" "$work/lhcheck" -n 200000 "$options"; done
for bits in 20 64; do run "Judy1LCheck -B$bits" "$work/lcheck" -n 200000 "-B$bits"; done
run "Judy1LHTime" "$work/lhtime" -n 100000 -L1H
run "Judy1LTime" "$work/ltime" -n 100000 -L1
# The words and their order are made here: any text file serves.
cat "$source_dir"/src/Judy*/*.c | tr -cs 'A-Za-z_' '\n' | head -200000 >"$work/words"
run "SLcompare" "$work/slcompare" "$work/words"
run "StringCompare -A JudySL" "$work/stringcompare" -A JudySL -D "$work/words"
run "StringCompare -A JudyHS" "$work/stringcompare" -A JudyHS -D "$work/words"
run "StringCompare -A JLHash" "$work/stringcompare" -A JLHash "$work/words"

echo "Our own C test and examples"
cc -O1 -g -Wall -Wextra -I"$headers" -Icrates/wordmap-capi/include crates/wordmap-capi/ctest/interface.c -o "$work/interface" -L"$work/lib" -lJudy
run "ctest/interface" "$work/interface"
cc -O1 -g -Wall -Wextra -I"$headers" -Icrates/wordmap-capi/include crates/wordmap-capi/examples/cursor.c -o "$work/cursor" -L"$work/lib" -lJudy
run "examples/cursor" "$work/cursor"
awk '/^```/ { if (here) exit; here = $0 == "```c"; next } here' crates/wordmap-capi/README.md >"$work/readme.c"
cc -O1 -g -Wall -Wextra -I"$headers" "$work/readme.c" -o "$work/readme" -L"$work/lib" -lJudy
run "the README's example" "$work/readme"

echo "Beside the stock library"
stock="$(ldconfig -p | awk '/libJudy\.so\.1 / {print $NF; exit}')"
if [ -n "$stock" ]; then
    cc -O1 -g -Wall -Wextra -I"$headers" crates/wordmap-capi/ctest/differential.c -o "$work/differential" -ldl
    run "differential fuzz, ${fuzz_seconds} s" "$work/differential" "$ours" "$stock" "$fuzz_seconds" "$(date +%s)"
    tail -1 "$work/log"
else
    say "differential fuzz" "SKIPPED: no stock libJudy.so.1 (apt-get install libjudydebian1)"
fi

echo "Real programs"
if command -v stress-ng >/dev/null; then
    run "stress-ng --judy --verify" stress-ng --judy 1 --judy-ops 3 --verify
else
    say "stress-ng --judy" "SKIPPED: not installed (apt-get install stress-ng)"
fi
if command -v validns >/dev/null; then
    # shellcheck disable=SC2016
    printf '$ORIGIN example.\n$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 127.0.0.1\n' >"$work/zone"
    run "validns (JudySL, JudyHS)" validns -z example. "$work/zone"
else
    say "validns" "SKIPPED: not installed (apt-get install validns)"
fi
if command -v tdb >/dev/null; then
    seq 1 20000 | awk '{printf "%032x %d page%d\n", $1 % 977, $1, $1 % 131}' >"$work/events"
    rm -rf "$work"/trail*
    run "tdb make (JudyHS, JudyL, Judy1)" tdb make -d ' ' -f uuid,time,page -i "$work/events" -o "$work/trail"
    run "tdb dump" tdb dump -i "$work/trail"
    [ "$(grep -c page "$work/log")" -ge 20000 ] || { echo "tdb lost events"; exit 1; }
else
    say "tdb (traildb)" "SKIPPED: not installed (apt-get install traildb-cli)"
fi
echo
echo "$checks passed, 0 failed"
