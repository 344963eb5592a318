#!/usr/bin/env bash
# The Rubies and the collector made for aarch64, and their tests there, in an emulator.
#   scripts/test/aarch64.sh                           all parts, then the quick ones with larger pages
#   scripts/test/aarch64.sh behaviour-inside heap     these parts, on the ordinary kernel
#   scripts/test/aarch64.sh --kernel 16k quick-inside
#   scripts/test/aarch64.sh --kernel ~/linux/arch/arm64/boot/Image heap    a kernel of your own
#   scripts/test/aarch64.sh run 'uname -a; "$RUBY_INSIDE" -v'    any command there
# Parts: heap, behaviour-inside, behaviour-module, quick-inside, quick-module. Options:
#   --kernel NAME    a series of Debian's, 6.1 by default, 16k (6.12 with pages of 16 KiB), or a file
#   --only TEXT      of a behaviour part the files whose name contains TEXT, of a quick one the jobs
# What is built and downloaded is cached. Nothing needs root but missing packages. An emulated
# machine is some twenty times slower, so everything takes hours: this is no part of `make test`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export ASHLAR_MACHINE=aarch64
# shellcheck source=scripts/ruby/rubies.sh
. "$here/../ruby/rubies.sh"
# shellcheck source=scripts/test/kernels/debian-kernels.sh
. "$here/kernels/debian-kernels.sh"

PARTS=(heap behaviour-inside behaviour-module quick-inside quick-module)
# What is tried with larger pages.
LARGE_PAGES_PARTS=(heap quick-inside quick-module)
SLOWDOWN=20
EMULATOR_PACKAGES=(qemu-system-arm e2fsprogs cpio zstd)

# What the first steps need to reach the disk, in the order in which it is loaded.
MODULES=(virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_mmio virtio_blk virtio_console
  crc32c_generic libcrc32c crc16 mbcache jbd2 ext4)

# kernel_named NAME: the series and the flavour, of what is no file.
kernel_named() {
  case $1 in
    16k) echo 6.12 arm64-16k ;;
    [0-9]*.[0-9]*) echo "$1" arm64 ;;
    *) fail "there is no kernel '$1'; it is a series such as 6.1, 16k or a file." ;;
  esac
}

# get_kernel NAME: sets KERNEL, the folder with `image` and `modules`.
get_kernel() {
  local series flavour
  if [[ -f $1 ]]; then
    KERNEL=$CROSS/kernel-own
    rm -rf "$KERNEL"
    mkdir -p "$KERNEL/modules"
    cp "$1" "$KERNEL/image"
    return
  fi
  read -r series flavour <<<"$(kernel_named "$1")"
  ensure_kernel "$series" "$flavour" "${MODULES[@]}"
}

