//! How many empty blocks the program does not need, and how many of them go back to the system
//! now: arithmetic only.
//!
//! An empty block that nursery after nursery leaves alone is memory for nothing. A page that
//! goes back and is wanted again costs far more than one that is kept. So an empty block pays
//! rent, as garbage does (`pace/rent.rs`): what its memory is worth for the CPU time for which it
//! has stayed. Its price is what the system takes to provide its pages anew.
//!
//! How long to wait for the program to want its blocks again depends on the program. So several
//! watchers play the same game beside each other, each with a patience of its own: a watcher looks
//! at the nurseries of a watch, and when the watch is over it gives back what none of them used. A
//! watcher's losses are the rent of the blocks that it keeps empty, and the price of those that it
//! gave back and the program wants again. The heap follows the watcher with the least losses of
//! late. The idea is that of Helmbold, Long and Sherrod ("A Dynamic Disk Spin-Down Technique for
//! Mobile Computing", MobiCom 1996), whose disk learns when to stop spinning.
//!
//! The watchers need no memory of the system and no CPU time to speak of: what they count follows
//! from how many blocks were in use.

use super::blocks::Need;

/// The part of the price that an empty block pays in a nursery while no cost is known.
const UNKNOWN_PAID: f64 = 1.0 / 64.0;
/// How often an empty block pays its price in a watch, for each watcher. The first watcher is the
/// chosen one while nothing has been learnt.
const PATIENCES: [f64; 6] = [1.0, 0.5, 2.0, 0.25, 4.0, 0.0];
/// The losses, in prices of a block, by which each watcher trails the one before it at the
/// beginning.
const DOUBT: f64 = 8.0;
/// Another watcher is chosen when its losses are less than this part of the chosen one's.
const CLEARLY_LESS: f64 = 7.0 / 8.0;
/// How often an empty block pays its price until losses count about a third of what they did.
const REMEMBERED: f64 = 16.0;
/// The fewest blocks that are worth giving back to the system (256 KiB).
const WORTH_BLOCKS: usize = 4;

/// The part of old losses that still counts after `age`: about e to the power of minus `age`. The C library's `exp` would
/// bring its tables and its code into the memory of each small process.
fn kept_after(age: f64) -> f64 {
    1.0 / (1.0 + age * (1.0 + age / 2.0))
}

/// What would have become of the empty blocks with one patience.
#[derive(Clone, Copy, Debug)]
struct Watcher {
    /// How often an empty block pays its price in a watch.
    patience: f64,
    /// The same since this watch began.
    paid: f64,
    /// Blocks with memory, in use or empty.
    blocks: usize,
    /// Empty blocks that no nursery of this watch used.
    unused_blocks: usize,
    /// Rent and prices, in prices of a block. What is long ago counts less.
    losses: f64,
}

impl Watcher {
    /// A nursery is over, which needed `need`. An empty block has paid the part `paid` of its price
    /// in the meantime.
    fn note_nursery(&mut self, need: &Need, paid: f64) {
        let fresh_blocks = need.used.saturating_sub(self.blocks);
        self.blocks = self.blocks.max(need.used);
        let unused_blocks = self.blocks - need.used;
        self.losses = self.losses * kept_after(paid / REMEMBERED)
            + fresh_blocks as f64
            + unused_blocks as f64 * paid;
        self.unused_blocks = self.unused_blocks.min(unused_blocks);
        self.paid += paid;
        if self.paid >= self.patience {
            if self.unused_blocks >= WORTH_BLOCKS {
                self.blocks -= self.unused_blocks;
            }
            self.paid = 0.0;
            self.unused_blocks = usize::MAX;
        }
        // Nobody pays for what has gone in another way.
        let left_blocks = self.blocks.saturating_sub(need.gone);
        self.blocks = left_blocks.max(need.in_use.min(self.blocks));
    }
}

/// The empty blocks that nobody needs.
#[derive(Debug)]
pub(crate) struct Surplus {
    watchers: [Watcher; PATIENCES.len()],
    /// The index of the watcher whose choice is followed.
    chosen: usize,
    /// Blocks that are still to go back.
    due_blocks: usize,
    /// How much of its price an empty block is still to pay before blocks go back again, because
    /// the system refused.
    put_off: f64,
}

impl Default for Surplus {
    fn default() -> Self {
        let mut rank = 0.0;
        let watchers = PATIENCES.map(|patience| {
            let losses = rank * DOUBT;
            rank += 1.0;
            Watcher {
                patience,
                paid: 0.0,
                blocks: 0,
                unused_blocks: usize::MAX,
                losses,
            }
        });
        Self {
            watchers,
            chosen: 0,
            due_blocks: 0,
            put_off: 0.0,
        }
    }
}

