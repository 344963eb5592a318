#!/bin/sh
# Runs a command with everything that Ruby's default collector lets garbage take multiplied by
# FACTOR: old objects and their malloc'ed bytes between major collections, malloc'ed bytes
# between minor ones, growth of the heap, free slots. 1 leaves Ruby's own defaults.
#   stock_growth.sh FACTOR COMMAND...
factor=$1
shift
case $factor in
  '' | . | *[!0-9.]* | *.*.*)
    echo "stock_growth.sh: the factor '$factor' is no number; give one such as 0.5" >&2
    exit 2
    ;;
esac
# A share m of all slots is m/(1-m) of the used ones; that is what is multiplied.
settings=$(awk -v f="$factor" '
  function share(m) { return m * f / (1 - m + m * f) }
  BEGIN {
    mib = 1048576
    printf "RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR=%.4f ", 1 + f
    printf "RUBY_GC_HEAP_GROWTH_FACTOR=%.4f ", 1 + 0.8 * f
    printf "RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO=%.4f ", share(0.20)
    printf "RUBY_GC_HEAP_FREE_SLOTS_GOAL_RATIO=%.4f ", share(0.40)
    printf "RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO=%.4f ", share(0.65)
    printf "RUBY_GC_MALLOC_LIMIT=%d RUBY_GC_MALLOC_LIMIT_MAX=%d ", 16 * mib * f, 32 * mib * f
    printf "RUBY_GC_OLDMALLOC_LIMIT=%d RUBY_GC_OLDMALLOC_LIMIT_MAX=%d", 16 * mib * f, 128 * mib * f
  }')
# shellcheck disable=SC2086
exec env $settings "$@"
