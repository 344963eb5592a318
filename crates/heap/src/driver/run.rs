//! Runs collections with the program stopped, and tells the VM what happens.

use super::plan::{Cause, Plan, Situation, Wanted};
use crate::allocate::cursor::AllocationCache;
use crate::compact::Evacuation;
use crate::heap::{Allocation, Heap, Progress, Request, Urgency};
use crate::layout::cell_state::CellState;
use crate::layout::width::WidthIndex;
use crate::pace::Scope;
use crate::vm::Vm;
use crate::work_budget::WorkBudget;

/// A payload of at least this many bytes may need [`Driver::make_room`] below a memory limit.
/// Smaller ones fill a nursery before they could outgrow the limit.
pub const LARGE_PAYLOAD_BYTES: usize = 256 << 10;

/// What a VM does when its heap is collected. All methods but the first are for a VM that takes
/// note of what happens; by default they do nothing but run `work`.
pub trait World {
    /// Runs `work`, which collects, with the program stopped and its stacks known, as a pause
    /// ([`Heap::pauses`]). Where no collection may happen, it does nothing, or does not return.
    fn stopped(&self, work: impl FnOnce());

    /// Whether other threads stand still in a stop, so that to stop the program takes as long as sweeping some
    /// blocks. Then a slice that ends marking and an allocation that sweeps both sweep on while they have time.
    fn has_other_threads(&self) -> bool {
        false
    }

    /// Whether a collection may run at all, now that memory is out.
    fn may_collect(&self) -> bool {
        true
    }

    /// A collection begins; this scope was asked for, if any.
    fn begins(&self, _asked: Option<Scope>) {}

    /// Runs `work`, which marks, and frees nothing before all is marked.
    fn marking<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Marking is over. `sweep_now`: all is swept before the program goes on.
    fn marked(&self, _scope: Scope, _sweep_now: bool) {}

    /// Runs `work`, which may sweep. If it has freed the last dead cell, all is swept.
    fn sweeping<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    /// All is swept, but not by the work of [`World::sweeping`].
    fn swept(&self) {}
}

/// A heap, and the world in which it is collected.
pub struct Driver<'a, 'shared, V, W> {
    /// The heap.
    pub heap: &'a Heap<'shared, V>,
    /// What the VM does.
    pub world: W,
}