impl Surplus {
    /// A nursery is over, which needed `need`. An empty block has paid the part `paid` of the
    /// price of its pages in the meantime; `None` while no cost is known.
    pub(crate) fn note_nursery(&mut self, need: Need, paid: Option<f64>) {
        let paid = paid.unwrap_or(UNKNOWN_PAID);
        for watcher in &mut self.watchers {
            watcher.note_nursery(&need, paid);
        }
        self.choose();
        self.put_off = (self.put_off - paid).max(0.0);
        let surplus_blocks = (need.in_use + need.held).saturating_sub(self.chosen().blocks);
        let is_due = surplus_blocks >= WORTH_BLOCKS && self.put_off == 0.0;
        self.due_blocks = match is_due {
            true => surplus_blocks.min(need.unused),
            false => 0,
        };
    }

    fn choose(&mut self) {
        let losses = |index: usize| self.watchers[index].losses;
        let best =
            (0..PATIENCES.len()).min_by(|&one, &other| losses(one).total_cmp(&losses(other)));
        if let Some(best) = best.filter(|&best| losses(best) < losses(self.chosen) * CLEARLY_LESS) {
            self.chosen = best;
        }
    }

    fn chosen(&self) -> &Watcher {
        &self.watchers[self.chosen]
    }

    /// Blocks that are to go back to the system now.
    pub(crate) fn due_blocks(&self) -> usize {
        self.due_blocks
    }

    /// `blocks` empty blocks hold no memory any more.
    pub(crate) fn note_gone(&mut self, blocks: usize) {
        self.due_blocks = self.due_blocks.saturating_sub(blocks);
    }

    /// Nothing goes back until an empty block has paid its price once more, because the system
    /// refuses or no block was found.
    pub(crate) fn put_off(&mut self) {
        self.due_blocks = 0;
        self.put_off = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose heap has `held_blocks` with memory, and what becomes of them.
    struct Program {
        surplus: Surplus,
        /// What a block pays in a nursery.
        paid: Option<f64>,
        held_blocks: usize,
        in_use: usize,
        released_blocks: usize,
        releases: usize,
        /// Blocks that were provided anew, and the rent of those that were empty, in prices.
        fresh_blocks: usize,
        rent: f64,
    }

    impl Program {
        fn new(held_blocks: usize, paid: Option<f64>) -> Self {
            Self {
                surplus: Surplus::default(),
                paid,
                held_blocks,
                in_use: 0,
                released_blocks: 0,
                releases: 0,
                fresh_blocks: 0,
                rent: 0.0,
            }
        }

        fn needs(&mut self, blocks: usize) {
            let due_blocks = self.surplus.due_blocks();
            if due_blocks > 0 {
                assert!(due_blocks >= WORTH_BLOCKS && due_blocks <= self.held_blocks);
                self.held_blocks -= due_blocks;
                self.released_blocks += due_blocks;
                self.releases += 1;
                self.surplus.note_gone(due_blocks);
            }
            let fresh_blocks = blocks.saturating_sub(self.held_blocks);
            self.held_blocks += fresh_blocks;
            self.fresh_blocks += fresh_blocks;
            let unused = self.held_blocks - blocks;
            self.rent += unused as f64 * self.paid.unwrap_or(UNKNOWN_PAID);
            // What was in use in a nursery is in use until the collection behind it has been swept.
            let before = std::mem::replace(&mut self.in_use, blocks);
            let used = blocks.max(before.min(self.held_blocks));
            self.note(Need {
                used,
                unused: self.held_blocks - used,
                gone: 0,
                in_use: blocks,
                held: unused,
            });
        }

        fn note(&mut self, need: Need) {
            self.surplus.note_nursery(need, self.paid);
        }

        fn losses(&self) -> f64 {
            self.fresh_blocks as f64 + self.rent
        }
    }

    /// A program that needs 20 blocks, and so many more in the nurseries that `has_burst` names.
    fn in_turns(paid: f64, more: usize, mut has_burst: impl FnMut(usize) -> bool) -> Program {
        let mut program = Program::new(20 + more, Some(paid));
        for nursery in 0..NURSERIES {
            program.needs(if has_burst(nursery) { 20 + more } else { 20 });
        }
        program
    }

    const NURSERIES: usize = 10_000;
    const MORE: usize = 180;

    #[test]
    fn what_one_nursery_of_a_watch_needed_is_no_surplus() {
        let mut program = Program::new(100, Some(0.125));
        for nursery in 0..1000 {
            program.needs(if nursery % 4 == 0 { 100 } else { 10 });
        }
        assert_eq!(program.released_blocks, 0);
    }

    #[test]
    fn what_is_never_needed_goes_back_before_it_has_paid_two_prices() {
        for paid in [0.001, 0.01, 0.125, 0.5, 2.0] {
            let mut program = Program::new(800, Some(paid));
            program.needs(800);
            for _ in 0..2000 {
                program.needs(10);
            }
            assert_eq!((program.held_blocks, program.releases), (10, 1));
            // It is seen to be empty a nursery later.
            assert!(program.rent < 790.0 * (2.0 + 2.0 * paid), "{paid}");
        }
    }

    #[test]
    fn fewer_blocks_than_are_worth_a_call_stay() {
        let mut program = Program::new(10 + WORTH_BLOCKS - 1, None);
        program.needs(10 + WORTH_BLOCKS - 1);
        (0..1000).for_each(|_| program.needs(10));
        assert_eq!(program.released_blocks, 0);
    }

    /// The losses of a program over those of the better of keeping all and giving all back after each
    /// burst; `bursts` do not follow each other.
    fn over_the_better(program: &Program, paid: f64, more: usize, bursts: f64) -> f64 {
        let kept = (NURSERIES as f64 - bursts) * more as f64 * paid;
        let given_back = bursts * more as f64;
        program.losses() / kept.min(given_back)
    }

    #[test]
    fn a_cycle_costs_at_most_a_little_more_than_the_better_of_keeping_and_giving_back() {
        for more in [8, 180] {
            for paid in [0.01, 0.1, 0.25, 0.5, 0.9] {
                for period in [3, 5, 7, 9, 12, 20, 37, 60, 100, 250, 1000] {
                    let program = in_turns(paid, more, |nursery| nursery % period == 0);
                    let bursts = (NURSERIES / period) as f64;
                    let ratio = over_the_better(&program, paid, more, bursts);
                    // A burst is seen to be over a nursery later, and small ones are learnt slowly.
                    let limit = (1.1 + 2.0 * paid).max(1.4);
                    assert!(ratio < limit, "{ratio:.2}: {more}, {paid}, {period}");
                }
            }
        }
    }

    #[test]
    fn bursts_that_come_at_random_cost_about_what_the_better_of_both_does() {
        for mean_gap in [2, 5, 10, 20, 40, 100, 300] {
            let mut random = 88172645463325252_u64;
            let paid = 0.1;
            let program = in_turns(paid, MORE, |_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % mean_gap == 0
            });
            // Of neighbouring bursts only the first needs blocks anew.
            let bursts = NURSERIES as f64 / mean_gap as f64;
            let bursts = bursts * (1.0 - 1.0 / mean_gap as f64);
            let ratio = over_the_better(&program, paid, MORE, bursts);
            assert!(ratio < 1.5, "{ratio:.2} with a mean gap of {mean_gap}");
        }
    }

