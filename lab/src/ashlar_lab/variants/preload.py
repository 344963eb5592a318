"""malloc replacements that Debian ships, put in front of libc with LD_PRELOAD."""

from ashlar_lab.variants.base import Base, as_variables, in_one_variable

_LIB = "/usr/lib/{multiarch}/"

_OF_GLIBC = {"arena_max": "MALLOC_ARENA_MAX: arenas at most", "trim_threshold": "MALLOC_TRIM_THRESHOLD_: bytes kept at the top",
             "mmap_threshold": "MALLOC_MMAP_THRESHOLD_: bytes from which blocks are mapped singly"}
_OF_MIMALLOC = {"reset_delay": "MIMALLOC_RESET_DELAY: milliseconds until unused pages go back", "purge_delay": "MIMALLOC_PURGE_DELAY: the same from version 2.1"}
_OF_TCMALLOC = {"release_rate": "TCMALLOC_RELEASE_RATE: 0 never gives memory back, 10 eagerly"}

GLIBC = Base("glibc", "the C library's own malloc", _OF_GLIBC, as_variables(_OF_GLIBC))
JEMALLOC = Base(
    "jemalloc", "jemalloc",
    {"dirty_decay_ms": "milliseconds until unused dirty pages go back", "muzzy_decay_ms": "the same for muzzy pages", "narenas": "number of arenas"},
    in_one_variable("MALLOC_CONF", ",", lambda name, value: f"{name}:{value}" if name.islower() else None),
    package="libjemalloc2", files=(_LIB + "libjemalloc.so.2",), library="libjemalloc",
)
MIMALLOC = Base(
    "mimalloc", "mimalloc", _OF_MIMALLOC, as_variables(_OF_MIMALLOC), package="libmimalloc2.0", library="libmimalloc",
    files=(_LIB + "libmimalloc.so.2.0", _LIB + "libmimalloc.so.2", _LIB + "libmimalloc.so.2.*", _LIB + "libmimalloc.so.3"),
)
TCMALLOC = Base(
    "tcmalloc", "tcmalloc of gperftools, without profilers", _OF_TCMALLOC, as_variables(_OF_TCMALLOC),
    package="libtcmalloc-minimal4", files=(_LIB + "libtcmalloc_minimal.so.4",), library="libtcmalloc",
)
SCUDO = Base(
    "scudo", "LLVM's hardened allocator",
    {"release_to_os_interval_ms": "milliseconds between giving pages back"},
    in_one_variable("SCUDO_OPTIONS", ":", lambda name, value: f"{name}={value}" if name.islower() else None),
    package="libclang-rt-14-dev", library="libclang_rt.scudo",
    files=("/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-{machine}.so",),
)
TBBMALLOC = Base("tbbmalloc", "oneTBB's scalable allocator", package="libtbbmalloc2", files=(_LIB + "libtbbmalloc_proxy.so.2",), library="libtbbmalloc.so")
ALL = (GLIBC, JEMALLOC, MIMALLOC, TCMALLOC, SCUDO, TBBMALLOC)
