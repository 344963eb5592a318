# frozen_string_literal: true

# In the place of Ruby's methods, in Kernel and in its singleton class. boot.rb evaluates this under a name that begins with
# "<internal:", as RubyGems does with its `require`: Ruby and gems that look for the caller of a file leave such frames out.

alias ashlar_boot_require require
alias ashlar_boot_load load
alias require_relative require_relative # so `ruby -w` does not warn of the definition below

def require(feature)
  frame = AshlarBoot.entered(feature)
  loaded = ashlar_boot_require(feature)
ensure
  AshlarBoot.left(frame, loaded) { $LOADED_FEATURES.last }
end

def require_relative(feature)
  path = AshlarBoot.beside(caller_locations(1, 1).first, feature)
  frame = AshlarBoot.entered(path)
  loaded = Kernel.ashlar_boot_require(path) # Ruby's own, past the `require` of RubyGems
ensure
  AshlarBoot.left(frame, loaded) { $LOADED_FEATURES.last }
end

def load(file, wrap = false)
  frame = AshlarBoot.entered(file)
  loaded = ashlar_boot_load(file, wrap)
ensure
  AshlarBoot.left(frame, loaded) { AshlarBoot.found(file) }
end
