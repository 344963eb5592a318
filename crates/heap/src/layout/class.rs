//! Size classes of payloads.

use super::width::index_by_size;
use super::BLOCK_BYTES;

/// Sizes in bytes. By 16 up to 512; above that a block is cut into a whole
/// number of pieces (eight sizes per doubling up to 1 KiB, four above), so that
/// nothing is left over at its end. Every power of two is among them, which is
/// what aligned requests need.
pub(crate) const CLASSES: [u16; CLASS_COUNT] = {
    let mut table = [0; CLASS_COUNT];
    let mut index = 0;
    while index < BY_16_MAX_BYTES / 16 {
        table[index] = 16 * (index as u16 + 1);
        index += 1;
    }
    let mut pieces = BLOCK_BYTES / BY_16_MAX_BYTES;
    while pieces > 2 {
        let octave = 1usize << (usize::BITS - 1 - (pieces - 1).leading_zeros());
        let steps = if octave >= 64 { 8 } else { 4 };
        let step = if octave >= steps { octave / steps } else { 1 };
        pieces -= step;
        table[index] = ((BLOCK_BYTES / pieces) & !15) as u16;
        index += 1;
    }
    assert!(index == CLASS_COUNT);
    table
};

/// Up to this size there is a class for each multiple of 16 bytes. A VM has thousands of
/// smaller payloads: the records of its code.
const BY_16_MAX_BYTES: usize = 512;

/// Number of classes.
pub const CLASS_COUNT: usize = 58;

/// The largest size a class serves; larger payloads get blocks of their own.
pub const CLASS_MAX_BYTES: usize = CLASSES[CLASS_COUNT - 1] as usize;

/// Alignment of every payload.
pub(crate) const PAYLOAD_ALIGN: usize = 16;

/// Which of [`CLASSES`] a payload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassIndex(u8);

/// The index of the class that serves a size, by the size in units of 16 bytes, rounded up.
pub const CLASS_OF_UNITS: [u8; CLASS_MAX_BYTES / 16 + 1] = index_by_size(&CLASSES, 16);

impl ClassIndex {
    /// The smallest class that holds `size_bytes`, or `None` above
    /// [`CLASS_MAX_BYTES`].
    #[inline(always)]
    pub const fn for_size(size_bytes: usize) -> Option<Self> {
        if size_bytes > CLASS_MAX_BYTES {
            return None;
        }
        // Cheaper than `div_ceil`, which must not overflow.
        Some(Self(CLASS_OF_UNITS[(size_bytes + 15) >> 4]))
    }

    /// The `index`-th class.
    ///
    /// # Panics
    /// When `index` is not below [`CLASS_COUNT`].
    #[inline(always)]
    pub fn new(index: usize) -> Self {
        assert!(index < CLASS_COUNT, "{index} is no class of payloads");
        Self(index as u8)
    }

    /// Position in [`CLASSES`]; below [`CLASS_COUNT`].
    #[inline(always)]
    pub const fn index(self) -> usize {
        let index = self.0 as usize;
        // SAFETY: `new` asserts it, `all` stays below it, `CLASS_OF_UNITS` has positions in
        // `CLASSES`, and `aligned_to` ends at the last position at the latest.
        unsafe { std::hint::assert_unchecked(index < CLASS_COUNT) };
        index
    }

    /// Bytes of a piece.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        CLASSES[self.index()] as usize
    }

    /// Pieces in a block.
    #[inline(always)]
    pub fn pieces_per_block(self) -> usize {
        BLOCK_BYTES / self.bytes()
    }

    /// The smallest class from this one on whose size is a multiple of `align`,
    /// a power of two of at most [`CLASS_MAX_BYTES`].
    pub(crate) fn aligned_to(self, align: usize) -> Self {
        let mut class = self;
        // The size of the largest class is a power of two, so the loop ends there at the latest.
        while class.bytes() % align != 0 {
            class.0 += 1;
        }
        class
    }

    /// All classes, smallest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CLASS_COUNT as u8).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interpreter is too slow for every size.
    const STEP: usize = if cfg!(miri) { 61 } else { 1 };

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for size in (0..=CLASS_MAX_BYTES).step_by(STEP) {
            let class = ClassIndex::for_size(size).unwrap();
            assert!(class.bytes() >= size);
            if class.index() > 0 {
                assert!(ClassIndex::new(class.index() - 1).bytes() < size);
            }
        }
        assert_eq!(ClassIndex::for_size(CLASS_MAX_BYTES + 1), None);
    }

    #[test]
    fn classes_ascend_keep_alignment_and_contain_the_powers_of_two() {
        assert!(
            CLASSES.windows(2).all(|pair| pair[0] < pair[1]),
            "{CLASSES:?}"
        );
        assert!(CLASSES.iter().all(|size| size % 16 == 0));
        for shift in 4..=15 {
            assert!(CLASSES.contains(&(1 << shift)), "{}", 1 << shift);
        }
        assert_eq!(CLASS_MAX_BYTES, 32768);
    }

    #[test]
    fn every_alignment_finds_a_class_at_most_twice_as_large_as_needed() {
        for shift in 4..=15 {
            let align = 1 << shift;
            for size in (align..=CLASS_MAX_BYTES).step_by(16 * STEP) {
                let class = ClassIndex::for_size(size).unwrap().aligned_to(align);
                assert!(class.bytes() % align == 0 && class.bytes() >= size);
                assert!(class.bytes() <= size.next_power_of_two());
            }
        }
    }

    #[test]
    fn up_to_16_kib_a_piece_is_at_most_a_third_larger_than_asked_for() {
        for size in (64..=16 * 1024).step_by(STEP) {
            let class = ClassIndex::for_size(size).unwrap();
            assert!(class.bytes() * 3 <= size * 4, "{size} -> {}", class.bytes());
        }
    }
}
