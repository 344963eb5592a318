//! Where a walk by keys has got to, as a guess.
//!
//! Who walks by asking again and again for the entry after a key keeps the key
//! and nothing else, so each step must search, and cannot begin before the
//! step before it has found its key. A guess at the leaf and the index breaks
//! that chain: it is checked against what the search finds, and the processor,
//! which predicts that checks succeed, goes on meanwhile.

use crate::node::bits::apart;
use crate::node::edge::Edge;
use crate::path::Position;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Where the last step of a walk ended, for [`WordMap::after_step`](crate::WordMap::after_step).
///
/// It is only a guess: nothing goes wrong when it is stale, is shared between
/// walks or threads, or belongs to another map; the step takes longer.
///
/// # Examples
/// ```
/// use ashlar_wordmap::{LastStep, WordMap};
///
/// let map: WordMap = (0..100).map(|i| (i * 7, i)).collect();
/// let last = LastStep::new();
/// let (mut key, mut steps) = (0, 0);
/// while let Some((next, _)) = map.after_step(key, &last) {
///     (key, steps) = (next, steps + 1);
/// }
/// assert_eq!((key, steps), (693, 99));
/// ```
#[derive(Debug, Default)]
pub struct LastStep {
    /// The leaf's edge as a word. Never followed: see [`LastStep::guess`].
    leaf: AtomicUsize,
    index: AtomicUsize,
}

impl LastStep {
    /// No guess yet.
    pub const fn new() -> LastStep {
        LastStep {
            leaf: AtomicUsize::new(0),
            index: AtomicUsize::new(0),
        }
    }

    /// The index guessed, when the leaf guessed is `leaf`; and that leaf, by an
    /// edge that is computed from the guess.
    #[inline(always)]
    pub(crate) fn guess(&self, leaf: Edge) -> Option<(Edge, usize)> {
        let guessed = self.leaf.load(Ordering::Relaxed);
        let same = apart(guessed);
        (guessed == leaf.word()).then(|| (leaf.with_word(same), self.index.load(Ordering::Relaxed)))
    }

    #[inline(always)]
    pub(crate) fn note(&self, position: Position) {
        self.leaf.store(position.leaf.word(), Ordering::Relaxed);
        self.note_index(position.index);
    }

    /// As [`LastStep::note`] in the same leaf.
    #[inline(always)]
    pub(crate) fn note_index(&self, index: usize) {
        self.index.store(index, Ordering::Relaxed);
    }
}
