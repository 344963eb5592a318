/*
 * Prints, as Rust constants, the parts of Ruby's object layout that the
 * collector reads without calling Ruby. Compiled and run while building, so
 * the numbers always are those of the Ruby that the library is built for.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ruby/ruby.h"
#include "version.h"
#include "internal.h"

#include "inlined.h"

#define CONSTANT(name, meaning, value)                                              \
    printf("/// %s\npub(crate) const " name ": usize = %#lx;\n", meaning,           \
           (unsigned long)(value))
#define FLAG(flag) CONSTANT(#flag, "Ruby's flag of this name.", flag)
#define NAMED_FLAG(name, flag) CONSTANT(name, "Ruby's flag `" #flag "`.", flag)
#define TYPE(type) CONSTANT(#type, "Ruby's type of this name.", type)
#define KIND(name, kind) CONSTANT("IMEMO_" #name, "Ruby's kind of this name.", kind)
#define NAMED(kind) printf("(%d, \"" #kind "\", \"(internal " #kind ")\"), ", imemo_##kind)
#define OFFSET(name, type, member)                                                  \
    CONSTANT(name, "Offset of `" #member "` in `" #type "`, in bytes.",             \
             offsetof(type, member))
#define BYTES(name, type) CONSTANT(name, "Bytes of `" #type "`.", sizeof(type))
/* A field of bits: the offset of the 32 bits that it is in, and which of them. */
#define BITS(name, type, member, all)                                               \
    do {                                                                            \
        type probe;                                                                 \
        memset(&probe, 0, sizeof(probe));                                           \
        probe.member = (all);                                                       \
        print_bits(name, #member, &probe, sizeof(probe));                           \
    } while (0)

static void
print_bits(const char *name, const char *member, const void *probe, size_t bytes)
{
    for (size_t at = 0; at + 4 <= bytes; at += 4) {
        uint32_t bits;
        memcpy(&bits, (const char *)probe + at, 4);
        if (!bits) continue;
        printf("/// Offset of the 32 bits that hold `%s`, in bytes.\n"
               "pub(crate) const %s_AT: usize = %#lx;\n", member, name, (unsigned long)at);
        printf("/// Which of them hold `%s`.\n"
               "pub(crate) const %s_MASK: u32 = %#x;\n", member, name, bits);
        return;
    }
}

#define ASHLAR_LAYOUT
#include "ruby_version.h"

int
main(void)
{
    print_layout();

    const size_t inlined[] = {
        offsetof(struct ashlar_allocation_cache, biased_states),
        offsetof(struct ashlar_allocation_cache, cursors),
        sizeof(struct ashlar_cursor),
        offsetof(struct ashlar_cursor, next),
        offsetof(struct ashlar_cursor, end),
        ASHLAR_WIDTHS,
        offsetof(struct ashlar_payload_cache, first),
        offsetof(struct ashlar_payload_cache, room),
        sizeof(struct ashlar_payload_cache),
        ASHLAR_KINDS,
        ASHLAR_CLASS_BYTES_MAX,
        ASHLAR_FIRST_PAYLOAD_KIND,
        ASHLAR_BLOCK_SHIFT,
        ASHLAR_STATE_SHIFT,
        ASHLAR_CELL_LIVE,
        ASHLAR_CELL_MARKED,
        ASHLAR_CELL_OLD,
        ASHLAR_CELL_AGED,
        ASHLAR_CELL_AGED_TWICE,
        ASHLAR_CELL_UNPROTECTED,
        ASHLAR_CELL_REMEMBERED,
        ASHLAR_STAGE_IDLE,
        offsetof(struct ashlar_cursor, next_run),
        offsetof(struct ashlar_run, next),
        offsetof(struct ashlar_run, end),
        offsetof(struct ashlar_allocation_cache, bytes_in_runs),
        offsetof(struct ashlar_allocation_cache, allowance_bytes),
        offsetof(struct ashlar_allocation_cache, cells_until_sample),
    };
    printf("/// What `shim/inlined.h` declares, in the order of the heap's `LAYOUT`.\n"
           "pub(crate) const INLINED_LAYOUT: [usize; %zu] = [", sizeof(inlined) / sizeof(*inlined));
    for (size_t i = 0; i < sizeof(inlined) / sizeof(*inlined); i++) printf("%zu, ", inlined[i]);
    printf("];\n");

    printf("/// The Ruby that the library is built for.\n"
           "pub(crate) const RUBY_VERSION: &str = \"%d.%d.%d\";\n",
           RUBY_VERSION_MAJOR, RUBY_VERSION_MINOR, RUBY_VERSION_TEENY);
    return 0;
}
