//! A position in a map that can be moved in both directions.

use crate::node::edge::Edge;
use crate::path::{
    leaf, leaf_key, leaf_len, next_leaf, nth, previous_leaf, seek_backward, seek_forward, Path,
    Position,
};
use core::fmt;
use core::marker::PhantomData;

/// A position in a map: at an entry, or past either end.
///
/// A step to the neighbouring entry does not search from the root again.
///
/// # Examples
/// ```
/// use ashlar_wordmap::WordMap;
///
/// let map: WordMap = [(10, 1), (20, 2), (30, 3)].into_iter().collect();
/// let mut cursor = map.cursor();
/// cursor.seek(15);
/// assert_eq!(cursor.entry(), Some((20, &2)));
/// cursor.move_next();
/// assert_eq!(cursor.key(), Some(30));
/// cursor.move_next();
/// assert_eq!(cursor.key(), None);
/// ```
#[derive(Clone)]
pub struct Cursor<'a> {
    root: Edge,
    path: Path,
    position: Option<Position>,
    borrow: PhantomData<&'a u64>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(root: Edge) -> Cursor<'a> {
        Cursor {
            root,
            path: Path::new(),
            position: None,
            borrow: PhantomData,
        }
    }

    /// The key at the cursor; `None` past the ends.
    pub fn key(&self) -> Option<u64> {
        self.position.map(|p| leaf_key::<1>(p.leaf, p.index))
    }

    /// The value at the cursor; `None` past the ends.
    pub fn value(&self) -> Option<&'a u64> {
        self.position.map(|p| {
            // SAFETY: the cursor borrows the map, and its position is an entry of it.
            unsafe { &*leaf::<1>(p.leaf).value(p.index) }
        })
    }

    /// Key and value at the cursor; `None` past the ends.
    pub fn entry(&self) -> Option<(u64, &'a u64)> {
        Some((self.key()?, self.value()?))
    }

    /// Goes to the first entry at or after `key`.
    pub fn seek(&mut self, key: u64) {
        self.position = seek_forward::<1>(self.root, key, &mut self.path);
    }

    /// Goes to the last entry at or before `key`.
    pub fn seek_back(&mut self, key: u64) {
        self.position = seek_backward::<1>(self.root, key, &mut self.path);
    }

    /// Goes to the entry with `nth_entry` entries before it.
    pub fn seek_nth(&mut self, nth_entry: u64) {
        self.position = nth::<1>(self.root, nth_entry, &mut self.path);
    }

    /// Goes to the next entry. After the last one it goes to no entry, and stays there
    /// until a `seek` method is called.
    pub fn move_next(&mut self) {
        if let Some(p) = &mut self.position {
            p.index += 1;
            if p.index == leaf_len::<1>(p.leaf) {
                self.position = next_leaf(&mut self.path);
            }
        }
    }

    /// Goes to the previous entry; the mirror image of [`Cursor::move_next`].
    pub fn move_previous(&mut self) {
        if let Some(p) = &mut self.position {
            match p.index.checked_sub(1) {
                Some(index) => p.index = index,
                None => self.position = previous_leaf::<1>(&mut self.path),
            }
        }
    }
}

impl fmt::Debug for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cursor").field(&self.entry()).finish()
    }
}
