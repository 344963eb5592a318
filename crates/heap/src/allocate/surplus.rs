//! How many empty blocks the program does not need, and how many of them go back to the system
//! now: arithmetic only.
//!
//! An empty block that nursery after nursery leaves alone is memory for nothing. A page that
//! goes back and is wanted again costs far more than one that is kept. So an empty block pays
//! rent, as garbage does (`pace/rent.rs`): what its memory is worth for the CPU time for which it
//! has stayed. Blocks are watched for the time in which the rent reaches the price of providing
//! their pages anew. The blocks that no nursery used in that time go back. Blocks that are wanted
//! again before they have saved as much rent went back in vain, and the next watch is twice as
//! long.
//!
//! Where no cost is known, a nursery counts as a quarter of the price, only half of the unused
//! blocks goes back, and blocks that are wanted again always went back in vain: soon a watch is
//! longer than any cycle of the program.

use super::blocks::Need;

/// The part of the price that an empty block pays in a nursery while no cost is known.
const PAID_IN_A_NURSERY: f64 = 1.0 / 4.0;
/// How many times an empty block pays the price in the shortest watch, in the longest one, and in
/// the longest one while no cost is known. Blocks that nobody needs for two prices save one price
/// if they go back after the first.
const WATCH_MIN: f64 = 1.0;
const WATCH_MAX: f64 = 2.0;
const UNPRICED_WATCH_MAX: f64 = 64.0;
/// The fewest blocks that are worth giving back to the system (256 KiB).
const WORTH_BLOCKS: usize = 4;

/// What the latest nurseries have left alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surplus {
    /// How often an empty block pays the price of its pages in a watch.
    watch: f64,
    /// The same since this watch began.
    paid: f64,
    /// Empty blocks that no nursery of this watch used.
    unused_blocks: usize,
    away: Away,
    /// Some blocks have gone back since the watch began.
    has_released: bool,
    /// Blocks that the previous watch found unused, and how many of them are still to go back.
    surplus_blocks: usize,
    due_blocks: usize,
}

/// Blocks that have gone back to the system.
#[derive(Clone, Copy, Debug, Default)]
struct Away {
    blocks: usize,
    /// Blocks without pages that have been taken meanwhile.
    wanted_blocks: usize,
    /// The rent that the blocks have not paid, in prices of a block's pages.
    saved: f64,
}

impl Away {
    /// Blocks were away for another nursery, in which each of them would have paid `paid`, and
    /// `fresh_blocks` without pages were taken. When half of the blocks have been wanted again,
    /// returns whether they saved less than they cost.
    fn note_nursery(&mut self, fresh_blocks: usize, paid: f64) -> Option<bool> {
        let away_blocks = self.blocks - self.wanted_blocks;
        self.saved += away_blocks as f64 * paid;
        self.wanted_blocks += fresh_blocks.min(away_blocks);
        let is_over = self.blocks > 0 && 2 * self.wanted_blocks >= self.blocks;
        is_over.then(|| {
            let over = std::mem::take(self);
            self.blocks = over.blocks - over.wanted_blocks;
            over.saved < over.wanted_blocks as f64
        })
    }
}

impl Default for Surplus {
    fn default() -> Self {
        Self {
            watch: WATCH_MIN,
            paid: 0.0,
            unused_blocks: usize::MAX,
            away: Away::default(),
            has_released: false,
            surplus_blocks: 0,
            due_blocks: 0,
        }
    }
}

impl Surplus {
    /// A nursery is over, which needed empty blocks. An empty block has paid the part `paid` of
    /// the price of its pages in the meantime; `None` while no cost is known.
    pub(crate) fn note_nursery(&mut self, need: Need, paid: Option<f64>) {
        self.paid += paid.unwrap_or(PAID_IN_A_NURSERY);
        self.unused_blocks = self.unused_blocks.min(need.unused);
        let was_in_vain = self.away.note_nursery(need.fresh, paid.unwrap_or(0.0));
        if was_in_vain == Some(true) {
            let watch_max = match paid {
                Some(_) => WATCH_MAX,
                None => UNPRICED_WATCH_MAX,
            };
            self.watch = (2.0 * self.watch).min(watch_max);
            self.begin_watch(0, 0);
        } else if self.paid >= self.watch {
            // The watch gets shorter little by little, because a cycle of the program may be long.
            if self.has_released {
                self.watch = (self.watch * (15.0 / 16.0)).max(WATCH_MIN);
            }
            let unused_blocks = self.unused_blocks;
            let due_blocks = match paid {
                Some(_) => unused_blocks,
                None => (unused_blocks / 2).max(WORTH_BLOCKS),
            };
            self.begin_watch(unused_blocks, due_blocks);
        }
    }

