#ifndef ASHLAR_RUBY_H
#define ASHLAR_RUBY_H
/*
 * The border between Ruby and the collector.
 *
 * `ashlar_*` functions are written in Rust (ruby/src) and called from the shim;
 * `struct ashlar_ruby_calls` holds Ruby's functions that Rust calls. It is a table because the same
 * library also serves processes without Ruby (LD_PRELOAD), where those functions do not exist.
 *
 * Threads: functions without an `objspace` may be called by any thread at any time, and so may
 * `ashlar_x*`. Functions with an `objspace` are called with the GVL of the calling Ractor held, and
 * take the VM lock themselves where they need it; those for marking are called from inside a
 * collection, which holds the lock.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <stdint.h>

/* Nobody calls these from outside the library, or the Ruby that it is a part of, so no call goes
   through a linkage table. */
#pragma GCC visibility push(hidden)

typedef uintptr_t ashlar_value; /* VALUE */

struct ashlar_ruby_calls {
    void (*mark_roots)(void *objspace, const char **category);
    void (*mark_children)(void *objspace, ashlar_value object);
    void (*finish_marking)(void);
    void (*save_machine_context)(void);
    void *(*shape_by_id)(uint32_t shape);
    ashlar_value (*proc_class)(void);
    void (*free_weak_references)(ashlar_value object);
    bool (*free_object)(void *objspace, ashlar_value object);
    void (*event_hook)(ashlar_value object, uint32_t event);
    unsigned int (*vm_lock)(void);
    void (*vm_unlock)(unsigned int level);
    unsigned int (*vm_lock_no_barrier)(void);
    void (*vm_unlock_no_barrier)(unsigned int level);
    void (*vm_barrier)(void);
    bool (*multi_ractor)(void);
    void (*forget_called_methods)(void);
    size_t (*loaded_files)(void); /* main Ractor */
    int (*thread_has_gvl)(void);
    size_t (*optimal_size)(ashlar_value object);
    uint32_t (*shape_in_width)(ashlar_value object, size_t width_index); /* 0 for none */
    void (*set_shape)(ashlar_value object, uint32_t shape);
    void (*move_generic_variables)(ashlar_value from, ashlar_value to);
    void (*begin_updating)(void); /* before references of objects that moved are rewritten */
    void (*update_object)(void *objspace, ashlar_value object);
    void (*update_vm)(void *objspace);
    void (*prepare_object)(ashlar_value object);
    void (*trigger_finalizers)(void);
    int (*profile_frames)(int start, int limit, ashlar_value *frames, int *lines);
    void (*name_samples_soon)(void);
    void (*reachable_from_roots)(void (*visit)(const char *, ashlar_value, void *), void *data);
    void (*reachable_from)(ashlar_value object, void (*visit)(ashlar_value, void *), void *data);
    size_t (*memory_of)(ashlar_value object); /* the cell included */
};

/* Events of the collector, by Ruby's numbers, which are set at the start. */
struct ashlar_ruby_events {
    uint32_t gc_start, gc_end_mark, gc_end_sweep, gc_enter, gc_exit, free_object;
};

/* Why a collection happened; GC.latest_gc_info shows it. */
enum ashlar_reason {
    ASHLAR_REASON_NONE,   /* there has been none */
    ASHLAR_REASON_NEWOBJ, /* cells used up */
    ASHLAR_REASON_MALLOC, /* payloads */
    ASHLAR_REASON_METHOD, /* GC.start, rb_gc() */
    ASHLAR_REASON_STRESS,
};

/* Start of the process. `failure` gets a message when NULL is returned; nobody frees it. */
void *ashlar_objspace_new(const struct ashlar_ruby_calls *, const struct ashlar_ruby_events *,
                          const char *ruby_version, const char **failure);
void *ashlar_cache_new(void *objspace);
void ashlar_cache_free(void *objspace, void *cache);
extern const size_t ashlar_object_widths[]; /* in bytes, ended by 0 */

/* Collection. */
void ashlar_start(void *objspace, bool full, bool sweep_now, enum ashlar_reason);
bool ashlar_during_gc(void);
void ashlar_finish_collection(void *objspace);
/* Ends collecting for good: drops a marking in progress, and frees dead objects. */
void ashlar_end_collections(void *objspace);
void ashlar_prepare_heap(void *objspace);
bool ashlar_collect_before_fork(void *objspace);
void ashlar_disable(bool on);
void ashlar_set_stress(void *objspace, ashlar_value flag, bool on);

/* Objects. `ashlar_allocate` sweeps and collects if it must, and writes the first two words; it
   returns 0 when there is no memory. */
ashlar_value ashlar_allocate(void *objspace, void *cache, ashlar_value klass, ashlar_value flags,
                             bool wb_protected, size_t size);

