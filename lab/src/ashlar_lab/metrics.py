"""The metrics: what each is called, in the order of their columns, and what it is a quantity of. The unit is the end of the name (`cpu_s`,
`pause_ms_max`, `pause_ms_p99`), is read here alone, and goes with every estimate that is made of it.
"""

import re
from dataclasses import dataclass

SERVED = {"requests_per_s": "Requests", "failed_requests": "Failed requests", "p50_ms": "p50", "p90_ms": "p90", "p99_ms": "p99", "p999_ms": "p99.9", "request_ms_max": "Longest request"}
TIMES = {"wall_s": "Wall time", "cpu_s": "CPU time", "user_s": "User time", "sys_s": "System time"}
SPACES = {"peak_mib": "Peak memory", "peak_rss_mib": "Peak RSS", "mean_mib": "Mean memory", "final_mib": "Final memory", "cgroup_peak_mib": "Cgroup peak"}
COUNTED = {"minor_faults": "Minor faults", "major_faults": "Major faults", "instructions": "Instructions", "cycles": "Cycles", "cache_misses": "Cache misses",
           "branch_misses": "Branch misses", "dtlb_misses": "TLB misses", "involuntary_switches": "Preemptions"}
# Figures that programs report get columns of their own.
TOLD = {"gc_count": "Collections", "gc_time_ms": "Collector time", "pause_ms_max": "Longest pause", "live_bytes": "Live bytes", "settled_mib": "Settled memory",
        "highest_mib": "Highest sample", "first_mib": "Memory at first", "idle_mib": "Memory when idle", "private_dirty_mib": "Private dirty memory",
        "shared_dirty_mib": "Shared dirty memory", "late_percent": "Memory at the end, of that after rounds 4 to 6",
        "worker_private_percent": "Private dirty memory of a worker, of its parent's RSS", "fork_ms": "One fork",
        "worker_gc_count": "Collections of one worker", "requests_cpu_s": "CPU time inside requests",
        "gc_in_requests_ms": "Collector time inside requests", "gc_in_requests_count": "Collections inside requests",
        "gc_in_request_ms_max": "Most collector time in one request"}
TITLES = {**SERVED, **TIMES, **SPACES, **COUNTED, **TOLD, "others_cpu_s": "CPU time of others"}


@dataclass(frozen=True)
class Unit:
    """`size` is how many seconds, or bytes, it is; `kind` is empty for a plain count."""

    symbol: str
    kind: str
    size: float

    def in_(self, other: "Unit") -> float:
        """What a value of this unit is multiplied by to be in the other one."""
        if self.kind != other.kind or not self.kind:
            raise ValueError(f"{self.symbol or 'a count'} cannot be given in {other.symbol or 'counts'}")
        return self.size / other.size


UNITS = {"s": Unit("s", "time", 1), "ms": Unit("ms", "time", 1e-3), "us": Unit("µs", "time", 1e-6), "ns": Unit("ns", "time", 1e-9),
         "mib": Unit("MiB", "memory", 2**20), "kib": Unit("KiB", "memory", 2**10), "bytes": Unit("bytes", "memory", 1),
         "percent": Unit("%", "", 1)}
# The unit, then perhaps which of several values it is.
_ENDING = re.compile(rf"(?:^|_)({'|'.join(UNITS)})(?:_(?:max|min|mean|median|total|p[0-9]+))*$")


def unit_of(metric: str) -> Unit:
    if metric.endswith("_per_s"):
        of = unit_of(metric.removesuffix("_per_s"))
        return Unit(f"{of.symbol or '1'}/s", f"{of.kind} rate".strip(), of.size)
    ending = _ENDING.search(metric)
    return UNITS[ending[1]] if ending else Unit("", "", 1)
