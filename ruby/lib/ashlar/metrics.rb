# The process's own live numbers as OpenMetrics text, from GC.stat: a Rack middleware that
# serves them, or the text alone. Needs no gem, Rack neither.
#
#   require "ashlar/metrics"
#   use Ashlar::Metrics                    # in config.ru: GET /metrics
#   use Ashlar::Metrics, path: "/heap"
#   Ashlar::Metrics.text
#
# The names are those of `ashlar top --form openmetrics`. Numbers that this Ruby's collector
# does not count are left out.
module Ashlar
  class Metrics
    CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    # A name, the end of it that is its unit, its type, what it means, and its value from the
    # numbers of GC.stat; nil leaves it out.
    Family = Struct.new(:name, :unit, :type, :help, :value)

    def self.family(name, unit, type, help, key = nil, divisor: 1, &value)
      value ||= ->(stat) { stat[key] && (divisor == 1 ? stat[key] : stat[key].fdiv(divisor)) }
      Family.new(name, unit, type, help, value)
    end
    private_class_method :family

    BLOCK_BYTES = GC::INTERNAL_CONSTANTS[:HEAP_PAGE_SIZE]

    FAMILIES = [
      family("ashlar_live_bytes", "bytes", "gauge", "Live memory: cells, payloads, and memory elsewhere that objects own", :live_bytes),
      family("ashlar_cell_bytes", "bytes", "gauge", "Live cells", :cell_bytes),
      family("ashlar_payload_bytes", "bytes", "gauge", "Payloads in use, as their size classes round them", :payload_bytes),
      family("ashlar_external_bytes", "bytes", "gauge", "Memory elsewhere that objects own", :external_bytes),
      family("ashlar_cell_block_bytes", "bytes", "gauge", "Blocks of cells") { |stat| stat[:heap_eden_pages] && stat[:heap_eden_pages] * BLOCK_BYTES },
      family("ashlar_hole_bytes", "bytes", "gauge", "Free space inside blocks of cells") { |stat| stat[:cell_bytes] && stat[:heap_eden_pages] * BLOCK_BYTES - stat[:cell_bytes] },
      family("ashlar_spare_bytes", "bytes", "gauge", "Empty blocks that have memory") { |stat| stat[:heap_empty_pages] && stat[:heap_empty_pages] * BLOCK_BYTES },
      family("ashlar_live_cells", "", "gauge", "Cells in use, and dead ones that are not freed yet", :heap_live_slots),
      family("ashlar_old_cells", "", "gauge", "Old cells, which minor collections do not free", :old_objects),
      family("ashlar_memory_limit_bytes", "bytes", "gauge", "The memory limit, 0 when there is none", :memory_limit_bytes),
      family("ashlar_nursery_bytes", "bytes", "gauge", "What may be allocated between two collections", :nursery_bytes),
      family("ashlar_fresh_bytes", "bytes", "gauge", "What was allocated since the latest collection", :fresh_bytes),
      family("ashlar_resident_bytes", "bytes", "gauge", "Resident memory of the process, by the kernel", :resident_bytes),
      family("ashlar_allocated_objects", "", "counter", "Cells allocated so far", :total_allocated_objects),
      family("ashlar_minor_collections", "", "counter", "Minor collections", :minor_gc_count),
      family("ashlar_major_collections", "", "counter", "Collections that are not minor, full ones among them", :major_gc_count),
      family("ashlar_full_collections", "", "counter", "Full collections, which look at settled cells, too", :complete_gc_count),
      family("ashlar_collector_seconds", "seconds", "counter", "CPU time of the process in the collector", :time, divisor: 1000),
      family("ashlar_mark_seconds", "seconds", "counter", "CPU time of the collector spent marking", :marking_time, divisor: 1000),
      family("ashlar_sweep_seconds", "seconds", "counter", "CPU time of the collector spent sweeping", :sweeping_time, divisor: 1000),
    ].freeze
    QUANTILES = { "0.5" => :pause_us_p50, "0.99" => :pause_us_p99, "1.0" => :pause_us_max }.freeze

    # One exposition of this process's numbers, labelled with its number.
    def self.text(stat = GC.stat, pid: Process.pid)
      lines = FAMILIES.flat_map do |family|
        value = family.value.call(stat)
        next [] unless value

        [*heading(family.name, family.unit, family.type, family.help),
         %(#{family.name}#{"_total" if family.type == "counter"}{pid="#{pid}"} #{number(value)})]
      end
      [*lines, *pauses(stat, pid), "# EOF", ""].join("\n")
    end

    def self.heading(name, unit, type, help)
      ["# TYPE #{name} #{type}", *("# UNIT #{name} #{unit}" unless unit.empty?), "# HELP #{name} #{help}."]
    end
    private_class_method :heading

    def self.pauses(stat, pid)
      return [] unless stat[:pause_count]

      name = "ashlar_pause_seconds"
      [*heading(name, "seconds", "summary", "Pauses of the program by the collector; quantiles are since its start"),
       *QUANTILES.map { |quantile, key| %(#{name}{pid="#{pid}",quantile="#{quantile}"} #{number(stat[key].fdiv(1_000_000))}) },
       %(#{name}_count{pid="#{pid}"} #{stat[:pause_count]}),
       %(#{name}_sum{pid="#{pid}"} #{number(stat[:pause_us_total].fdiv(1_000_000))})]
    end
    private_class_method :pauses

    # Without an exponent, which text formats take but people do not.
    def self.number(value) = value.is_a?(Integer) ? value.to_s : format("%.6f", value).sub(/\.?0+\z/, "")
    private_class_method :number

    def initialize(app, path: "/metrics")
      @app = app
      @path = path
    end

    # Answers GET and HEAD of its path, and passes on everything else.
    def call(env)
      return @app.call(env) unless env["PATH_INFO"] == @path && %w[GET HEAD].include?(env["REQUEST_METHOD"])

      text = Metrics.text
      headers = { "content-type" => CONTENT_TYPE, "content-length" => text.bytesize.to_s, "cache-control" => "no-store" }
      [200, headers, env["REQUEST_METHOD"] == "HEAD" ? [] : [text]]
    end
  end
end
