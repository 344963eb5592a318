//! What is counted, in this process.

/// What a program is shown of its cache: `struct ashlar_code_counts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Counts {
    /// Files whose code came from the cache.
    pub(super) hits: u64,
    /// Files that were compiled.
    pub(super) misses: u64,
    /// Of these, those whose code was kept for the cache.
    pub(super) kept: u64,
    /// Files that were read because their stamp did not say whether they have changed.
    pub(super) sources_read: u64,
    /// Entries that were damaged.
    pub(super) damaged: u64,
    /// Bytes of code that came from the cache.
    pub(super) loaded_bytes: u64,
    /// How long compiling that code took when it was compiled.
    pub(super) saved_us: u64,
    /// How often this process has written the file.
    pub(super) written: u64,
    /// The file, as this process has it mapped.
    pub(super) file_bytes: u64,
    pub(super) entries: u64,
    /// Instruction sequences in the file, and how many of them earlier processes ran.
    pub(super) sequences: u64,
    pub(super) ran_before: u64,
    /// Sequences that this process, its parent or its children loaded when they first ran.
    pub(super) loaded_later: u64,
}
