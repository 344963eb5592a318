//! The place of one key in a map, whether the key is there or not.

use crate::map::WordMap;
use crate::memory::NodeSource;
use crate::tree::OutOfMemory;

/// The place of a key in a map; see [`WordMap::entry`].
#[derive(Debug)]
pub enum Entry<'a, A: NodeSource> {
    /// The key is in the map.
    Occupied(OccupiedEntry<'a, A>),
    /// The key is not in the map.
    Vacant(VacantEntry<'a, A>),
}

/// A key that is in the map.
#[derive(Debug)]
pub struct OccupiedEntry<'a, A: NodeSource> {
    pub(crate) map: &'a mut WordMap<A>,
    pub(crate) key: u64,
    pub(crate) value: *mut u64,
}

/// A key that is not in the map.
#[derive(Debug)]
pub struct VacantEntry<'a, A: NodeSource> {
    pub(crate) map: &'a mut WordMap<A>,
    pub(crate) key: u64,
}

impl<'a, A: NodeSource> Entry<'a, A> {
    /// The key the entry is for.
    pub fn key(&self) -> u64 {
        match self {
            Entry::Occupied(entry) => entry.key,
            Entry::Vacant(entry) => entry.key,
        }
    }

    /// Returns the value; inserts it first if there is none.
    pub fn or_insert(self, value: u64) -> &'a mut u64 {
        self.or_insert_with(|| value)
    }

    /// Returns the value; if there is none, inserts what `make` returns first.
    pub fn or_insert_with(self, make: impl FnOnce() -> u64) -> &'a mut u64 {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(make()),
        }
    }

    /// Returns the value; inserts 0 first if there is none.
    pub fn or_default(self) -> &'a mut u64 {
        self.or_insert(0)
    }

    /// Changes the value if there is one.
    #[must_use]
    pub fn and_modify(mut self, change: impl FnOnce(&mut u64)) -> Self {
        if let Entry::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }
}

impl<'a, A: NodeSource> OccupiedEntry<'a, A> {
    /// The key.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The value.
    pub fn get(&self) -> &u64 {
        // SAFETY: the entry borrows the map exclusively since the value was found in it.
        unsafe { &*self.value }
    }

    /// The value, mutable.
    pub fn get_mut(&mut self) -> &mut u64 {
        // SAFETY: the entry borrows the map exclusively since the value was found in it.
        unsafe { &mut *self.value }
    }

    /// The value, mutable for as long as the map is borrowed.
    pub fn into_mut(self) -> &'a mut u64 {
        // SAFETY: the entry, which ends here, borrows the map exclusively for `'a`.
        unsafe { &mut *self.value }
    }

    /// Replaces the value; returns the old one.
    pub fn insert(&mut self, value: u64) -> u64 {
        core::mem::replace(self.get_mut(), value)
    }

    /// Removes the entry from the map; returns its value.
    pub fn remove(self) -> u64 {
        let value = *self.get();
        self.map.remove(self.key);
        value
    }
}

impl<'a, A: NodeSource> VacantEntry<'a, A> {
    /// The key.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Inserts a value. Calls the global handler of allocation errors when
    /// there is no memory; see [`VacantEntry::try_insert`].
    pub fn insert(self, value: u64) -> &'a mut u64 {
        let place = self.map.place(self.key);
        *place = value;
        place
    }

    /// Inserts a value.
    ///
    /// # Errors
    /// [`OutOfMemory`]: the map is unchanged.
    pub fn try_insert(self, value: u64) -> Result<&'a mut u64, OutOfMemory> {
        let place = self.map.try_place(self.key)?;
        *place = value;
        Ok(place)
    }
}
