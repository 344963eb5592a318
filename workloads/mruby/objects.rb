# Objects with fields, blocks and closures: a small simulation of accounts that hand tasks to each other.
#   objects.rb [ROUNDS]
class Account
  attr_reader :balance, :name

  def initialize(name, balance)
    @name = name
    @balance = balance
    @history = []
  end

  def pay(other, amount)
    @balance -= amount
    other.receive(Payment.new(self, amount))
    self
  end

  def receive(payment)
    @balance += payment.amount
    @history << payment
    @history.shift if @history.size > 16
  end

  def total
    @history.inject(0) { |sum, payment| sum + payment.amount }
  end
end

class Payment
  attr_reader :from, :amount

  def initialize(from, amount)
    @from = from
    @amount = amount
  end
end

rounds = (ARGV[0] || 40).to_i
accounts = Array.new(2000) { |index| Account.new("account #{index}", 1000) }
tasks = []
rounds.times do |round|
  accounts.each_with_index do |account, index|
    other = accounts[(index * 31 + round * 17) % accounts.size]
    tasks << -> { account.pay(other, (index + round) % 11) }
  end
  tasks.each { |task| task.call }
  tasks.clear
end
puts accounts.inject(0) { |sum, account| sum + account.balance * 3 + account.total }