/* Payloads. `cache` is the calling thread's, NULL until it has one. `ashlar_x*` are for Ruby: they
   count towards the next collection, and may collect when the calling thread holds the GVL and
   `may_collect` is true. `ashlar_*_payload` are for the process, under LD_PRELOAD: they never
   collect. */
void *ashlar_xmalloc(void *cache, size_t size, bool may_collect);
void *ashlar_xcalloc(void *cache, size_t size, bool may_collect);
/* For the inline caches and call caches of code. */
void *ashlar_calloc_for_code(size_t size);
void *ashlar_xrealloc(void *cache, void *payload, size_t size, bool may_collect);
void ashlar_xfree(void *cache, void *payload);
void *ashlar_malloc_payload(void *cache, size_t size);
void *ashlar_calloc_payload(void *cache, size_t size);
void *ashlar_realloc_payload(void *cache, void *payload, size_t size);
void ashlar_free_payload(void *cache, void *payload);
void *ashlar_aligned_payload(void *cache, size_t size, size_t align);
size_t ashlar_usable_payload(void *payload);
bool ashlar_is_payload(const void *memory);
void ashlar_give_up_thread_cache(void *cache); /* the calling thread's, which ends */
void ashlar_adjust_memory(ssize_t difference);

/* The calling thread's cache (shim/payload.c); NULL until it has one. Reading it is one load: the
   initial-exec model of thread-local variables saves the call that the general model makes. */
extern __thread void *ashlar_thread_cache
    __attribute__((tls_model("initial-exec")));
void *ashlar_current_thread_cache(void); /* for Rust */
bool ashlar_thread_cache_set(void *cache);

/* What a thread without a cache must do. */
enum ashlar_cache_state {
    ASHLAR_CACHE_AT_FIRST_USE, /* get one */
    ASHLAR_CACHE_NEVER,        /* it ends, or its end would not be noticed: use the shared one */
    ASHLAR_CACHE_LOCKED,       /* it forks, and has the locks: free them meanwhile, and do the same */
};
enum ashlar_cache_state ashlar_thread_cache_state(void);

/* Marking. */
void ashlar_mark(void *objspace, ashlar_value object);
void ashlar_mark_and_pin(void *objspace, ashlar_value object);
void ashlar_mark_and_move(void *objspace, ashlar_value *reference);
void ashlar_mark_maybe(void *objspace, ashlar_value word);
void ashlar_mark_weak(void *objspace, ashlar_value *reference);

/* Compaction. Any word may be asked for its location. */
void ashlar_compact(void *objspace, bool everything);
ashlar_value ashlar_location(void *objspace, ashlar_value object);
bool ashlar_has_moved(void *objspace, ashlar_value object);

#define ASHLAR_TYPES 32
/* What the latest compaction did, by the type of object. */
struct ashlar_compaction {
    uint64_t considered[ASHLAR_TYPES], moved[ASHLAR_TYPES];
    uint64_t moved_up[ASHLAR_TYPES], moved_down[ASHLAR_TYPES]; /* to a wider cell, to a narrower one */
};
void ashlar_latest_compaction(void *objspace, struct ashlar_compaction *);

/* Barriers. */
void ashlar_write_barrier(void *objspace, ashlar_value parent, ashlar_value child);
void ashlar_unprotect(void *objspace, ashlar_value object);
void ashlar_remember(void *objspace, ashlar_value object);

/* Walking. `ashlar_begin_walk` makes a snapshot of all cells; it returns false when there is no
   memory. Until the walk with this number is ended, the snapshot exists and no cell moves; ending a
   walk again does nothing. In the snapshot a live object is one word, its address; a run of free
   cells is two words, its start with the lowest bit set and its end, and the first word of each
   free cell is 0. `ashlar_next_object` returns the next live object after `object` whose type has
   its bit set in `types`, while nothing is collected: the first one after 0, and 0 after the last
   one. */
ashlar_value ashlar_next_object(void *objspace, ashlar_value object, uint32_t types);
struct ashlar_snapshot {
    size_t number;
    const ashlar_value *words;
    size_t count;
    size_t marked_count; /* `ashlar_marked_count` when the snapshot was made */
};
bool ashlar_begin_walk(void *objspace, ashlar_value thread, struct ashlar_snapshot *);
void ashlar_end_walk(void *objspace, size_t number);
size_t ashlar_marked_count(void *objspace);

/* Finalizers: an array of procs per object; 0 means none. `ashlar_set_finalizers` returns false
   when there is no memory. */
ashlar_value ashlar_finalizers(void *objspace, ashlar_value object);
bool ashlar_set_finalizers(void *objspace, ashlar_value object, ashlar_value array);
void ashlar_forget_finalizers(void *objspace, ashlar_value object);
ashlar_value ashlar_first_finalized(void *objspace);

