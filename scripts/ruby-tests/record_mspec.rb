# Loaded by mspec in the tested Ruby (as a -B file): records each example as it begins
# and ends.
require_relative "record"

class MspecRecord
  def initialize
    @record = Record.open
    @failed = nil
  end

  def before(state)
    @failed = nil
    @record.write("start", id(state))
  end

  def exception(failure)
    @failed = "#{failure.message}\n#{failure.backtrace}"
    # Outside an example (while a file loads, before(:all)) nothing follows.
    @record.write("failed", "#{file}: #{failure.description}", @failed) unless failure.it && !failure.it.to_s.empty?
  end

  def after(state)
    @record.write(@failed ? "failed" : "passed", id(state), @failed)
    @failed = nil
  end

  def tagged(state) = @record.write("excluded", id(state), "listed in ruby/excludes/mspec.rb")

  def finish = @record.write("end")

  private

  def file = MSpec.file.to_s[%r{spec/ruby/(.*)}, 1]

  def id(state) = "#{file}: #{state.description}"
end

recorder = MspecRecord.new
%i[before exception after tagged finish].each { |event| MSpec.register(event, recorder) }
