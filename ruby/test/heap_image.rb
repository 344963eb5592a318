# An image of the heap profile, read as docs/reference/heap-profile.md describes it.
class HeapImage
  Site = Struct.new(:stack, :class_name, :kind, :width_bytes, :samples, :objects, :bytes, :live_samples,
                    :live_objects, :live_bytes, :died_at_age) do
    # "file.rb:12", innermost first.
    def places = stack.filter_map { |frame| "#{File.basename(frame.path)}:#{frame.line}" unless frame.path.empty? }
    def labels = stack.map(&:label)
  end
  Frame = Struct.new(:label, :path, :line)
  WRITTEN = %i[live on_request at_the_end at_a_crash].freeze

  attr_reader :full_collection, :process, :started_unix_ns, :period_bytes, :dropped_samples, :numbers, :sites, :written, :live_samples, :sampling, :command_line, :description

  def self.read(path) = new(File.binread(path))

  # Of a process that runs: the file that it has open under the name of the image.
  def self.of_process(pid)
    file = Dir["/proc/#{pid}/fd/*"].find { File.readlink(_1).include?("ashlar-live") rescue false }
    raise "process #{pid} has no image" unless file

    give_up = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 20
    while Process.clock_gettime(Process::CLOCK_MONOTONIC) < give_up
      before = sequence(file)
      image = File.binread(file)
      return new(image) if before.even? && before == sequence(file)

      sleep 0.001
    end
    raise "the image of #{pid} never stood still"
  end

  def self.sequence(file) = File.binread(file, 8, 16).unpack1("Q<")

  def initialize(bytes)
    @bytes = bytes
    raise "no image" unless bytes.start_with?("ASHLARHP") && bytes[8, 4].unpack1("L<") == 1

    @process, @started_unix_ns, @period_bytes, @dropped_samples = [24, 32, 48, 56].map { number(_1) }
    count, offset, tables, directory = bytes[64, 16].unpack("L<4")
    @sampling, written = bytes[88, 8].unpack("L<2")
    @full_collection = number(96)
    @written = WRITTEN[written]
    @numbers = bytes[offset, 8 * count].unpack("Q<*")
    @command_line, @description = [1024, 2048].map { bytes[_1..].unpack1("Z*") }
    @tables = Array.new(tables) { |i| bytes[directory + 24 * i, 24].unpack("Q<L<4") }
    @sites = []
    read_tables if tables.positive?
  end

  def live_bytes = sites.sum(&:live_bytes)
  def allocated_bytes = sites.sum(&:bytes)
  # What sites that have this line in their stack come to.
  def at(place) = sites.select { _1.places.include?(place) }

  # The live samples that this method made: those that the latest full collection found live, and those made since it began.
  def found_live_and_made_since(label)
    made = live_samples.select { |_, site, *| sites[site].labels.include?(label) }
    made.partition { |_, _, collections, *| collections < full_collection }.map(&:size)
  end

  private

  def number(offset) = @bytes[offset, 8].unpack1("Q<")

  def entries(table, format)
    offset, bytes, used = @tables[table]
    Array.new(used) { |i| @bytes[offset + i * bytes, bytes].unpack(format) }
  end

  def string(reference)
    start = @tables[0][0] + reference
    @bytes[start + 4, @bytes[start, 4].unpack1("L<")].force_encoding("UTF-8")
  end

  def read_tables
    @frames = entries(1, "L<4")
    @nodes = entries(2, "L<3")
    @live_samples = entries(4, "Q<L<2Q<2").reject { _1.first.zero? }
    @sites = entries(3, "L<4Q<E2Q<E2L<8").map { site(_1) }
  end

  def site((stack, class_name, kind, width, samples, objects, bytes, live, live_objects, live_bytes, *ages))
    Site.new(stack_of(stack), string(class_name), %i[cell payload][kind], width, samples, objects, bytes, live,
             live_objects, live_bytes, ages)
  end

  def stack_of(node)
    stack = []
    until node.zero?
      node, frame, line = @nodes[node]
      label, path, = @frames[frame]
      stack << Frame.new(string(label), string(path), line)
    end
    stack
  end
end