    #[test]
    fn another_phase_of_the_program_is_learnt_within_a_few_bursts() {
        // Bursts that come every tenth of a price, then every ten prices.
        let mut program = in_turns(0.05, MORE, |nursery| nursery % 2 == 0);
        let before = program.losses();
        for nursery in 0..10 * 200 {
            program.needs(if nursery % 200 == 0 { 20 + MORE } else { 20 });
        }
        let ratio = (program.losses() - before) / (10 * MORE) as f64;
        assert!(ratio < 1.6, "{ratio:.2}");
    }

    #[test]
    fn nobody_pays_for_blocks_that_have_gone_in_another_way() {
        let mut program = Program::new(20, Some(0.25));
        program.needs(20);
        // A span of a gigabyte that gives its pages back when it is freed.
        let span_blocks = 16 << 10;
        program.note(Need {
            used: 20 + span_blocks,
            unused: 0,
            gone: 0,
            in_use: 20 + span_blocks,
            held: 0,
        });
        program.note(Need {
            used: 20 + span_blocks,
            unused: 0,
            gone: span_blocks,
            in_use: 20,
            held: 0,
        });
        for watcher in &program.surplus.watchers {
            assert_eq!(watcher.blocks, 20);
        }
        program.needs(20);
        assert_eq!(program.surplus.due_blocks(), 0);
        assert_eq!(program.surplus.chosen, 0);
    }

    #[test]
    fn a_refusal_puts_it_off_until_the_blocks_have_paid_their_price_again() {
        let mut surplus = Surplus::default();
        let note = |surplus: &mut Surplus, used| {
            let need = Need {
                used,
                unused: 100 - used,
                gone: 0,
                in_use: used,
                held: 100 - used,
            };
            surplus.note_nursery(need, Some(0.125));
        };
        note(&mut surplus, 100);
        (0..16).for_each(|_| note(&mut surplus, 20));
        assert_eq!(surplus.due_blocks(), 80);
        surplus.put_off();
        for _ in 0..7 {
            note(&mut surplus, 20);
            assert_eq!(surplus.due_blocks(), 0);
        }
        note(&mut surplus, 20);
        assert_eq!(surplus.due_blocks(), 80);
    }
}
