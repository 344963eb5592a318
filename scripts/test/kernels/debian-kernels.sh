# shellcheck shell=bash
# Kernels from Debian's packages, without installing them. Sourced by kernels.sh, after rubies.sh; `ensure_kernel WANTED`
# sets KERNEL, a bootable file in the cache. WANTED is a series such as 6.1, or `oldest` or `newest` of what is served.

KERNEL_SUITES=(bullseye bookworm bookworm-backports trixie trixie-backports forky unstable experimental)
KERNEL_FOLDER=$CACHE/kernels

# listed_kernels SUITE: the names of its kernels for virtual machines, the oldest first.
listed_kernels() {
  if [[ ! -e $KERNEL_WORK/$1.listed ]]; then
    prepare_suite "$1" "$(any_mirror)" deb >>"$KERNEL_LOG" 2>&1 || true
    private_apt "$1" apt-cache search --names-only '^linux-image-[0-9].*-cloud-amd64$' 2>>"$KERNEL_LOG" |
      awk '!/meta-package/ {print $1}' | sort -V >"$KERNEL_WORK/$1.listed" || true
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

# download_kernel SUITE NAME FILE: newer packages have the kernel itself in a package beside the one of that name.
download_kernel() {
  local name found
  for name in "$2" "${2/linux-image-/linux-binary-}"; do
    rm -rf "$KERNEL_WORK/download"
    mkdir -p "$KERNEL_WORK/download"
    (cd "$KERNEL_WORK/download" && private_apt "$1" apt-get download "$name" && dpkg -x ./*.deb .) \
      >>"$KERNEL_LOG" 2>&1 </dev/null || continue
    found=$(find "$KERNEL_WORK/download" -name 'vmlinuz*' -type f | head -n 1)
    [[ -z $found ]] || { mv "$found" "$3"; return; }
  done
  return 1
}

# download_best WANTED SUITE...: leaves KERNEL; a version can be listed and gone.
download_best() {
  local suite name
  while read -r suite name; do
    if [[ $name ]] && download_kernel "$suite" "$name" "$KERNEL.new"; then
      say "downloaded $name of $suite"
      mv "$KERNEL.new" "$KERNEL"
      return
    fi
  done <<<"$(kernels_that_fit "$@")"
  return 1
}

ensure_kernel() {
  local suite
  KERNEL=$KERNEL_FOLDER/$1
  [[ ! -e $KERNEL ]] || return 0
  hold_lock kernels
  APT_STATE=$KERNEL_FOLDER/apt # its own: other scripts ask for lists of sources
  KERNEL_LOG=$KERNEL_FOLDER/log
  KERNEL_WORK=$KERNEL_FOLDER/work
  mkdir -p "$KERNEL_WORK"
  say "looking for a kernel, $1, among Debian's packages"
  if [[ $1 == newest ]]; then
    download_best "$1" "${KERNEL_SUITES[@]}" || true
  else # suites stand in the order of their age
    for suite in "${KERNEL_SUITES[@]}"; do
      download_best "$1" "$suite" && break
    done
  fi
  rm -rf "$KERNEL_WORK"
  release_lock
  [[ -e $KERNEL ]] || fail "no kernel '$1' could be downloaded; see $KERNEL_LOG." \
    "KERNELS takes series such as 6.1, and oldest and newest."
}