# make_first_steps JOB: the archive that the kernel begins with. It mounts the disk, puts the job
# there, and goes on from it.
make_first_steps() {
  local folder=$CROSS/first-steps
  rm -rf "$folder"
  mkdir -p "$folder/modules" "$folder/disk" "$folder/dev"
  cp "$ROOT/bin/busybox" "$folder/busybox"
  cp "$KERNEL"/modules/* "$folder/modules/" 2>/dev/null || true
  printf '%s\n' "$1" >"$folder/job"
  cat >"$folder/init" <<'INIT'
#!/busybox sh
/busybox mount -t devtmpfs none /dev
for module in /modules/*.ko; do /busybox insmod "$module"; done
while [ ! -b /dev/vda ]; do /busybox sleep 0.1; done
/busybox mount -t ext4 /dev/vda /disk || /busybox poweroff -f
/busybox cp /job /disk/job
exec /busybox switch_root /disk /start
INIT
  chmod +x "$folder/init"
  (cd "$folder" && find . | cpio -o -H newc --quiet | gzip -1) >"$CROSS/first-steps.gz"
}

# What the machine does when the disk is there.
write_start() {
  cat >"$1" <<'START'
#!/bin/busybox sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
ln -sfn /proc/self/fd /dev/fd
ip link set lo up
hostname ashlar
setsid bash /job </dev/null >/dev/console 2>&1
echo "job ended with $?" >/dev/console
sync
busybox poweroff -f
START
  chmod +x "$1"
}

# make_disk: a file system with Debian, the Rubies under the names that they have here, and this
# clone's tests. Files are linked into a folder that becomes the image.
make_disk() {
  local stage=$CROSS/stage disk=$CROSS/disk
  rm -rf "$stage" "$disk"
  cp -al "$ROOT" "$stage"
  # The heap's tests look for docs/ from the folder of their crate.
  mkdir -p "$stage$SOURCES" "$stage$CLONE/target" "$stage$CLONE/crates/heap" "$stage$HOME" "$stage$CROSS"
  cp -al "$SOURCE" "$stage$(dirname "$SOURCE")/"
  cp -al "$RUBIES" "$stage$(dirname "$RUBIES")/"
  cp -a "$CLONE/docs" "$CLONE/ruby" "$CLONE/scripts" "$CLONE/workloads" "$stage$CLONE/"
  ln -s / "$stage$ROOT"
  add_system_files "$stage"
  write_start "$stage/start"
  run_logged 'disk of the emulated machine' 10 "$CROSS/log" \
    mke2fs -q -t ext4 -O ^has_journal -d "$stage" "$disk" "$(($(du -sm "$stage" | cut -f1) * 5 / 4 + 2048))M"
  rm -rf "$stage"
}

# What the scripts of packages would have made.
add_system_files() {
  ln -sfn mawk "$1/usr/bin/awk"
  ln -sfn gcc "$1/usr/bin/cc"
  cp "$1/usr/share/base-passwd/passwd.master" "$1/etc/passwd"
  cp "$1/usr/share/base-passwd/group.master" "$1/etc/group"
  echo '127.0.0.1 localhost ashlar' >"$1/etc/hosts"
  echo ashlar >"$1/etc/hostname"
  cp "$CROSS/environment" "$1/environment"
  cp -r "$CROSS/heap-tests" "$1/heap-tests"
}

# command_of PART ONLY
command_of() {
  local tests='"$RUBY_STOCK"' collector=ashlar files=()
  case $1 in *-inside) collector=inside ;; esac
  case $1 in
    heap) echo 'for test in /heap-tests/*; do "$test" --test-threads 2 || echo "FAILED $test"; done' ;;
    behaviour-*)
      if [[ $2 ]]; then
        mapfile -t files < <(cd "$CLONE/ruby/test" && ls -- *"$2"*_test.rb)
        ((${#files[@]})) || fail "no file of ruby/test has '$2' in its name."
      fi
      echo "$tests $CLONE/ruby/test/run.rb --slowdown $SLOWDOWN --collector $collector ${files[*]}"
      ;;
    quick-*) echo "$tests --disable-gems $CLONE/scripts/ruby-tests/main.rb quick --slowdown $SLOWDOWN --collector $collector ${2:+--only $2}" ;;
    *) fail "there is no part '$1'; it is one of: ${PARTS[*]}." ;;
  esac
}

# emulate KERNEL_NAME COMMAND LOG: boots, runs the command there, and ends with its status.
emulate() {
  local status
  get_kernel "$1"
  make_first_steps ". /environment
export HOME=$HOME LANG=C.UTF-8 PATH
ulimit -c 0
cd $CLONE
uname -rm; getconf PAGESIZE
$2"
  # The disk stays as it is: what the machine writes is forgotten.
  qemu-system-aarch64 -M virt -cpu neoverse-n1 -accel tcg,thread=multi -smp "$(nproc)" -m 6144 -nographic -no-reboot \
    -nic none -kernel "$KERNEL/image" -initrd "$CROSS/first-steps.gz" -append 'console=ttyAMA0 quiet panic=1 root=/dev/vda' \
    -drive "file=$CROSS/disk,if=none,id=disk,format=raw,snapshot=on" -device virtio-blk-pci,drive=disk \
    </dev/null | sed -u 's/\r$//' | tee "$3"
  status=$(sed -n 's/^job ended with //p' "$3")
  [[ $status ]] || fail "the emulated machine ended in the middle; see $3."
  return "$status"
}

# The tests of crates/heap, as programs.
make_heap_tests() {
  local program
  rm -rf "$CROSS/heap-tests"
  mkdir -p "$CROSS/heap-tests"
  while IFS= read -r program; do cp "$program" "$CROSS/heap-tests/"; done < <(cd "$CLONE" &&
    cargo test --release --no-run --message-format=json -p ashlar-heap --lib --tests 2>>"$CROSS/log" |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
  [[ $(ls "$CROSS/heap-tests") ]] || fail "the heap's tests could not be compiled; see $CROSS/log."
}

make_all() {
  local exports
  prepare_cross
  ensure_packages 'the emulated machine' "${EMULATOR_PACKAGES[@]}"
  exports=$("$here/../ruby/env.sh" --inside)
  printf '%s\n' "$exports" >"$CROSS/environment"
  eval "$exports"
  find_source
  make_heap_tests
  make_disk
}

kernel=6.1
only=
parts=()
while (($#)); do
  case $1 in
    --kernel | --only)
      (($# > 1)) || fail "$1 wants a value."
      [[ $1 == --only ]] && only=$2 || kernel=$2
      shift
      ;;
    run)
      (($# > 1)) || fail 'run wants a command.'
      parts+=(run "$2")
      shift
      ;;
    -*) fail "unknown option $1." ;;
    *)
      command_of "$1" "$only" >/dev/null
      parts+=("$1")
      ;;
  esac
  shift
done
[[ -f $kernel ]] || kernel_named "$kernel" >/dev/null
command -v nproc >/dev/null || fail 'nproc is missing (coreutils).'
make_all
logs=$CLONE/build/aarch64
mkdir -p "$logs"

rows=()
failed=0
# try KERNEL PART...
try() {
  local kernel=$1 part began outcome
  shift
  for part; do
    began=$SECONDS
    printf '\n=== aarch64, kernel %s: %s\n' "$kernel" "$part"
    if emulate "$kernel" "$(command_of "$part" "$only")" "$logs/$part-${kernel##*/}.log"; then
      outcome=passed
    else
      outcome=FAILED
      failed=1
    fi
    rows+=("$(printf '%-8s %-18s %6d s  %s' "${kernel##*/}" "$part" $((SECONDS - began)) "$outcome")")
  done
}

case ${parts[0]-} in
  run)
    emulate "$kernel" "${parts[1]}" "$logs/run.log"
    exit
    ;;
  '')
    try "$kernel" "${PARTS[@]}"
    [[ $kernel != 6.1 ]] || try 16k "${LARGE_PAGES_PARTS[@]}"
    ;;
  *) try "$kernel" "${parts[@]}" ;;
esac
printf '\n=== parts on aarch64\n'
printf '%s\n' "${rows[@]}"
exit $failed
