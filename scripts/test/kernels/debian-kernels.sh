# shellcheck shell=bash
# Kernels from Debian's packages, without installing them. Sourced by kernels.sh and aarch64.sh, after rubies.sh.

KERNEL_SUITES=(bullseye bookworm bookworm-backports trixie trixie-backports forky unstable experimental)
KERNEL_FOLDER=$CACHE/kernels

# kernel_apt SUITE COMMAND...: as if this were a machine for the flavour's kernels, with no package installed.
kernel_apt() {
  local suite=$1 architecture=${KERNEL_FLAVOUR#cloud-}
  architecture=${architecture%%-*}
  shift
  private_apt "$suite" "$1" -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
    -o Dir::State::status=/dev/null "${@:2}"
}

# listed_kernels SUITE: the names of its packages of this flavour, the oldest first. Others end in the same word: cloud-arm64 and rt-arm64
# are no arm64.
listed_kernels() {
  if [[ ! -e $KERNEL_WORK/$1.listed ]]; then
    name_suite "$1" "$(any_mirror)" deb
    kernel_apt "$1" apt-get update >>"$KERNEL_LOG" 2>&1 || true
    kernel_apt "$1" apt-cache search --names-only "^linux-image-[0-9].*-$KERNEL_FLAVOUR\$" 2>>"$KERNEL_LOG" |
      awk -v flavour="$KERNEL_FLAVOUR" '/meta-package/ {next}
        {version = substr($1, 1, length($1) - length(flavour)); sub(/^linux-image-/, "", version)}
        version !~ /-[a-z]/ {print $1}' | sort -V >"$KERNEL_WORK/$1.listed" || true
  fi
  cat "$KERNEL_WORK/$1.listed"
}

# kernels_that_fit WANTED SUITE...: lines of a suite and a name, the best first.
kernels_that_fit() {
  local wanted=$1 suite
  shift
  for suite in "$@"; do
    listed_kernels "$suite" | sed "s/^/$suite /"
  done | case $wanted in
    oldest) sort -V -k 2 ;;
    newest) sort -rV -k 2 ;;
    *) awk -v prefix="linux-image-$wanted." 'index($2, prefix) == 1' | sort -rV -k 2 ;;
  esac
}

# download_kernel SUITE NAME MODULE...: leaves its parts in KERNEL.new. Newer packages have the kernel itself and its modules in packages
# beside the one of that name.
download_kernel() {
  local suite=$1 name=$2 part found
  shift 2
  rm -rf "$KERNEL_WORK/download" "$KERNEL.new"
  mkdir -p "$KERNEL_WORK/download" "$KERNEL.new/modules"
  for part in image binary modules; do
    [[ $part != modules ]] || (($#)) || continue
    (cd "$KERNEL_WORK/download" && kernel_apt "$suite" apt-get download "${name/linux-image-/linux-$part-}" && dpkg -x ./*.deb . && rm ./*.deb) \
      >>"$KERNEL_LOG" 2>&1 </dev/null || true
  done
  found=$(find "$KERNEL_WORK/download" -name 'vmlinuz*' -type f | head -n 1)
  [[ $found ]] || return 1
  mv "$found" "$KERNEL.new/image"
  take_modules "$KERNEL_WORK/download" "$KERNEL.new/modules" "$@"
}

# take_modules FROM TO MODULE...: under names whose order is the one given here. What a kernel has built in, or lacks, is no module there.
take_modules() {
  local from=$1 to=$2 number=10 module file
  shift 2
  for module; do
    file=$(find "$from" -name "$module.ko*" | head -n 1)
    [[ $file ]] || continue
    case $file in
      *.xz) xz -dc "$file" ;;
      *.zst) zstd -qdc "$file" ;;
      *) cat "$file" ;;
    esac >"$to/$((number++))-$module.ko"
  done
}

# download_best WANTED SUITE... -- MODULE...: leaves KERNEL; a version can be listed and gone.
download_best() {
  local suite name wanted_from=()
  while [[ $1 != -- ]]; do
    wanted_from+=("$1")
    shift
  done
  shift
  while read -r suite name; do
    if [[ $name ]] && download_kernel "$suite" "$name" "$@"; then
      say "downloaded $name of $suite"
      mv "$KERNEL.new" "$KERNEL"
      return
    fi
  done <<<"$(kernels_that_fit "${wanted_from[@]}")"
  return 1
}

# ensure_kernel WANTED FLAVOUR [MODULE...]: sets KERNEL, a folder in the cache with `image`, which an emulator boots, and `modules`, which it
# can load then. WANTED is a series such as 6.1, or `oldest` or `newest` of what is served; FLAVOUR is Debian's word for the kind: cloud-amd64,
# arm64, arm64-16k.
ensure_kernel() {
  local wanted=$1 suite
  KERNEL_FLAVOUR=$2
  KERNEL=$KERNEL_FOLDER/$KERNEL_FLAVOUR/$wanted
  shift 2
  [[ ! -e $KERNEL/image ]] || return 0
  hold_lock kernels
  if [[ -e $KERNEL/image ]]; then # another process has made it meanwhile
    release_lock
    return
  fi
  APT_STATE=$KERNEL_FOLDER/$KERNEL_FLAVOUR/apt # its own: other scripts ask for lists of sources
  KERNEL_LOG=$KERNEL_FOLDER/log
  KERNEL_WORK=$KERNEL_FOLDER/work
  mkdir -p "$KERNEL_WORK"
  say "looking for a kernel, $wanted, among Debian's packages"
  if [[ $wanted == newest ]]; then
    download_best newest "${KERNEL_SUITES[@]}" -- "$@" || true
  else # suites stand in the order of their age
    for suite in "${KERNEL_SUITES[@]}"; do
      download_best "$wanted" "$suite" -- "$@" && break
    done
  fi
  rm -rf "$KERNEL_WORK" "$KERNEL.new"
  release_lock
  [[ -e $KERNEL/image ]] || fail "no kernel '$wanted' ($KERNEL_FLAVOUR) could be downloaded; see $KERNEL_LOG."
}
