//! Numbers for addresses, in the order in which they are first seen.

use std::hash::{BuildHasher, RandomState};

/// A table from addresses to numbers: open addressing with linear probing, at most two
/// thirds full. It takes 8 bytes for an address, and 6 to 12 for its place in the table.
#[derive(Debug)]
pub(crate) struct Interner {
    /// The address of each number.
    addresses: Vec<u64>,
    /// Numbers plus one, 0 for an empty place; the length is a power of two.
    places: Vec<u32>,
    /// Random numbers: a dump may come from anybody, and its addresses may have been chosen
    /// to have the same home.
    secret: [u64; 2],
}

/// The most addresses that can be numbered: numbers leave room for roots, and their highest
/// bit is free for callers.
pub(crate) const NUMBERS_MAX: usize = (1 << 31) - (1 << 16);

impl Interner {
    pub(crate) fn new() -> Self {
        Self {
            addresses: Vec::new(),
            places: vec![0; 1 << 10],
            secret: [0, 1].map(|word| RandomState::new().hash_one(word)),
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

    /// The place where an address is looked for first: the upper bits of both halves of its
    /// product with the secret, combined.
    #[inline]
    fn home(&self, address: u64) -> usize {
        let product = u128::from(address ^ self.secret[0]) * u128::from(self.secret[1]);
        let hash = product as u64 ^ (product >> 64) as u64;
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
        // The old table is freed first: it is not needed to make the new one.
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

    /// 2^64 divided by the golden ratio is the usual multiplier. Its inverse turns small
    /// products into addresses that all have the first place as home.
    #[test]
    fn addresses_that_were_made_to_meet_lie_apart() {
        const USUAL: u64 = 0x9e37_79b9_7f4a_7c15;
        let inverse = (0..6).fold(USUAL, |found, _| {
            found.wrapping_mul(2u64.wrapping_sub(USUAL.wrapping_mul(found)))
        });
        assert_eq!(inverse.wrapping_mul(USUAL), 1);
        let made = (0u64..).map(|product| product.wrapping_mul(inverse));
        let interner = Interner::new();
        let homes: std::collections::HashSet<usize> = made
            .filter(|word| *word < 1 << 61)
            .take(1 << 10)
            .map(|word| interner.home(word << 3))
            .collect();
        assert!(
            homes.len() > 1 << 8,
            "1024 addresses have {} places",
            homes.len()
        );
    }
}
