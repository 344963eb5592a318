//! Finalizers, and other work that waits for the end of a collection.

mod entries;

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::null_mut;

use ashlar_wordmap::OutOfMemory;

use crate::ruby_calls::Value;
use crate::table_memory::Table;

/// Empty places up to this number are not closed up.
const GONE_MIN: usize = 1024;

/// One piece of work: `struct ashlar_job`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Job {
    free: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
    finalizers: Value,
    object_id: u64,
}

// SAFETY: `data` is Ruby's, which lets any thread with the GVL run jobs.
unsafe impl Send for Job {}

impl Job {
    /// The job that runs the finalizers of this array, for an object that had this id.
    fn of(finalizers: Value, object_id: u64) -> Self {
        Self {
            free: None,
            data: null_mut(),
            finalizers,
            object_id,
        }
    }
}

/// An object with finalizers, or the place that it has left.
#[derive(Clone, Copy)]
struct Defined {
    /// 0 when the object has no finalizers any more.
    object: Value,
    /// An array of procs.
    array: Value,
}

const GONE: Defined = Defined {
    object: 0,
    array: 0,
};

/// Which object has which finalizers, and the jobs that wait.
///
/// An object gets a place when it gets its finalizers. Places are numbered upwards, which
/// is the order in which finalizers run when the program ends.
///
/// * **F1** `places` and `defined` describe the same objects: object `o` is in `places`
///   with `p` exactly when `defined[p].object` is `o`.
/// * **F2** `waiting` has room for a job of every object in `places`, so that a
///   collection, which may run because there is no memory, needs no more.
/// * **F3** No object has a place before `first`.
/// * **F4** While a job waits and none runs, `running` has room for one: however little
///   memory there is then, all waiting jobs run, one after the other.
#[derive(Default)]
pub(crate) struct Finalizers {
    /// Object → place. Only this table is searched by address; everything else is found by
    /// place.
    places: Table,
    defined: Vec<Defined>,
    first: usize,
    waiting: VecDeque<Job>,
    /// Jobs that are running; they may nest. Their arrays are roots meanwhile.
    running: Vec<Job>,
    /// Jobs ever queued.
    jobs_so_far: usize,
}

impl Finalizers {
    /// Calls `visit` with every array that must be kept.
    pub(crate) fn each_value(&self, visit: impl FnMut(Value)) {
        let jobs = self.waiting.iter().chain(&self.running);
        let live = self.defined[self.first..].iter().filter(|d| d.object != 0);
        live.map(|defined| defined.array)
            .chain(jobs.map(|job| job.finalizers))
            .for_each(visit);
    }

    /// How many jobs wait.
    pub(crate) fn waiting_jobs(&self) -> usize {
        self.waiting.len()
    }

    /// How many jobs were ever queued.
    pub(crate) fn jobs_so_far(&self) -> usize {
        self.jobs_so_far
    }

    /// The array of an object's finalizers.
    fn get(&self, object: Value) -> Option<Value> {
        let place = *self.places.get(object as u64)?;
        Some(self.defined[place as usize].array)
    }

    /// Sets the array of an object's finalizers. When there is no memory, nothing changes.
    fn insert(&mut self, object: Value, array: Value) -> Result<(), OutOfMemory> {
        self.reserve_jobs(1)?;
        self.defined.try_reserve(1).map_err(|_| OutOfMemory)?;
        let place = self.defined.len();
        let old_place = self.places.try_insert(object as u64, place as u64)?;
        self.defined.push(Defined { object, array });
        if let Some(old_place) = old_place {
            self.vacate(old_place as usize);
        }
        Ok(())
    }

    /// Reserves room for `count` jobs besides those of all objects.
    fn reserve_jobs(&mut self, count: usize) -> Result<(), OutOfMemory> {
        self.running.try_reserve(1).map_err(|_| OutOfMemory)?;
        let jobs = self.places.len() + count;
        self.waiting.try_reserve(jobs).map_err(|_| OutOfMemory)
    }

    fn remove(&mut self, object: Value) -> Option<Value> {
        let place = self.places.remove(object as u64)?;
        Some(self.vacate(place as usize).array)
    }

    /// Removes the definition at `place`, and returns it.
    fn vacate(&mut self, place: usize) -> Defined {
        let defined = std::mem::replace(&mut self.defined[place], GONE);
        self.tidy();
        defined
    }

