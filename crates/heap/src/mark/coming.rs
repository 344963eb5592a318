//! Grey cells on their way to the processor's cache.
//!
//! The first look at a cell waits for memory, half of the time that marking takes.
//! So the next few cells are fetched ahead, and wait in a ring meanwhile: those
//! that are traced next are those that were taken from the stack some cells ago.

/// Cells that are fetched ahead.
pub(crate) const COMING_CELLS: usize = 8;

/// The next cells to trace, first in, first out.
#[derive(Debug)]
pub(crate) struct Coming {
    words: [usize; COMING_CELLS],
    first: usize,
    count: usize,
}

impl Coming {
    pub(crate) const fn new() -> Self {
        Self {
            words: [0; COMING_CELLS],
            first: 0,
            count: 0,
        }
    }

    /// The next cell, after having taken as many with `pop` as there is room for.
    #[inline(always)]
    pub(crate) fn next(&mut self, mut pop: impl FnMut() -> Option<usize>) -> Option<usize> {
        while self.count < COMING_CELLS {
            let Some(word) = pop() else { break };
            prefetch(word);
            self.words[(self.first + self.count) % COMING_CELLS] = word;
            self.count += 1;
        }
        self.count = self.count.checked_sub(1)?;
        let word = self.words[self.first];
        self.first = (self.first + 1) % COMING_CELLS;
        Some(word)
    }

    /// Whether none is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The cells, the next one first.
    pub(crate) fn words(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.count).map(|index| self.words[(self.first + index) % COMING_CELLS])
    }
}

/// Has the processor fetch what is at `address` into its cache.
#[inline(always)]
fn prefetch(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: any address may be prefetched.
    unsafe {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_comes_once_after_those_that_were_taken_before() {
        let mut stack: Vec<usize> = (1..=20).collect();
        let mut coming = Coming::new();
        let mut order = Vec::new();
        while let Some(word) = coming.next(|| stack.pop()) {
            order.push(word);
            let waiting: Vec<_> = coming.words().collect();
            assert!(waiting.len() < COMING_CELLS && !waiting.contains(&word));
        }
        assert!(coming.is_empty());
        let expected: Vec<_> = (1..=20).rev().collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn what_is_pushed_meanwhile_comes_after_what_is_on_its_way() {
        let mut stack = vec![1, 2, 3];
        let mut coming = Coming::new();
        assert_eq!(coming.next(|| stack.pop()), Some(3));
        stack.push(9);
        assert_eq!(coming.next(|| stack.pop()), Some(2));
        assert_eq!(coming.next(|| stack.pop()), Some(1));
        assert_eq!(coming.next(|| stack.pop()), Some(9));
        assert_eq!(coming.next(|| stack.pop()), None);
    }
}
