//! How many empty blocks the program does not need, and how many of them go back to the system
//! now: arithmetic only.
//!
//! An empty block that nursery after nursery leaves alone is memory for nothing. A page that
//! goes back and is wanted again costs far more than one that is kept. So blocks are watched
//! for some nurseries, and half of the blocks that none of these nurseries used goes back. If
//! they are wanted again, the watch was too short for this program, and the next one is twice as
//! long: soon it is longer than any cycle of the program, and nothing goes back in vain.

/// The fewest and the most nurseries that a watch takes.
const WATCH_MIN: usize = 4;
const WATCH_MAX: usize = 256;
/// The fewest blocks that are worth giving back to the system (256 KiB).
const WORTH_BLOCKS: usize = 4;

/// What the latest nurseries have left alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surplus {
    /// Nurseries that a watch takes.
    watch: usize,
    /// Nurseries of this watch that are over.
    nurseries: usize,
    /// Empty blocks that none of these nurseries used.
    unused_blocks: usize,
    /// Blocks that have gone back since a watch last was too short, and blocks without pages
    /// that have been taken since then.
    released_blocks: usize,
    wanted_blocks: usize,
    /// Some blocks have gone back since the watch began.
    has_released: bool,
    /// Blocks that the previous watch found unused, and how many of them are still to go back.
    surplus_blocks: usize,
    due_blocks: usize,
}

impl Default for Surplus {
    fn default() -> Self {
        Self {
            watch: WATCH_MIN,
            nurseries: 0,
            unused_blocks: usize::MAX,
            released_blocks: 0,
            wanted_blocks: 0,
            has_released: false,
            surplus_blocks: 0,
            due_blocks: 0,
        }
    }
}

impl Surplus {
    /// A nursery is over: it did not use `unused_blocks` of the empty blocks that hold memory,
    /// and took `fresh_blocks` that held none.
    pub(crate) fn note_nursery(&mut self, unused_blocks: usize, fresh_blocks: usize) {
        self.nurseries += 1;
        self.unused_blocks = self.unused_blocks.min(unused_blocks);
        self.wanted_blocks += fresh_blocks;
        if self.released_blocks == 0 {
            self.wanted_blocks = 0;
        } else if 2 * self.wanted_blocks >= self.released_blocks {
            self.watch = (2 * self.watch).min(WATCH_MAX);
            (self.released_blocks, self.wanted_blocks) = (0, 0);
            self.begin_watch(0);
            return;
        }
        if self.nurseries >= self.watch {
            // The watch gets shorter little by little, because a cycle of the program may be long.
            if self.has_released {
                self.watch -= self.watch / 16;
            }
            self.begin_watch(self.unused_blocks);
        }
    }

    fn begin_watch(&mut self, surplus_blocks: usize) {
        let half = (surplus_blocks / 2).max(WORTH_BLOCKS);
        *self = Self {
            watch: self.watch,
            released_blocks: self.released_blocks,
            wanted_blocks: self.wanted_blocks,
            surplus_blocks,
            due_blocks: if half <= surplus_blocks { half } else { 0 },
            ..Self::default()
        };
    }

    /// Blocks that nobody needs.
    pub(crate) fn blocks(&self) -> usize {
        self.surplus_blocks
    }

    /// Blocks that are to go back to the system now.
    pub(crate) fn due_blocks(&self) -> usize {
        self.due_blocks
    }

    /// `blocks` of the due blocks have gone back to the system.
    pub(crate) fn note_released(&mut self, blocks: usize) {
        self.released_blocks += blocks;
        self.has_released = true;
        self.note_gone(blocks);
    }

    /// `blocks` empty blocks hold no memory any more.
    pub(crate) fn note_gone(&mut self, blocks: usize) {
        self.surplus_blocks = self.surplus_blocks.saturating_sub(blocks);
        self.due_blocks = self.due_blocks.saturating_sub(blocks);
    }

    /// Nothing goes back until another watch is over, because the system refuses or no block
    /// was found.
    pub(crate) fn put_off(&mut self) {
        self.due_blocks = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose heap has `held_blocks` with memory, and what becomes of them.
    struct Program {
        surplus: Surplus,
        held_blocks: usize,
        released_blocks: usize,
        releases: usize,
    }

    impl Program {
        fn new(held_blocks: usize) -> Self {
            Self {
                surplus: Surplus::default(),
                held_blocks,
                released_blocks: 0,
                releases: 0,
            }
        }

        fn needs(&mut self, blocks: usize) {
            let due_blocks = self.surplus.due_blocks();
            if due_blocks > 0 {
                assert!(due_blocks >= WORTH_BLOCKS && due_blocks <= self.held_blocks);
                self.held_blocks -= due_blocks;
                self.released_blocks += due_blocks;
                self.releases += 1;
                self.surplus.note_released(due_blocks);
            }
            let fresh_blocks = blocks.saturating_sub(self.held_blocks);
            self.held_blocks += fresh_blocks;
            self.surplus
                .note_nursery(self.held_blocks - blocks, fresh_blocks);
        }
    }

    #[test]
    fn what_one_nursery_of_a_watch_needed_is_no_surplus() {
        let mut program = Program::new(100);
        for nursery in 0..1000 {
            program.needs(if nursery % WATCH_MIN == 1 { 100 } else { 10 });
        }
        assert_eq!(program.released_blocks, 0);
    }

    #[test]
    fn what_is_never_needed_goes_back_half_of_it_at_a_time() {
        let mut program = Program::new(800);
        for nursery in 1..=60 {
            program.needs(10);
            if nursery <= WATCH_MIN {
                assert_eq!(program.held_blocks, 800);
            }
            if nursery == WATCH_MIN + 1 {
                assert_eq!(program.held_blocks, 800 - 790 / 2);
            }
        }
        assert!(program.held_blocks < 10 + WORTH_BLOCKS);
        assert!(program.releases < 10, "{} releases", program.releases);
    }

    #[test]
    fn of_what_a_program_needs_in_turns_little_goes_back_in_vain() {
        for period in [5, 12, 37, 100] {
            let mut program = Program::new(200);
            for nursery in 0..10_000 {
                program.needs(if nursery % period == 0 { 200 } else { 20 });
            }
            let times = program.released_blocks / 180;
            assert!(times <= 6, "{times} times with a period of {period}");
        }
    }

    #[test]
    fn a_watch_becomes_shorter_again_when_what_went_back_is_not_wanted() {
        let mut program = Program::new(200);
        for nursery in 0..1000 {
            program.needs(if nursery % 10 == 0 { 200 } else { 20 });
        }
        let long = program.surplus.watch;
        for heap_blocks in (220..=4000).step_by(20) {
            // Another phase of the program leaves this many blocks behind.
            program.held_blocks = heap_blocks;
            for _ in 0..20 {
                program.needs(20);
            }
        }
        let now = program.surplus.watch;
        assert!(now < long, "{now} nurseries, {long} before");
    }

    #[test]
    fn a_refusal_puts_it_off_until_another_watch_is_over() {
        let mut surplus = Surplus::default();
        let mut watch = || {
            for _ in 0..WATCH_MIN {
                surplus.note_nursery(80, 0);
            }
            assert_eq!(surplus.due_blocks(), 40);
            surplus.put_off();
            assert_eq!(surplus.due_blocks(), 0);
        };
        watch();
        watch();
    }
}
