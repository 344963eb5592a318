//! What pacing learns when a collection starts.

/// How much of the heap a collection looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Young cells only.
    Minor,
    /// Everything but what is settled.
    Major,
    /// Everything.
    Full,
}

/// Bytes as counted at the start of a collection, when everything the previous
/// one found dead has been swept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// Cells, payloads and external memory in use.
    pub used_bytes: usize,
    /// Of those, handed out since the previous collection.
    pub fresh_bytes: usize,
    /// Of the bytes in use, those of cells.
    pub cell_bytes: usize,
    /// Cells that the previous collection kept.
    pub kept_cells: usize,
    /// Of those, old: minor collections cannot free them.
    pub old_cells: usize,
    /// Of those, settled: only a full collection can free them.
    pub settled_cells: usize,
    /// What the VM says will last ([`Vm::lasting_bytes`](crate::vm::Vm::lasting_bytes)).
    pub lasting_bytes: usize,
    /// Old cells without a write barrier, counted while their number is limited.
    pub rescanned_cells: usize,
    /// The memory that is resident; known while a memory limit is in force.
    pub residence: Option<Residence>,
    /// What the process has cost; known while CPU time is weighed against memory.
    pub costs: Option<Costs>,
}

/// What the system has given the process, and what of it the heap may fill
/// without asking for more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residence {
    /// Physical memory of the process (RSS).
    pub resident_bytes: usize,
    /// Of that, free memory in blocks that hold cells or payloads.
    pub free_bytes: usize,
}

/// What the process has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// CPU time of collecting, of all threads.
    pub collecting_ns: u64,
    /// CPU time of everything, collecting included.
    pub process_ns: u64,
    /// Physical memory of the process; of memory that it shares with other processes, its part.
    pub process_bytes: usize,
}

impl Measure {
    /// Bytes that the previous collection kept.
    pub fn kept_bytes(&self) -> usize {
        self.used_bytes.saturating_sub(self.fresh_bytes)
    }

    /// Of the cells that the previous collection kept, those that a major one looks at.
    pub(super) fn unsettled_cells(&self) -> usize {
        self.kept_cells.saturating_sub(self.settled_cells)
    }

    /// The part of the kept bytes that minor collections cannot free, taking
    /// payloads to belong to young and old cells alike.
    pub fn old_bytes(&self) -> usize {
        let share = self.old_cells as f64 / self.kept_cells.max(1) as f64;
        (self.kept_bytes() as f64 * share.min(1.0)) as usize
    }
}
