# shellcheck shell=bash
# Which Rubies the variants of a measurement run on. Making one takes minutes, so those that no variant names are not made.

# rubies_of VARIANTS: what scripts/ruby/env.sh is told. A variant's name begins with the Ruby that it runs on: stock, inside,
# and any other is the modular one.
rubies_of() {
  local names variant modular='' inside=''
  read -ra names <<<"$1"
  for variant in "${names[@]}"; do
    case $variant in
      stock | stock-*) ;;
      inside | inside-*) inside=yes ;;
      *) modular=yes ;;
    esac
  done
  case $modular:$inside in
    yes:yes) echo --inside ;;
    yes:) echo --modular ;;
    :yes) echo --only-inside ;;
    *) echo --only-stock ;;
  esac
}

# choose_ruby VARIANT: sets ruby, and library for RUBY_GC_LIBRARY, of a variant that is stock, inside, ashlar (this clone's
# library), or the name of another library that the modular Ruby finds. The exports of env.sh are there.
choose_ruby() {
  # shellcheck disable=SC2034 # the script that sources this
  case $1 in
    stock) ruby=$RUBY_STOCK library= ;;
    inside) ruby=$RUBY_INSIDE library= ;;
    ashlar) ruby=$RUBY library=$ASHLAR_GC_LIBRARY ;;
    *) ruby=$RUBY library=$1 ;;
  esac
}
