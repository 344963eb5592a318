# The code cache from inside the program (docs/design/code-cache.md). Needs no gem. Without a cache all
# of this does nothing, so that a program can call it always.
module Ashlar
  module CodeCache
    module_function

    # Where a Ruby with a cache has methods of its own, they stay.
    unless singleton_class.method_defined?(:stat)
      # What the cache came to in this process, by name; nil where there is none.
      def stat = nil

      # Writes what has been compiled and is not in the file yet. A process does that by itself
      # when it ends, at Process.warmup and before it forks.
      def write = nil

      # Loads what ran in earlier processes and has not been loaded in this one, so that workers
      # that are forked later share it. Process.warmup and the first fork do that, too.
      def load_what_ran = nil
    end

    # The folder, nil where there is no cache.
    def folder = GC.respond_to?(:config) ? GC.config[:code_cache] : nil
  end
end
