# JSON, parsed and written in Ruby.
#   json.rb [ROUNDS]
class Parser
  def initialize(text)
    @text = text
    @at = 0
  end

  def value
    blanks
    case @text[@at]
    when "{" then object
    when "[" then array
    when "\"" then string
    when "t" then word("true", true)
    when "f" then word("false", false)
    when "n" then word("null", nil)
    else number
    end
  end

  private

  def blanks
    @at += 1 while @text[@at] == " " || @text[@at] == "\n"
  end

  def word(text, value)
    @at += text.size
    value
  end

  def object
    found = {}
    @at += 1
    blanks
    until @text[@at] == "}"
      key = string
      blanks
      @at += 1
      found[key] = value
      blanks
      @at += 1 if @text[@at] == ","
      blanks
    end
    @at += 1
    found
  end

  def array
    found = []
    @at += 1
    blanks
    until @text[@at] == "]"
      found << value
      blanks
      @at += 1 if @text[@at] == ","
      blanks
    end
    @at += 1
    found
  end

  def string
    finish = @text.index("\"", @at + 1)
    found = @text[@at + 1, finish - @at - 1]
    @at = finish + 1
    found
  end

  def number
    start = @at
    @at += 1 while @at < @text.size && "+-.eE0123456789".include?(@text[@at])
    digits = @text[start, @at - start]
    digits.include?(".") ? digits.to_f : digits.to_i
  end
end

def write(value, out)
  case value
  when Hash
    out << "{"
    value.each_with_index do |pair, index|
      out << ", " if index > 0
      out << "\"" << pair[0] << "\": "
      write(pair[1], out)
    end
    out << "}"
  when Array
    out << "["
    value.each_with_index do |item, index|
      out << ", " if index > 0
      write(item, out)
    end
    out << "]"
  when String then out << "\"" << value << "\""
  when nil then out << "null"
  else out << value.to_s
  end
  out
end

rounds = (ARGV[0] || 40).to_i
data = Array.new(60) do |index|
  { "id" => index, "name" => "item #{index}", "price" => index * 1.25, "tags" => ["a", "b#{index}", nil, index % 2 == 0],
    "more" => { "deep" => [[index], [[index + 1]]], "text" => "some longer text of item #{index}" } }
end
text = write(data, "")
rounds.times { text = write(Parser.new(text).value, "") }
puts text.size
