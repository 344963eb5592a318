//! Free runs: neighbouring free cells of one block, threaded through the free
//! memory itself.
//!
//! ```text
//! first cell of a run:  [ 0 │ next run │ end of this run │ ... ]
//! ```
//! The first word stays zero: a VM whose cells begin with a type and that looks
//! at a dangling reference reads "nothing" there.

use crate::layout::region::Region;

/// Words of the first cell that a run takes.
pub(crate) const RUN_WORDS: usize = 3;
/// Which of them is the address of the next run.
pub(crate) const RUN_NEXT_WORD: usize = 1;
/// Which of them is the address of this run's end.
pub(crate) const RUN_END_WORD: usize = 2;

/// One free run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Address of its first cell.
    pub(crate) start: usize,
    /// Address just past its last cell.
    pub(crate) end: usize,
    /// Address of the next run of the block, 0 for none.
    pub(crate) next: usize,
}

impl Run {
    /// Writes the run into its first cell.
    #[inline(always)]
    pub(crate) fn write(self, region: &Region) {
        let words = region.pointer(self.start).cast::<usize>();
        // SAFETY: the run consists of free cells of at least 32 bytes.
        unsafe {
            words.write(0);
            words.add(RUN_NEXT_WORD).write(self.next);
            words.add(RUN_END_WORD).write(self.end);
        }
    }

    /// Makes the run at `next` follow the run at `start`, which [`Run::write`] has written.
    #[inline(always)]
    pub(crate) fn write_next(region: &Region, start: usize, next: usize) {
        // SAFETY: the run consists of free cells of at least 32 bytes.
        unsafe {
            let words = region.pointer(start).cast::<usize>();
            words.add(RUN_NEXT_WORD).write(next);
        }
    }

    /// Reads the run that starts at `start`.
    #[inline(always)]
    pub(crate) fn read(region: &Region, start: usize) -> Self {
        let words = region.pointer(start).cast::<usize>();
        // SAFETY: `start` comes from a block's list of free runs, and `write`
        // filled these words.
        unsafe {
            Self {
                start,
                next: words.add(RUN_NEXT_WORD).read(),
                end: words.add(RUN_END_WORD).read(),
            }
        }
    }
}