    /// Drops what is gone at both ends, and in the middle when there is much of it.
    fn tidy(&mut self) {
        while self.defined.get(self.first).is_some_and(|d| d.object == 0) {
            self.first += 1;
        }
        while self.defined.last().is_some_and(|d| d.object == 0) {
            self.defined.pop();
        }
        self.first = self.first.min(self.defined.len());
        if self.defined.len() > 2 * self.places.len() + GONE_MIN {
            self.close_gaps();
        }
    }

    /// Gives all objects new places, in the same order. Needs no memory.
    fn close_gaps(&mut self) {
        self.defined.retain(|defined| defined.object != 0);
        for (place, defined) in self.defined.iter().enumerate() {
            if let Some(known) = self.places.get_mut(defined.object as u64) {
                *known = place as u64;
            }
        }
        self.first = 0;
    }

    /// Notes that the object has moved; it keeps its place in the order, and whatever was at `to`
    /// before is forgotten. When there is no memory, nothing changes.
    pub(crate) fn moved(&mut self, from: Value, to: Value) -> Result<(), OutOfMemory> {
        if let Some(&place) = self.places.get(from as u64) {
            let old_place = self.places.try_insert(to as u64, place)?;
            self.places.remove(from as u64);
            self.defined[place as usize].object = to;
            if let Some(old_place) = old_place {
                self.vacate(old_place as usize);
            }
        }
        Ok(())
    }

    /// Rewrites the references to the arrays of procs.
    pub(crate) fn update(&mut self, location: impl Fn(Value) -> Value) {
        for defined in self.defined.iter_mut().filter(|d| d.object != 0) {
            defined.array = location(defined.array);
        }
        for job in self.waiting.iter_mut().chain(&mut self.running) {
            job.finalizers = location(job.finalizers);
        }
    }

    /// The object whose finalizers are the oldest.
    fn first(&self) -> Option<Value> {
        self.defined.get(self.first).map(|defined| defined.object)
    }

    /// Turns the finalizers of a dead object into a job; returns false when it has none.
    pub(crate) fn queue(&mut self, object: Value, object_id: u64) -> bool {
        let finalizers = self.remove(object);
        finalizers
            .map(|finalizers| self.push(Job::of(finalizers, object_id)))
            .is_some()
    }

    /// Turns the finalizers of each object into a job that `is_lost`: it has died, and its cell no
    /// longer says that it has finalizers. `id_of` gives the object's id. Returns whether there was one.
    pub(crate) fn queue_lost(
        &mut self,
        is_lost: impl Fn(Value) -> bool,
        id_of: impl Fn(Value) -> u64,
    ) -> bool {
        let mut has_lost = false;
        for place in self.first..self.defined.len() {
            let Defined { object, array } = self.defined[place];
            if object == 0 || !is_lost(object) {
                continue;
            }
            has_lost = true;
            self.places.remove(object as u64);
            self.defined[place] = GONE;
            self.push(Job::of(array, id_of(object)));
        }
        if has_lost {
            self.tidy();
        }
        has_lost
    }

    /// Queues a job besides those that room is reserved for; returns false when there is
    /// no memory.
    fn queue_free(&mut self, job: Job) -> bool {
        let has_room = self.reserve_jobs(1).is_ok();
        if has_room {
            self.push(job);
        }
        has_room
    }

    fn push(&mut self, job: Job) {
        self.waiting.push_back(job);
        self.jobs_so_far += 1;
    }

    /// Returns the next job, which runs from now on; `None` when none waits. Without
    /// memory to run it inside another job, it goes on waiting, and runs after that one.
    fn begin(&mut self) -> Option<Job> {
        self.running.try_reserve(1).ok()?;
        let next = self.waiting.pop_front()?;
        self.running.push(next);
        Some(next)
    }