    /// Begins a watch. Of `surplus_blocks` unused blocks of the previous one, `due_blocks` go back.
    fn begin_watch(&mut self, surplus_blocks: usize, due_blocks: usize) {
        let is_worth_it = (WORTH_BLOCKS..=surplus_blocks).contains(&due_blocks);
        *self = Self {
            watch: self.watch,
            away: self.away,
            surplus_blocks,
            due_blocks: if is_worth_it { due_blocks } else { 0 },
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
        self.away.blocks += blocks;
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

    /// The price of a block's pages divided by the rent that a block pays in a nursery, where no cost
    /// is known.
    const NURSERIES: usize = (1.0 / PAID_IN_A_NURSERY) as usize;

    /// A program whose heap has `held_blocks` with memory, and what becomes of them.
    struct Program {
        surplus: Surplus,
        /// What a block pays in a nursery.
        paid: Option<f64>,
        held_blocks: usize,
        released_blocks: usize,
        releases: usize,
        /// Blocks that were provided anew, and blocks that were empty, summed over nurseries.
        fresh_blocks: usize,
        empty_blocks: usize,
    }

    impl Program {
        fn new(held_blocks: usize) -> Self {
            Self {
                surplus: Surplus::default(),
                paid: None,
                held_blocks,
                released_blocks: 0,
                releases: 0,
                fresh_blocks: 0,
                empty_blocks: 0,
            }
        }

        /// One that has needed 200 blocks once in `period` nurseries, and 20 in all others.
        fn in_turns(paid: Option<f64>, period: usize) -> Self {
            let mut program = Self {
                paid,
                ..Self::new(200)
            };
            for nursery in 0..10_000 {
                program.needs(if nursery % period == 0 { 200 } else { 20 });
            }
            program
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
            self.fresh_blocks += fresh_blocks;
            let unused = self.held_blocks - blocks;
            self.empty_blocks += unused;
            let need = Need {
                unused,
                fresh: fresh_blocks,
            };
            self.surplus.note_nursery(need, self.paid);
        }
    }

    #[test]
    fn what_one_nursery_of_a_watch_needed_is_no_surplus() {
        let mut program = Program::new(100);
        for nursery in 0..1000 {
            program.needs(if nursery % NURSERIES == 1 { 100 } else { 10 });
        }
        assert_eq!(program.released_blocks, 0);
    }

    #[test]
    fn what_is_never_needed_goes_back_half_of_it_at_a_time() {
        let mut program = Program::new(800);
        for nursery in 1..=60 {
            program.needs(10);
            if nursery <= NURSERIES {
                assert_eq!(program.held_blocks, 800);
            }
            if nursery == NURSERIES + 1 {
                assert_eq!(program.held_blocks, 800 - 790 / 2);
            }
        }
        assert!(program.held_blocks < 10 + WORTH_BLOCKS);
        assert!(program.releases < 10, "{} releases", program.releases);
    }

    #[test]
    fn of_what_a_program_needs_in_turns_little_goes_back_in_vain() {
        for period in [5, 12, 37, 100] {
            let program = Program::in_turns(None, period);
            let times = program.released_blocks / 180;
            assert!(times <= 6, "{times} times with a period of {period}");
        }
    }

    #[test]
    fn with_a_price_no_cycle_costs_over_three_times_what_the_best_choice_does() {
        for paid in [0.01, 0.1, 0.25, 0.5] {
            for period in [3, 5, 7, 9, 12, 20, 37, 60, 100, 250, 1000] {
                let cycles = 10_000 / period;
                let kept = (10_000 - cycles) as f64 * 180.0 * paid;
                let given_back = cycles as f64 * 180.0;
                let program = Program::in_turns(Some(paid), period);
                let cost = program.fresh_blocks as f64 + program.empty_blocks as f64 * paid;
                let ratio = cost / kept.min(given_back);
                assert!(ratio < 3.05, "{ratio:.2} with {paid}, period {period}");
            }
        }
    }

    #[test]
    fn with_a_price_what_is_rarely_wanted_goes_back_each_time() {
        let program = Program::in_turns(Some(0.25), 100);
        let mean_blocks = program.empty_blocks / 10_000;
        assert!(mean_blocks < 30, "{mean_blocks} blocks are empty");
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
            for _ in 0..NURSERIES {
                let need = Need {
                    unused: 80,
                    fresh: 0,
                };
                surplus.note_nursery(need, None);
            }
            assert_eq!(surplus.due_blocks(), 40);
            surplus.put_off();
            assert_eq!(surplus.due_blocks(), 0);
        };
        watch();
        watch();
    }
}
