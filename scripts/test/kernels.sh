#!/usr/bin/env bash
# Tries Ashlar on other kernels than the one that runs here: Debian's, in an emulator (docs/design/kernels.md).
#   scripts/test/kernels.sh                           the oldest and the newest that are served, 6.1 and 6.12
#   KERNELS="6.1 6.17" scripts/test/kernels.sh        these
#   KERNELS=6.1 SHORT=yes scripts/test/kernels.sh     a few of the claims of ruby/test
# Ends with a line for each kernel and variant, and 'N passed, N failed'. The exit status is 0 when none failed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here/../ruby/rubies.sh"
# shellcheck source=scripts/test/kernels/debian-kernels.sh
. "$here/kernels/debian-kernels.sh"
# shellcheck source=scripts/test/kernels/machine.sh
. "$here/kernels/machine.sh"

SHORT=${SHORT:-no}
[[ $SHORT == yes || $SHORT == no ]] || fail "SHORT=$SHORT is not possible; it is yes or no."
read -ra kernels <<<"${KERNELS:-oldest 6.1 6.12 newest}"
for kernel in "${kernels[@]}"; do
  [[ $kernel =~ ^([0-9]+\.[0-9]+|oldest|newest)$ ]] ||
    fail "KERNELS: '$kernel' is not possible; it takes series such as 6.1, and oldest and newest."
done
[[ $(uname -m) == x86_64 ]] || fail 'the kernels that are tried are those for x86-64.'
is_debian || fail 'this needs Debian, whose packages have the kernels.'
LIMIT_S=7200
FLAVOUR=cloud-amd64 # for virtual machines: all that is needed to run from memory is built in
ensure_packages 'the emulator' qemu-system-x86 busybox-static cpio
for kernel in "${kernels[@]}"; do ensure_kernel "$kernel" "$FLAVOUR"; done
exports=$("$here/../ruby/env.sh" --inside)
eval "$exports"

work=$CLONE/build/kernels
mkdir -p "$work"
say 'packing the machine'
make_machine "$work"

# boot NAME KERNEL LOG: runs it to its end, or to the time limit. What the console says ends in lines as a terminal's do. Without
# cx16, because QEMU 7.2 has CMPXCHG16B spoil the flags at times, and newer kernels crash by that while they boot.
boot() {
  rm -f "$3"
  # shellcheck disable=SC2016
  run_logged "$1" 40 "$3" bash -c 'timeout "$@" </dev/null || echo "the emulator ended with status $?"' boot \
    "$LIMIT_S" qemu-system-x86_64 -accel tcg,thread=multi -cpu max,cx16=off -smp 2 -m 2048 \
    -nodefaults -no-reboot -display none -serial stdio -kernel "$2" -initrd "$work/machine.cpio" \
    -append 'console=ttyS0 quiet loglevel=1 panic=-1'
  sed -i 's/\r$//' "$3"
}

passed=0
failed=0
rows=()
# count KERNEL LOG: adds up what the machine said; what failed is shown with what came before it.
count() {
  local variant name outcome seconds_taken variants=' '
  declare -A good=() bad=()
  while IFS='|' read -r variant name outcome seconds_taken; do
    [[ $variants == *" $variant "* ]] || variants+="$variant "
    if [[ $outcome == ok ]]; then
      good[$variant]=$((${good[$variant]:-0} + 1))
    else
      bad[$variant]=$((${bad[$variant]:-0} + 1))
      printf '\nFAILED on %s, %s: %s, after %s s\n' "$1" "$variant" "$name" "$seconds_taken"
      awk -v line="@ $variant|$name|FAILED" 'index($0, line) == 1 {printf "%s", text; exit} /^@ / {text = ""; next} {text = text "    " $0 "\n"}' "$2"
    fi
  done < <(sed -n 's/^@ \(.*|.*\)/\1/p' "$2")
  for variant in $variants; do
    rows+=("$(printf '%-28s %-10s %3d passed, %d failed' "$1" "$variant" "${good[$variant]:-0}" "${bad[$variant]:-0}")")
    passed=$((passed + ${good[$variant]:-0}))
    failed=$((failed + ${bad[$variant]:-0}))
  done
  if ! grep -q '^@ ended' "$2"; then
    failed=$((failed + 1))
    rows+=("$(printf '%-28s did not come to its end; see %s' "$1" "$2")")
    tail -n 20 "$2"
  fi
}

for kernel in "${kernels[@]}"; do
  ensure_kernel "$kernel" "$FLAVOUR"
  boot "kernel $kernel" "$KERNEL/image" "$work/$kernel.log"
  release=$(sed -n 's/^@ Linux //p' "$work/$kernel.log")
  count "Linux ${release:-$kernel}" "$work/$kernel.log"
done
printf '\n'
printf '%s\n' "${rows[@]}"
printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0 && passed > 0)) || exit 1
