"""Runtimes that are steered through variables of their own: Go, Node.js, the JVM and OCaml."""

from ashlar_lab.variants.base import Base, as_variables, in_one_variable

_OF_GO = {"gogc": "GOGC: per cent of the live heap allocated between collections, or off",
          "memlimit": "GOMEMLIMIT: soft limit such as 512MiB", "maxprocs": "GOMAXPROCS: threads that run Go code"}
_OF_OCAML = {
    "a": "allocation policy: 0 next-fit, 1 first-fit, 2 best-fit (OCaml 4)",
    "o": "space_overhead: per cent of memory that may be garbage",
    "i": "major heap increment: per cent up to 1000, else words (a nuisance knob; the default is the runtime's)",
    "s": "minor heap size in words",
    "h": "initial major heap size in words (OCaml 4)",
    "O": "max_overhead: fragmentation that triggers a compaction (OCaml 4)",
    "v": "what the runtime prints about itself",
}
_NODE_FLAGS = {"heap": "--max-old-space-size={}", "semi_space": "--max-semi-space-size={}", "options": "{}"}
_JVM_FLAGS = {"heap": "-Xmx{}", "heap_min": "-Xms{}", "young": "-Xmn{}", "collector": "{}", "options": "{}"}
_JVM_COLLECTORS = {"serial": "-XX:+UseSerialGC", "parallel": "-XX:+UseParallelGC", "g1": "-XX:+UseG1GC", "z": "-XX:+UseZGC",
                   "shenandoah": "-XX:+UseShenandoahGC", "epsilon": "-XX:+UnlockExperimentalVMOptions -XX:+UseEpsilonGC"}


def _jvm_flag(name: str, value: str) -> str:
    return _JVM_FLAGS[name].format(_JVM_COLLECTORS.get(value, value) if name == "collector" else value)


def _of_jvm(settings: dict[str, str]) -> dict[str, str]:
    """Any launcher script obeys this variable. Of two flags the JVM takes the last one, so `options` come last, whatever order they are given in."""
    return in_one_variable("JAVA_TOOL_OPTIONS", " ", _jvm_flag)({name: settings[name] for name in _JVM_FLAGS if name in settings})


GO = Base("go", "a program compiled by Go", _OF_GO, as_variables(_OF_GO))
OCAML = Base("ocaml", "a program compiled by OCaml", _OF_OCAML, in_one_variable("OCAMLRUNPARAM", ",", lambda name, value: f"{name}={value}" if name in _OF_OCAML else None))
NODE = Base(
    "node", "a program run by Node.js",
    {"heap": "--max-old-space-size: MiB of the old generation", "semi_space": "--max-semi-space-size: MiB of one young half",
     "options": "anything else NODE_OPTIONS allows"},
    in_one_variable("NODE_OPTIONS", " ", lambda name, value: _NODE_FLAGS[name].format(value) if name in _NODE_FLAGS else None),
)
JVM = Base(
    "jvm", "a program run by the JVM",
    {"heap": "-Xmx: the largest heap, such as 256m", "heap_min": "-Xms: the heap at start", "young": "-Xmn: the young generation",
     "collector": "serial, parallel, g1, z, shenandoah, epsilon, or a -XX flag", "options": "anything else for JAVA_TOOL_OPTIONS"},
    _of_jvm,
)
