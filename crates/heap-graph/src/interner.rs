//! Numbers for addresses, in the order in which they are first seen.

/// A table from addresses to numbers: open addressing with linear probing, at most two
/// thirds full. 8 bytes for an address, and 6 to 12 for its place in the table.
#[derive(Debug)]
pub(crate) struct Interner {
    /// The address of each number.
    addresses: Vec<u64>,
    /// Numbers plus one, 0 for an empty place; a power of two of them.
    places: Vec<u32>,
}

/// More objects than this cannot be numbered: numbers leave room for roots, and their
/// highest bit for those who use them.
pub(crate) const NUMBERS_MAX: usize = (1 << 31) - (1 << 16);

impl Interner {
    pub(crate) fn new() -> Self {
        Self {
            addresses: Vec::new(),
            places: vec![0; 1 << 10],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.addresses.len()
    }

    /// The number of an address; `None` when there are too many.
    #[inline]
    pub(crate) fn number(&mut self, address: u64) -> Option<u32> {
        let mask = self.places.len() - 1;
        let mut place = self.home(address);
        loop {
            match self.places[place] {
                0 => return self.add(address, place),
                taken if self.addresses[taken as usize - 1] == address => return Some(taken - 1),
                _ => place = (place + 1) & mask,
            }
        }
    }

    /// Where an address is looked for first: the upper bits of a product with a number
    /// near 2^64 divided by the golden ratio, which spreads neighbours.
    #[inline]
    fn home(&self, address: u64) -> usize {
        let hash = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (64 - self.places.len().trailing_zeros())) as usize
    }

    fn add(&mut self, address: u64, place: usize) -> Option<u32> {
        let number = self.addresses.len();
        if number >= NUMBERS_MAX {
            return None;
        }
        self.addresses.push(address);
        self.places[place] = number as u32 + 1;
        if self.addresses.len() * 3 > self.places.len() * 2 {
            self.grow();
        }
        Some(number as u32)
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.places.len() * 2;
        // The old table is not needed to make the new one.
        self.places = Vec::new();
        self.places = vec![0; size];
        for (number, &address) in self.addresses.iter().enumerate() {
            let mut place = self.home(address);
            while self.places[place] != 0 {
                place = (place + 1) & (size - 1);
            }
            self.places[place] = number as u32 + 1;
        }
    }

    /// The addresses by number; the table is dropped.
    pub(crate) fn into_addresses(self) -> Vec<u64> {
        self.addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn equal_addresses_have_equal_numbers_and_others_do_not() {
        let mut interner = Interner::new();
        let mut expected = HashMap::new();
        for step in [8, 40, 4096] {
            for index in 0..20_000u64 {
                let address = 0x7f00_0000_0000 + index * step;
                let next = expected.len() as u32;
                let number = *expected.entry(address).or_insert(next);
                assert_eq!(interner.number(address), Some(number));
            }
        }
        assert_eq!(interner.len(), expected.len());
        let addresses = interner.into_addresses();
        assert!(expected
            .iter()
            .all(|(&address, &number)| addresses[number as usize] == address));
    }
}
