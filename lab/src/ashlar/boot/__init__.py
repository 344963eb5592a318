"""What a Ruby program's start costs: time, allocations and the collector's share, file by file."""
