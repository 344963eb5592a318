# One line that says how far the run is: redrawn on a terminal, every 30 seconds elsewhere.
class Progress
  EVERY_SECONDS = 30

  def initialize(label, total)
    @label = label
    @total = total
    @done = @tests = @failed = 0
    @running = []
    @began = now
    @shown = now
    @mutex = Mutex.new
    @terminal = $stderr.tty?
  end

  def begin(job)
    @mutex.synchronize do
      @running << job.path
      show
    end
  end

  def end(result)
    @mutex.synchronize do
      @running.delete_at(@running.index(result.job.path))
      @done += 1
      @tests += result.outcomes.size
      @failed += result.failed.size + (result.trouble ? 1 : 0)
      show
    end
  end

  def again(job, attempt)
    @running = ["again (#{attempt}): #{job.path}"]
    show
  end

  def finish
    $stderr.print "\r\e[K" if @terminal
    @running = []
    $stderr.puts line
  end

  private

  def show
    if @terminal
      width = ($stderr.winsize.last rescue 100)
      $stderr.print "\r\e[K#{line[0, width - 1]}"
    elsif now - @shown >= EVERY_SECONDS
      @shown = now
      $stderr.puts line
    end
  end

  def line
    seconds = (now - @began).round
    failed = @failed.zero? ? "" : ", #{@failed} failing"
    running = @running.empty? ? "" : "  #{@running.join(", ")}"
    format("%s: %d/%d files, %d tests%s, %d:%02d%s", @label, @done, @total, @tests, failed, seconds / 60, seconds % 60, running)
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
