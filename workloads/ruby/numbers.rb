# frozen_string_literal: true

# Pseudo-random numbers that are the same everywhere: xorshift with 32 bits, so that no
# Integer leaves the range that needs no object.
# Source of the triple (13, 17, 5): G. Marsaglia, "Xorshift RNGs", 2003.
class Numbers
  MASK = 0xffff_ffff

  def initialize(seed)
    @state = (seed * 2_654_435_761 + 1) & MASK
    @state = 1 if @state.zero?
  end

  # The next number from 0 up to, not including, `limit`.
  def below(limit)
    x = @state
    x ^= (x << 13) & MASK
    x ^= x >> 17
    x ^= (x << 5) & MASK
    @state = x
    x % limit
  end
end
