#!/usr/bin/env bash
# Tests the heap's C interface: what ashlar.h promises (crates/heap-capi/ctest) and a small
# Scheme (crates/heap-capi/examples/scheme), each also with GCC's sanitizers and under
# valgrind where they are installed; then an installed copy, found by pkg-config.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
crate=$PWD/crates/heap-capi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo build --release --quiet -p ashlar-heap-capi
library=${CARGO_TARGET_DIR:-$PWD/target}/release
ln -s "$library/libashlar.so" "$work/libashlar.so"
ln -s "$library/libashlar.so" "$work/libashlar.so.0"

say() { printf '  %-58s %s\n' "$1" "$2"; }

# compile OUTPUT WORD...: warnings are errors.
compile() {
  local output=$work/$1
  shift
  cc -std=gnu11 -g -Wall -Wextra -Werror "-I$crate/include" "$@" -o "$output" \
    "-L$work" -lashlar -lpthread "-Wl,-rpath,$work"
}

# claims NAME WORD...: runs the test program.
claims() {
  local name=$1
  shift
  "$@" >"$work/log" 2>&1 || {
    say "$name" FAILED
    tail -n 40 "$work/log"
    exit 1
  }
  say "$name" "$(tail -n 1 "$work/log")"
}

# programs NAME WORD...: runs the Scheme's programs and compares what they print.
programs() {
  local name=$1 program
  shift
  for program in fib queens trees deep strings tables; do
    echo "$program.scm"
    "$@" "$crate/examples/scheme/programs/$program.scm" || echo "ended with $?"
  done >"$work/log" 2>&1
  diff "$crate/examples/scheme/programs/expected" "$work/log" >"$work/difference" || {
    say "$name" FAILED
    cat "$work/difference"
    exit 1
  }
  say "$name" 'the same answers'
}

echo 'ashlar.h'
compile interface -O2 "$crate/ctest/interface.c"
claims 'the C test' "$work/interface"
compile interface_asan -O1 -fsanitize=address,undefined -fno-sanitize-recover=all "$crate/ctest/interface.c"
claims 'the C test with sanitizers' "$work/interface_asan"
if command -v valgrind >/dev/null; then
  compile interface_memcheck -O1 -DSCANS=0 "$crate/ctest/interface.c"
  # Its threads would else have turns at random: one that spins keeps another waiting for minutes.
  claims 'the C test under memcheck' valgrind -q --fair-sched=yes --error-exitcode=9 --leak-check=full "$work/interface_memcheck"
else
  say 'the C test under memcheck' 'not run: valgrind is not installed'
fi
if command -v c++ >/dev/null; then
  printf '#include "ashlar.h"\nint main() { ashlar_vm vm = ASHLAR_VM_INIT; return vm.moves; }\n' >"$work/header.cc"
  c++ -Wall -Wextra -Werror "-I$crate/include" -c "$work/header.cc" -o "$work/header.o"
  say 'the header in C++' compiles
fi

echo 'The Scheme'
compile scheme -O2 "$crate"/examples/scheme/*.c
programs 'its programs' "$work/scheme"
programs 'in slices' "$work/scheme" --heap 'slice_us=100 nursery_min=256K nursery_max=256K'
programs 'by several threads' "$work/scheme" --heap 'threads=3 space_overhead=20'
programs 'while everything moves' "$work/scheme" --heap stress=collect-every:20000,move-everything,verify,poison
compile scheme_asan -O1 -fsanitize=address,undefined -fno-sanitize-recover=all "$crate"/examples/scheme/*.c
programs 'with sanitizers' "$work/scheme_asan" --heap stress=collect-every:20000,move-everything
status=0
"$work/scheme" --heap space_overhead=5 "$crate/examples/scheme/programs/fib.scm" 2>"$work/log" || status=$?
if ((status != 1)) || ! grep -q 'space_overhead=5: auto or a whole number from 10 to 1000 is wanted' "$work/log"; then
  say 'a wrong option' FAILED
  exit 1
fi
say 'a wrong option' 'one line'

echo 'Installed'
mkdir -p "$work/installed/include" "$work/installed/lib/pkgconfig"
chmod 1771 "$work/installed" "$work/installed/include" "$work/installed/lib" "$work/installed/lib/pkgconfig"
(umask 077 && PREFIX=$work/installed scripts/heap-capi/install.sh >/dev/null)
modes=$(cd "$work/installed" && stat -c '%a %n' . include lib lib/pkgconfig share share/man/man3 include/ashlar.h lib/pkgconfig/ashlar.pc lib/libashlar.a)
[[ $modes == "1771 .
1771 include
1771 lib
1771 lib/pkgconfig
755 share
755 share/man/man3
644 include/ashlar.h
644 lib/pkgconfig/ashlar.pc
644 lib/libashlar.a" ]] || { say 'modes' FAILED; echo "$modes"; exit 1; }
say 'modes of what is new, and of folders that exist' 'as they are to be'
flags=$(sed -n 's/^Libs: //p; s/^Cflags: //p' "$work/installed/lib/pkgconfig/ashlar.pc" |
  sed "s|\${includedir}|$work/installed/include|; s|\${libdir}|$work/installed/lib|" | tr '\n' ' ')
if command -v pkg-config >/dev/null; then
  flags=$(PKG_CONFIG_PATH=$work/installed/lib/pkgconfig pkg-config --cflags --libs ashlar)
fi
# shellcheck disable=SC2086
cc -O2 "$crate"/examples/scheme/*.c -o "$work/scheme_installed" $flags "-Wl,-rpath,$work/installed/lib"
programs 'against the shared library' "$work/scheme_installed"
cc -O2 "-I$work/installed/include" "$crate"/examples/scheme/*.c "$work/installed/lib/libashlar.a" \
  -o "$work/scheme_static" -lpthread -ldl -lm
programs 'against the static library' "$work/scheme_static"
{
  echo '#include <ashlar.h>'
  awk '/^\.SH EXAMPLES/ { here = 1 } here && /^\.fi/ { exit } shown; here && /^\.nf/ { shown = 1 }' \
    "$work/installed/share/man/man3/ashlar.3"
} >"$work/page.c"
# shellcheck disable=SC2086
cc -Wall -Wextra "$work/page.c" -o "$work/page" $flags "-Wl,-rpath,$work/installed/lib" 2>/dev/null && "$work/page"
say "the man page's example" runs
awk '/^```/ { if (here) exit; here = $0 == "```c"; next } here' "$crate/README.md" >"$work/readme.c"
# shellcheck disable=SC2086
cc -Wall -Wextra -Wno-unused-parameter "$work/readme.c" -o "$work/readme" $flags "-Wl,-rpath,$work/installed/lib" && "$work/readme"
say "the README's example" runs
if command -v man >/dev/null; then
  man --warnings -l "$work/installed/share/man/man3/ashlar.3" 2>"$work/log" >/dev/null || true
  [[ ! -s $work/log ]] || { say 'the man page' FAILED; cat "$work/log"; exit 1; }
  say 'the man page' 'no warning'
fi
