# The heap profile from inside the program (docs/reference/heap-profile.md). Needs no gem.
module Ashlar
  module Profile
    module_function

    # Begins to take samples, one in about `bytes` bytes that the heap hands out. What was
    # sampled before is dropped.
    def start(bytes: nil)
      configure(**(bytes ? { profile_bytes: bytes } : {}), profile: "on")
    end

    # Ends sampling. What there is can still be written.
    def stop = configure(profile: "off")

    # Writes the profile as it is now to the file at `path`, and goes on. Raises ArgumentError
    # when that cannot be done, and then the file is as it was.
    def dump(path)
      configure(profile: File.expand_path(path))
      path
    end

    # Whether samples are taken now.
    def running? = configuration[:profile] == "on"

    # Runs the block with samples taken, writes the profile to `path`, and returns what the
    # block does.
    def record(path, bytes: nil)
      start(bytes:)
      result = yield
      dump(path)
      result
    ensure
      stop
    end

    def configure(**options)
      configuration
      GC.config(**options)
    end
    private_class_method :configure

    def configuration
      options = GC.config
      return options if options.key?(:profile)

      raise NotImplementedError, "Ashlar::Profile: this Ruby runs on another collector; run the program on the Ruby with Ashlar inside"
    end
    private_class_method :configuration
  end
end
