"""The Java virtual machine, steered through JAVA_TOOL_OPTIONS so that any launcher script obeys."""

from ashlar_lab.variants.base import Base

_FLAGS = {"heap": "-Xmx{}", "heap_min": "-Xms{}", "young": "-Xmn{}"}
_COLLECTORS = {"serial": "-XX:+UseSerialGC", "parallel": "-XX:+UseParallelGC", "g1": "-XX:+UseG1GC", "z": "-XX:+UseZGC",
               "shenandoah": "-XX:+UseShenandoahGC", "epsilon": "-XX:+UnlockExperimentalVMOptions -XX:+UseEpsilonGC"}


def _environment(settings: dict[str, str]) -> dict[str, str]:
    options = [_FLAGS[k].format(v) for k, v in settings.items() if k in _FLAGS]
    if "collector" in settings:
        options.append(_COLLECTORS.get(settings["collector"], settings["collector"]))
    if "options" in settings:
        options.append(settings["options"])
    return {"JAVA_TOOL_OPTIONS": " ".join(options)} if options else {}


JVM = Base(
    "jvm",
    "a program run by the JVM",
    {"heap": "-Xmx: the largest heap, such as 256m", "heap_min": "-Xms: the heap at start", "young": "-Xmn: the young generation",
     "collector": "serial, parallel, g1, z, shenandoah, epsilon, or a -XX flag", "options": "anything else for JAVA_TOOL_OPTIONS"},
    _environment,
)