impl<'shared, V: Vm, W: World> Driver<'_, 'shared, V, W> {
    /// Runs a collection, or a slice of one, that pacing asks for.
    #[cold]
    #[inline(never)]
    pub fn collect_due(&self, wanted: Wanted) {
        self.world.stopped(|| {
            // The program may have been faster than the collector.
            self.heap.note_resident();
            match Situation::of(self.heap).plan(wanted) {
                Plan::AtOnce(request) => self.run(request),
                Plan::SliceOfCells(cells) => self.run_slice(wanted, WorkBudget::cells(cells)),
                Plan::SliceOfTime(time) => self.run_slice(wanted, WorkBudget::time(time)),
            }
        });
    }

    /// Collects at once.
    pub fn collect(&self, request: Request) {
        self.world.stopped(|| self.run(request));
    }

    /// Ends the collection in progress, marking and sweeping.
    pub fn finish(&self) {
        self.world.stopped(|| self.finish_here());
    }

    /// Memory is out: frees everything dead. Returns false when that cannot or may not be done now,
    /// or there is nothing to free.
    #[cold]
    #[inline(never)]
    pub fn last_resort(&self) -> bool {
        let may_help = self.world.may_collect() && !self.heap.is_collecting() && self.has_cells();
        if may_help {
            self.collect(Request::EVERYTHING);
        }
        may_help
    }

    /// Makes room for a payload of `bytes` below the memory limit, if it does not fit there and a
    /// full collection may help ([`Pace::may_gain_room`](crate::Pace::may_gain_room)).
    #[cold]
    #[inline(never)]
    pub fn make_room(&self, bytes: usize, compact: Option<Evacuation>) {
        self.make_room_when_handed(bytes, bytes, compact);
    }

    /// As [`Driver::make_room`], for `bytes` that the program has been handed already, but has
    /// hardly written yet.
    #[cold]
    #[inline(never)]
    pub fn make_room_for_handed(&self, bytes: usize, compact: Option<Evacuation>) {
        self.make_room_when_handed(bytes, 0, compact);
    }

    /// Makes room for `bytes`, of which the program is about to be handed `more_bytes`.
    fn make_room_when_handed(&self, bytes: usize, more_bytes: usize, compact: Option<Evacuation>) {
        let fresh_bytes = self.heap.fresh_bytes();
        let may_help = self.has_cells() && self.heap.pace().may_gain_room(fresh_bytes, more_bytes);
        if !may_help || self.heap.has_room_for(bytes) {
            return;
        }
        self.world.stopped(|| {
            self.run(Request {
                compact,
                ..Request::EVERYTHING
            });
            if !self.heap.has_room_for(bytes) {
                self.heap.release_empty_blocks();
            }
        });
    }

    /// A cell of at least `size_bytes`, after a collection if one is due and `urgency` allows it, and
    /// after [`Driver::last_resort`] if memory is out.
    ///
    /// # Safety
    /// The cache is one of the heap's ([`Heap::new_cache`]), and the caller has no reference to it.
    pub unsafe fn allocate(
        &self,
        cache: *mut AllocationCache<'shared>,
        size_bytes: usize,
        state: CellState,
        mut urgency: Urgency,
        wanted: impl Fn() -> Wanted,
    ) -> Allocation {
        let Some(width) = WidthIndex::for_size(size_bytes) else {
            return Allocation::TooLarge;
        };
        let mut is_last_try = false;
        loop {
            // Only sweeping is timed: reading the clock costs as much as filling a short run.
            // SAFETY: the caller's contract; the reference ends here.
            let sweeps = self.heap.will_sweep(unsafe { &*cache }, width);
            let allocate = || {
                // SAFETY: the caller's contract; the reference ends before a collection retires the
                // cache, or the world, which calls this, uses it.
                let cache = unsafe { &mut *cache };
                self.heap.allocate(cache, width.bytes(), state, urgency)
            };
            let outcome = match sweeps {
                true => self.world.sweeping(|| {
                    self.sweep_while_others_stand_still();
                    allocate()
                }),
                false => {
                    let unswept_blocks = self.heap.unswept_blocks();
                    let outcome = allocate();
                    debug_assert_eq!(self.heap.unswept_blocks(), unswept_blocks);
                    outcome
                }
            };
            match outcome {
                Allocation::NeedsCollection => {
                    self.collect_due(wanted());
                    urgency = Urgency::MustAllocate;
                }
                Allocation::OutOfMemory if !is_last_try && self.last_resort() => {
                    is_last_try = true;
                }
                Allocation::OutOfMemory => {
                    self.heap.open_reserve();
                    return outcome;
                }
                _ => return outcome,
            }
        }
    }

    /// Whether there is anything to collect. Before the first cell a VM may have no roots to
    /// show either.
    fn has_cells(&self) -> bool {
        self.heap.stats().blocks_taken > 0
    }

    fn run(&self, request: Request) {
        self.finish_here();
        self.world.begins(request.scope);
        let scope = self.world.marking(|| {
            self.heap.collect(Request {
                sweep_now: false,
                ..request
            })
        });
        self.world.marked(scope, request.sweep_now);
        // After a compaction all is swept, and otherwise there may be nothing to sweep.
        let is_swept = !self.heap.is_sweeping();
        if request.sweep_now {
            self.world.sweeping(|| self.heap.finish_sweep());
        }
        if is_swept {
            self.world.swept();
        }
    }

    fn run_slice(&self, wanted: Wanted, mut work: WorkBudget) {
        let heap = self.heap;
        if !heap.is_marking() {
            let is_swept = self.world.sweeping(|| heap.sweep_slice(&mut work));
            let is_wanted = heap.collection_is_due() || heap.stress().slice_cells > 0;
            if !is_swept || !is_wanted {
                return;
            }
            self.world.begins(wanted.scope);
        }
        let progress = self.world.marking(|| heap.advance(wanted.scope, &mut work));
        if let Progress::Marked(scope) = progress {
            self.world.marked(scope, false);
            if self.world.has_other_threads() {
                self.world.sweeping(|| heap.sweep_within(&mut work));
            }
            if wanted.cause == Cause::Payloads {
                heap.sweep_in_slices();
            }
        }
    }

    /// Sweeps before an allocation that has to sweep, as long as a slice may take, while other
    /// threads stand still anyway.
    fn sweep_while_others_stand_still(&self) {
        if self.world.has_other_threads() {
            let slice_time = self.heap.pauses().slice_time();
            let mut work = slice_time.map_or_else(WorkBudget::unlimited, WorkBudget::time);
            self.heap.sweep_within(&mut work);
        }
    }

    fn finish_here(&self) {
        if self.heap.is_marking() {
            if let Some(scope) = self.world.marking(|| self.heap.finish_marking()) {
                self.world.marked(scope, false);
            }
        }
        self.world.sweeping(|| self.heap.finish_sweep());
    }
}
