require "tmpdir"
require_relative "toolchain"
require_relative "job"
require_relative "test_unit"
require_relative "bootstraptest"
require_relative "mspec"

# Which tests a selection names. `full` is all that Ruby's own `make test-all`,
# `make btest` and the core and library parts of `make test-spec` run.
module Selection
  QUICK_FILES = %w[gc objectspace weakmap weakkeymap array string hash thread fiber process].map { "ruby/test_#{_1}.rb" }.freeze
  # What every program is made of.
  CORE_FILES = QUICK_FILES | %w[
    gc_compact object class module method proc symbol struct data enum enumerator range bignum rational complex
    marshal exception regexp iterator keyword pattern_matching refinement super variable const eval io
  ].map { "ruby/test_#{_1}.rb" }

  module_function

  def jobs(selection, toolchain, only)
    jobs =
      case selection
      when "quick" then quick(toolchain)
      when "core" then core(toolchain)
      when "full" then full(toolchain)
      else
        warn "ruby-tests: unknown selection '#{selection}'; it is quick, core or full"
        exit 2
      end
    jobs = jobs.select { |job| only.any? { job.name.include?(_1) } } unless only.empty?
    if jobs.empty?
      warn "ruby-tests: no job of '#{selection}' has #{only.join(" or ")} in its name"
      exit 2
    end
    jobs
  end

  def quick(toolchain)
    bootstrap(toolchain) + test_files(toolchain, QUICK_FILES + relative(toolchain, "test", "objspace/test_*.rb"))
  end

  def core(toolchain)
    bootstrap(toolchain) + test_files(toolchain, CORE_FILES) + specs(toolchain).select { _1.path.start_with?("core/") }
  end

  def full(toolchain)
    warn "ruby-tests: an installed Ruby has no build tree; test/-ext- is left out" unless toolchain.build_tree?
    files = relative(toolchain, "test", "**/test_*.rb")
    files.reject! { _1.start_with?("-ext-/") } unless toolchain.build_tree?
    bootstrap(toolchain) + test_files(toolchain, files) + specs(toolchain)
  end

  def bootstrap(toolchain)
    harness = BootstraptestHarness.new(toolchain)
    relative(toolchain, "bootstraptest", "test_*.rb").map { Job.new(harness, _1) }
  end

  def test_files(toolchain, files)
    harness = TestUnitHarness.new(toolchain)
    files.map { Job.new(harness, _1) }
  end

  # One job per class or library; the specs of bundled gems need gems that are not there.
  def specs(toolchain)
    harness = MspecHarness.new(toolchain)
    bundled = File.readlines("#{toolchain.source}/gems/bundled_gems").grep(/^\w/) { "library/#{_1.split.first}" }
    folders = relative(toolchain, "spec/ruby", "{core,library}/*").select { File.directory?("#{toolchain.source}/spec/ruby/#{_1}") }
    (folders - bundled).map { Job.new(harness, _1) }
  end

  def relative(toolchain, folder, pattern) = Dir.glob(pattern, base: "#{toolchain.source}/#{folder}").sort
end
