# frozen_string_literal: true

# Makes an experiment of the lab from a program that is none of the project's.
#   application.rb gemfile                     prints its Gemfile's path, or nothing
#   application.rb experiment TEMPLATE         prints TEMPLATE's experiment and variants, with it as the program
# Environment:
#   APP            a Ruby file (*.rb, or its first line names ruby), which is run;
#                  another executable, which is run with the measured Ruby first in PATH;
#                  a folder with config.ru, whose application is driven in process;
#                  a folder with benchmark.rb, or with bin/NAME or exe/NAME of its own name, which is run
#   APP_ARGUMENTS  arguments, as a shell splits them
#   APP_PATHS      for config.ru: the paths that are asked for, blanks between; "/" unless given
#   APP_REQUESTS   for config.ru: measured requests; 500 unless given
#   APP_RATE       for config.ru: also as a server under a load of so many requests a second
#   APP_TIMEOUT    seconds that one run may take; 600 unless given
#   APP_OUTPUT     same: every variant must print the same, else it is no success; ignore (unless given)
#   APP_BUNDLE     0: do without Bundler although there is a Gemfile
require "json"
require "shellwords"

class Application
  # What the user must change: one line.
  Mistake = Class.new(StandardError)

  # For an executable that starts a `ruby` of its own: it finds the measured one.
  RUBY_FIRST = 'ENV["PATH"] = "#{File.dirname(RbConfig.ruby)}:#{ENV["PATH"]}"; exec(*ARGV)'
  RACK = File.expand_path("../../workloads/applications/rack_application.rb", __dir__)
  SERVER = File.expand_path("../../workloads/applications/rack_server.rb", __dir__)

  def initialize(environment)
    @environment = environment
    given = environment["APP"].to_s
    raise Mistake, "APP is not set; give the path of a Ruby file, an executable, or an application's folder" if given.empty?

    @path = File.expand_path(given)
    raise Mistake, "APP='#{given}' does not exist; give the path of a Ruby file, an executable, or an application's folder" unless File.exist?(@path)
  end

  def name = File.basename(@path, ".rb").gsub(/[^\w.-]/, "-").sub(/\A-+/, "")[0, 40]

  # In the folder or in those above it, up to the root of its checkout.
  def gemfile
    return if @environment["APP_BUNDLE"] == "0"

    folder = File.directory?(@path) ? @path : File.dirname(@path)
    loop do
      found = File.join(folder, "Gemfile")
      return found if File.exist?(found)
      return if File.exist?(File.join(folder, ".git")) || File.dirname(folder) == folder

      folder = File.dirname(folder)
    end
  end

  # The template up to its first program, then this one.
  def experiment(template)
    head = template[/\A.*?(?=^\[\[program\]\])/m] or raise Mistake, "the template has no [[program]]"
    head = head.sub(/^title = .*$/) { "title = #{(template[/^name = "(.*)"/, 1] == "applications" ? name : "#{name}: curves").to_json}" }
    head.gsub(%r{"\./}) { "\"#{File.dirname(RACK)}/" } + programs.map { |program| table(program) }.join("\n")
  end

  def programs
    return [driven, *served] if rackup

    [{ name:, command: command, directory: folder }]
  end

  private

  def folder = File.directory?(@path) ? @path : File.dirname(@path)

  def rackup
    found = File.join(@path, "config.ru")
    found if File.exist?(found)
  end

  def arguments = Shellwords.split(@environment["APP_ARGUMENTS"].to_s)

  def command
    file = File.directory?(@path) ? main_file : @path
    return ["{ruby}", file, *arguments] if ruby?(file)
    raise Mistake, "#{file} is neither a Ruby file nor executable; end its name in .rb, or chmod +x it" unless File.executable?(file)

    ["{ruby}", "--disable-gems", "-e", RUBY_FIRST, file, *arguments]
  end

  def main_file
    looked = ["benchmark.rb", "bin/#{File.basename(@path)}", "exe/#{File.basename(@path)}"]
    looked.map { |file| File.join(@path, file) }.find { |file| File.file?(file) } or
      raise Mistake, "#{@path} has no config.ru, #{looked[0..1].join(", ")} or #{looked.last}; give the path of the file to run"
  end

  def ruby?(file) = file.end_with?(".rb") || File.open(file, "rb", &:gets).to_s.match?(/\A#!.*\bruby/)

  def paths
    given = @environment["APP_PATHS"].to_s.split
    wrong = given.find { |path| !path.start_with?("/") }
    raise Mistake, "APP_PATHS has #{wrong.inspect}; each path must start with '/'" if wrong

    given.empty? ? ["/"] : given
  end

  def driven
    { name:, command: ["{ruby}", RACK, rackup, number("APP_REQUESTS", 500).to_s, *paths], directory: @path }
  end

  def served
    return [] if @environment["APP_RATE"].to_s.empty?

    [{ name: "#{name}-server", command: ["{ruby}", SERVER, rackup, "{port}"], directory: @path,
       server: { port: 0, rate_per_s: number("APP_RATE", 0), duration_s: 10, warm_up_s: 3, connections: 8, ready_timeout_s: 120, paths: } }]
  end

  def number(name, otherwise)
    given = @environment[name].to_s
    return otherwise if given.empty?

    Integer(given, exception: false)&.then { |found| found if found.positive? } or
      raise Mistake, "#{name}='#{given}' is not a number above zero"
  end

  def table(program)
    output = @environment.fetch("APP_OUTPUT", "ignore")
    raise Mistake, "APP_OUTPUT='#{output}' is neither same nor ignore" unless %w[same ignore].include?(output)

    lines = { **program.slice(:name, :command, :directory), timeout_s: number("APP_TIMEOUT", 600), output:, environment: settings }
    lines[:server] = program[:server] if program[:server]
    "[[program]]\n#{lines.map { |key, value| "#{key} = #{toml(value)}\n" }.join}"
  end

  def settings
    return {} unless gemfile

    home = @environment.fetch("APP_GEM_HOME")
    { "BUNDLE_GEMFILE" => gemfile, "BUNDLE_PATH" => home, "GEM_HOME" => home, "RUBYOPT" => "-rbundler/setup" }
  end

  def toml(value)
    case value
    when Hash then "{ #{value.map { |key, found| "#{key} = #{toml(found)}" }.join(", ")} }"
    when Array then "[#{value.map { |found| toml(found) }.join(", ")}]"
    else value.to_json
    end
  end
end

if $PROGRAM_NAME == __FILE__
  begin
    application = Application.new(ENV)
    case ARGV
    in ["gemfile"] then puts application.gemfile
    in ["experiment", template] then puts application.experiment(File.read(template))
    end
  rescue Application::Mistake => e
    abort "ashlar: #{e.message}."
  end
end