/* Work that waits for the end of a collection. */
struct ashlar_job {
    void (*free)(void *data); /* NULL for a job that runs finalizers */
    void *data;
    ashlar_value finalizers; /* array of procs */
    uint64_t object_id;
};
void ashlar_queue_free(void *objspace, void (*free)(void *), void *data);
void ashlar_queue_finalizers(void *objspace, ashlar_value object);
bool ashlar_jobs_wait(void *objspace);
bool ashlar_next_job(void *objspace, struct ashlar_job *job);
void ashlar_job_done(void *objspace);

/* Object ids; 0 means none. The caller of ashlar_object_id holds the VM lock; that function returns
   0 when there is no memory. */
uint64_t ashlar_object_id(void *objspace, ashlar_value object, bool *fresh);
ashlar_value ashlar_object_by_id(void *objspace, uint64_t id);
uint64_t ashlar_next_object_id(void *objspace);

/* Sets the hooks that Ruby's tracing of allocations and frees needs. */
void ashlar_set_event_hooks(void *objspace, bool newobj, bool freeobj);

/* State bits of a cell, as shown by ObjectSpace.dump and GC.stat. */
enum ashlar_cell_bit {
    ASHLAR_CELL_LIVE = 1,
    ASHLAR_CELL_MARKED = 2,
    ASHLAR_CELL_OLD = 4,
    ASHLAR_CELL_AGE_LOW = 8,
    ASHLAR_CELL_UNPROTECTED = 16,
    ASHLAR_CELL_REMEMBERED = 32,
    ASHLAR_CELL_PINNED = 64,
    ASHLAR_CELL_AGE_HIGH = 128,
};
unsigned int ashlar_cell_state(void *objspace, ashlar_value object);
bool ashlar_is_garbage(void *objspace, ashlar_value word); /* no live object is there */

/* Statistics. The keys of GC.stat and GC.stat_heap by number, NULL after the last one, and the
   values of `count` keys from `first` on; only what these values need is counted. */
#define ASHLAR_KEYS_MAX 64
const char *ashlar_key(size_t index);
void ashlar_count(void *objspace, size_t first, size_t count, uint64_t *values);
const char *ashlar_width_key(size_t index);
/* The values of all keys of the first width, then those of the next one. */
void ashlar_count_widths(void *objspace, uint64_t *values);
size_t ashlar_collection_count(void *objspace);
uint64_t ashlar_total_time_ns(void *objspace);

/* Why a collection was not minor. */
enum ashlar_major_by {
    ASHLAR_MAJOR_BY_NONE,     /* it was minor */
    ASHLAR_MAJOR_BY_FORCED,   /* asked for */
    ASHLAR_MAJOR_BY_OUTGROWN, /* the heap outgrew its space overhead, or came near the memory limit */
    ASHLAR_MAJOR_BY_MEMORY,   /* memory was out, or a payload did not fit below the memory limit */
};

/* One collection. */
struct ashlar_collection {
    enum ashlar_reason reason;
    enum ashlar_major_by major_by;
    bool sweep_now;
    bool have_finalizers; /* it left finalizers to run */
    size_t weak_references, retained_weak_references;
};

/* The latest collection, and what the next one will be. */
struct ashlar_latest {
    struct ashlar_collection collection;
    enum ashlar_major_by next_major_by;
    bool sweeping; /* lazy sweeping is not over */
    bool marking;
};
void ashlar_latest(void *objspace, struct ashlar_latest *);

/* The profile: one record for each collection while it is on. */
struct ashlar_profile_record {
    struct ashlar_collection collection;
    uint64_t start_ns; /* CPU time of the process when it began */
    uint64_t mark_ns, sweep_ns;
    uint64_t used_bytes, total_bytes, live_cells, available_cells, moved_objects;
};
bool ashlar_profiles(void *objspace);
void ashlar_set_profiling(void *objspace, bool on);
void ashlar_clear_profile(void *objspace);
size_t ashlar_profile_length(void *objspace);
bool ashlar_profile_record(void *objspace, size_t index, struct ashlar_profile_record *);

/* Options, by number; false when there are no more. A `word` is a message, which the caller
   frees. */
enum ashlar_option_kind {
    ASHLAR_OPTION_NUMBER,
    ASHLAR_OPTION_THOUSANDTHS,
    ASHLAR_OPTION_SWITCH,
    ASHLAR_OPTION_WORD,
};
struct ashlar_option {
    const char *name;
    size_t name_bytes;
    enum ashlar_option_kind kind;
    size_t number;
    char *word;
};
bool ashlar_option(void *objspace, size_t index, struct ashlar_option *);

/* Frees a message. */
void ashlar_message_free(char *message);

/* Sets the options among `pairs`, all or none of them. Returns a message when a value is impossible
   or there is no memory, otherwise NULL. */
