//! A short queue of a fixed length, for what waits while memory is fetched.

/// A few items, first in, first out.
#[derive(Debug)]
pub(super) struct Ring<T, const PLACES: usize> {
    places: [T; PLACES],
    /// How many have been taken out, so that the oldest is at this number modulo `PLACES`.
    taken: usize,
    count: usize,
}

impl<T: Copy, const PLACES: usize> Ring<T, PLACES> {
    /// An empty one, with `filler` where no item is.
    pub(super) const fn new(filler: T) -> Self {
        assert!(PLACES.is_power_of_two());
        Self {
            places: [filler; PLACES],
            taken: 0,
            count: 0,
        }
    }

    /// Puts one in, and takes out the oldest if there was no place left.
    #[inline(always)]
    pub(super) fn exchange(&mut self, item: T) -> Option<T> {
        if self.count < PLACES {
            self.fill(item);
            return None;
        }
        let oldest = std::mem::replace(&mut self.places[self.taken % PLACES], item);
        self.taken = self.taken.wrapping_add(1);
        Some(oldest)
    }

    /// Puts one into a place that is left. Not inlined: marking nearly always finds the ring
    /// full.
    #[inline(never)]
    fn fill(&mut self, item: T) {
        self.places[self.taken.wrapping_add(self.count) % PLACES] = item;
        self.count += 1;
    }

    /// Takes out the oldest.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<T> {
        self.count = self.count.checked_sub(1)?;
        let oldest = self.places[self.taken % PLACES];
        self.taken = self.taken.wrapping_add(1);
        Some(oldest)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The items, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.count).map(|index| self.places[self.taken.wrapping_add(index) % PLACES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_comes_out_once_after_those_that_were_put_in_before() {
        let mut ring = Ring::<usize, 16>::new(usize::MAX);
        let (mut order, mut put) = (Vec::new(), 0);
        // Taken at any moment, also when there are few, or none.
        for (more, is_emptied) in [(40, true), (3, true), (0, true), (16, false)] {
            for _ in 0..more {
                order.extend(ring.exchange(put));
                put += 1;
                let waiting: Vec<_> = ring.iter().collect();
                assert!(waiting.len() <= 16);
                assert!(waiting.into_iter().eq(order.len()..put));
            }
            while is_emptied && !ring.is_empty() {
                order.extend(ring.take());
            }
        }
        assert_eq!(ring.iter().count(), 16);
        order.extend(std::iter::from_fn(|| ring.take()));
        assert!(ring.is_empty());
        assert!(order.into_iter().eq(0..59));
    }
}
