"""A profile as JSON: everything the tables have, and each site with its whole stack."""

import json

from ashlar.amounts import Estimate
from ashlar.heap import profile
from ashlar.heap.image import AGES
from ashlar.heap.profile import Amounts, Frame, Profile, Row


def render(found: Profile) -> str:
    image = found.image
    return written({
        "format": "ashlar-heap", "version": 1,
        "source": image.source, "command": image.command, "ruby": image.ruby, "pid": image.pid, "started_ns": image.started_ns,
        "taken_ns": image.taken_ns, "origin": image.origin, "period_bytes": image.period_bytes, "samples_lost": image.samples_lost,
        "numbers": image.numbers, "total": amounts(found.total), "ages": list(AGES),
        "lines": [{**frame(g.name), "classes": g.classes(), **amounts(g.amounts)} for g in profile.by_line(found)],
        "classes": [{"class": g.name, **amounts(g.amounts)} for g in profile.by_class(found)],
        "by_age": [{**_row(r), "died": r.died} for r in profile.by_age(found)],
        "by_width": [{"width_bytes": g.name, **amounts(g.amounts)} for g in profile.by_width(found)],
        "payloads_by_size": [_row(r) for r in profile.payloads_by_size(found)],
        "sites": [{"class": s.class_name, "kind": s.kind, "width_bytes": s.width, "stack": [frame(f) for f in s.stack], **amounts(s.amounts)}
                  for s in found.sites if s.amounts.sampled],
    })


def written(parts: dict) -> str:
    """JSON with a line for each part, and for each row of a table."""
    def part(value) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        return json.dumps(value)
    return "{\n " + ",\n ".join(f"{json.dumps(name)}: {part(value)}" for name, value in parts.items()) + "\n}\n"


def frame(f: Frame) -> dict:
    return {"label": f.label, "path": f.path, "line": f.line}


def estimate(name: str, e: Estimate) -> dict:
    """The value, and half its 95 % interval beside it."""
    return {name: round(e.value, 1), f"{name}_error": round(e.error, 1)}


def amounts(a: Amounts) -> dict:
    return {**estimate("live_bytes", a.live.bytes), **estimate("live_objects", a.live.objects), **estimate("allocated_bytes", a.allocated.bytes),
            **estimate("allocated_objects", a.allocated.objects), "live_samples": a.live.samples, "allocated_samples": a.allocated.samples,
            "died_at_age": list(a.died)}


def _row(r: Row) -> dict:
    return {"name": r.name, "samples": r.live.samples, **estimate("live_objects", r.live.objects), **estimate("live_bytes", r.live.bytes)}