struct ashlar_pair {
    const char *name;
    size_t name_bytes;
    const char *value;
    size_t value_bytes;
};
char *ashlar_configure(void *objspace, const struct ashlar_pair *pairs, size_t count, bool *is_memory_out);

/* A dump of the heap to `path`, after a full collection; the format is in docs/reference/heap-dump.md. Each
   step returns 0, or the errno of what failed. Opening and pouring may wait for a reader, so they
   are called without the GVL; after EINTR they can be called again. Freeing the dump leaves no file
   that was not there before, unless the dump was written completely. */
struct ashlar_dump;
struct ashlar_dump *ashlar_new_dump(void *objspace, const char *path);
int ashlar_open_dump(struct ashlar_dump *);
int ashlar_write_dump(void *objspace, struct ashlar_dump *);
int ashlar_pour_dump(struct ashlar_dump *);
void ashlar_free_dump(struct ashlar_dump *);

/* Prints what each of the RUBY_GC_* variables does, a line each. */
void ashlar_explain_variables(void);

/* Checks the heap's invariants; returns a message when one is broken, NULL when all hold. */
char *ashlar_verify(void *objspace);

/* The heap profile. A sampled frame or class is named once, at a time when Ruby can make
   strings. */
struct ashlar_nameless {
    ashlar_value value;
    bool is_class;
};
void ashlar_begin_profile(void *objspace); /* if the environment asks for it */
struct ashlar_text { /* of Ruby's: in any encoding, and any byte may be in it */
    const char *bytes;
    size_t count;
};
void ashlar_find_payload_owners(void *objspace); /* before names are asked for */
bool ashlar_next_nameless(struct ashlar_nameless *);
void ashlar_name(const struct ashlar_nameless *, struct ashlar_text label, struct ashlar_text path, unsigned int first_line);
void ashlar_describe_process(struct ashlar_text description);
void ashlar_write_last_profile(void *objspace);
void ashlar_write_profile_at_crash(void); /* from a signal handler */

/* The code cache (shim/code_cache.c). `level` is $VERBOSE (0 for nil, 1 for false, 2 for true) and,
   from bit 8 on, the categories of warnings that are on; `warnings` counts those there have been. */
struct ashlar_source {
    ashlar_value thread;
    const char *path;
    size_t path_bytes;
    const char *real_path; /* that Ruby has put into the code, where there is code */
    size_t real_path_bytes;
    const char *encoding;
    size_t encoding_bytes;
    uint32_t level;
    uint64_t warnings;
};
enum ashlar_found_code {
    ASHLAR_CODE_UNWANTED, /* the file is compiled */
    ASHLAR_CODE_AWAITED,  /* the file is compiled, and its code is wanted */
    ASHLAR_CODE_FOUND,
};
struct ashlar_code_counts {
    uint64_t hits, misses, kept, sources_read, damaged, loaded_bytes, saved_us, written;
    uint64_t file_bytes, entries, sequences, ran_before, loaded_later;
};
bool ashlar_wants_code_cache(void);
void ashlar_begin_code_cache(const char *ruby, size_t bytes, bool is_verbose);
unsigned int ashlar_find_code(const struct ashlar_source *, const char **code, size_t *bytes); /* enum ashlar_found_code */
void ashlar_refuse_code(const char *code);
bool ashlar_awaits_code(void);
void *ashlar_compiled(const struct ashlar_source *); /* NULL, or for ashlar_keep_code */
void ashlar_keep_code(void *fresh, const char *code, size_t bytes);
void ashlar_write_code_cache(void);
void ashlar_write_code_cache_before_fork(void);
bool ashlar_code_counts(struct ashlar_code_counts *); /* false when there is no cache */
void ashlar_note_loaded_code(const char *binary, unsigned int index); /* at any time, by any Ractor */
void ashlar_read_what_ran(void);
bool ashlar_may_run_in_children(const char *binary, unsigned int index);
bool ashlar_lets_code_wait(void); /* by an option */

/* Binary forms outside the heap. NULL when there is no memory. */
const char *ashlar_keep_binary_form(void *objspace, const char *form, size_t bytes);
void ashlar_give_binary_form_back(void *objspace, const char *form);

/* Ends the process with one line that says that the system refuses memory. */
void ashlar_end_for_want_of_memory(void);

/* Fork. `ashlar_begin_child` is for a child that Ruby itself has forked, with the VM lock held:
   `thread` is the thread that the child has, and `runner` the one that runs jobs, or 0.
   `ashlar_after_fork_in_fork` is for a child that the same thread forks between
   `ashlar_before_fork` and `ashlar_after_fork`. */
void ashlar_watch_forks(void);
void ashlar_before_fork(void);
void ashlar_after_fork(bool in_child);
void ashlar_after_fork_in_fork(void);
void ashlar_begin_child(void *objspace, ashlar_value thread, ashlar_value *runner);

#pragma GCC visibility pop
#endif