    /// Forgets the running jobs, in a forked child: the threads that ran them do not exist
    /// there.
    pub(crate) fn forget_running(&mut self) {
        self.running.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusing_allocator::while_memory_is_refused;

    /// Finalizers of these objects, each with its array.
    fn defined(all: impl IntoIterator<Item = (Value, Value)>) -> Finalizers {
        let mut finalizers = Finalizers::default();
        for (object, array) in all {
            finalizers.insert(object, array).unwrap();
        }
        finalizers
    }

    /// Removes all objects, oldest first; the array of each is its address and `distance`.
    fn drained(finalizers: &mut Finalizers, distance: usize) -> Vec<Value> {
        let mut order = Vec::new();
        while let Some(object) = finalizers.first() {
            assert_eq!(finalizers.remove(object), Some(object + distance));
            order.push(object);
        }
        order
    }

    #[test]
    fn finalizers_come_first_that_were_defined_first() {
        let mut finalizers = defined([400, 80, 240, 160].map(|object| (object, object + 8)));
        finalizers.remove(80);
        finalizers.insert(80, 88).unwrap();
        finalizers.insert(320, 7).unwrap();
        finalizers.moved(240, 320).unwrap();
        finalizers.update(|array| if array == 248 { 328 } else { array });
        let order = drained(&mut finalizers, 8);
        assert_eq!(order, [400, 320, 160, 80]);
        assert!(finalizers.places.is_empty() && finalizers.defined.is_empty());
    }

    #[test]
    fn finalizers_that_are_set_again_take_the_last_place() {
        let finalizers = defined([(80, 1), (160, 2), (80, 3)]);
        assert_eq!(finalizers.first(), Some(160));
        assert_eq!(finalizers.get(80), Some(3));
        let mut kept = Vec::new();
        finalizers.each_value(|value| kept.push(value));
        assert_eq!(kept, [2, 3]);
    }

    #[test]
    fn the_order_outlives_the_closing_of_gaps() {
        let all = 10 * GONE_MIN;
        let mut finalizers = defined((1..=all).map(|object| (object, object + all)));
        let kept: Vec<usize> = (1..=all).filter(|object| object % 7 == 3).collect();
        // From both sides, so that there are gaps before, between and behind those kept.
        for object in (1..=all / 2).flat_map(|i| [i, all + 1 - i]) {
            let array = finalizers.get(object);
            if object % 7 != 3 {
                assert_eq!(finalizers.remove(object), array);
            }
            assert_eq!(array, Some(object + all));
        }
        assert!(finalizers.defined.len() <= 2 * kept.len() + GONE_MIN);
        let mut arrays = Vec::new();
        finalizers.each_value(|array| arrays.push(array - all));
        assert_eq!(arrays, kept);
        let order = drained(&mut finalizers, all);
        assert_eq!(order, kept);
    }

    #[test]
    fn finalizers_of_lost_objects_are_queued_and_the_rest_keeps_its_order() {
        let all = 10 * GONE_MIN;
        let mut finalizers = defined((1..=all).map(|object| (object, object + all)));
        let is_lost = |object| object % 5 != 2;
        assert!(finalizers.queue_lost(is_lost, |object| object as u64));
        assert!(!finalizers.queue_lost(is_lost, |_| 0));
        for object in (1..=all).filter(|&object| is_lost(object)) {
            let job = finalizers.begin().unwrap();
            assert_eq!(
                (job.finalizers, job.object_id),
                (object + all, object as u64)
            );
            assert_eq!(finalizers.get(object), None);
        }
        assert!(finalizers.begin().is_none());
        let order = drained(&mut finalizers, all);
        assert!(order
            .into_iter()
            .eq((1..=all).filter(|&object| !is_lost(object))));
    }

    #[test]
    fn no_job_is_lost_when_memory_is_refused_where_it_begins() {
        let mut finalizers = defined((1..=9).map(|object| (object, object)));
        (1..=9).for_each(|object| assert!(finalizers.queue(object, 0)));
        let mut ran = Vec::with_capacity(9);
        while_memory_is_refused(|| {
            while let Some(job) = finalizers.begin() {
                // As many nested jobs as there happens to be room for.
                while let Some(inner) = finalizers.begin() {
                    ran.push(inner.finalizers);
                }
                ran.push(job.finalizers);
                finalizers.running.clear();
            }
        });
        ran.sort_unstable();
        assert!(ran.iter().copied().eq(1..=9), "{ran:?}");
        assert_eq!(finalizers.waiting_jobs(), 0);
    }

    #[test]
    fn there_is_room_for_the_jobs_of_all_objects_before_they_die() {
        let mut finalizers = Finalizers::default();
        for object in 1..=1000 {
            finalizers.insert(object, object).unwrap();
            if object % 3 == 0 {
                finalizers.queue(object, 0);
            }
            let needed = finalizers.waiting.len() + finalizers.places.len();
            assert!(finalizers.waiting.capacity() >= needed);
        }
    }
}
