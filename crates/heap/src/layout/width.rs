//! Cell widths: which widths exist and which one serves a size.

use super::BLOCK_BYTES;

/// Widths of object cells in bytes. By 8 up to 96, where most objects are and
/// a word more or less counts; then four steps per doubling, so that at most a
/// fifth of a cell is left over.
pub const WIDTHS: [u16; 24] = [
    32, 40, 48, 56, 64, 72, 80, 88, 96, 112, 128, 144, 160, 192, 224, 256, 320, 384, 448, 512, 640,
    768, 896, 1024,
];

/// Number of widths.
pub const WIDTH_COUNT: usize = WIDTHS.len();

/// The widest cell in bytes.
pub const WIDTH_MAX_BYTES: usize = WIDTHS[WIDTH_COUNT - 1] as usize;
/// Bytes that every cell has.
pub const WIDTH_MIN_BYTES: usize = WIDTHS[0] as usize;

/// Which of [`WIDTHS`] a cell has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WidthIndex(u8);

/// The index of the width that serves a size, by the size in words, rounded up.
pub const WIDTH_OF_WORDS: [u8; WIDTH_MAX_BYTES / 8 + 1] = index_by_size(&WIDTHS, 8);

/// For each number of units up to the last of the ascending `sizes`: the index of the first size
/// that holds as many.
pub(super) const fn index_by_size<const N: usize>(sizes: &[u16], unit_bytes: usize) -> [u8; N] {
    let mut table = [0; N];
    let (mut units, mut index) = (0, 0);
    while units < N {
        while (sizes[index] as usize) < units * unit_bytes {
            index += 1;
        }
        table[units] = index as u8;
        units += 1;
    }
    table
}

/// `ceil(2^32 / width)`: multiplying an offset below 2^16 by it and shifting
/// by 32 divides exactly, since `2^16 * width < 2^32` bounds the error below 1.
const RECIPROCALS: [u64; WIDTH_COUNT] = {
    let mut table = [0; WIDTH_COUNT];
    let mut index = 0;
    while index < WIDTH_COUNT {
        table[index] = (1u64 << 32).div_ceil(WIDTHS[index] as u64);
        index += 1;
    }
    table
};

impl WidthIndex {
    /// The narrowest width.
    pub const NARROWEST: Self = Self(0);

    /// The narrowest width that holds `size_bytes`, or `None` above
    /// [`WIDTH_MAX_BYTES`].
    #[inline(always)]
    pub const fn for_size(size_bytes: usize) -> Option<Self> {
        if size_bytes > WIDTH_MAX_BYTES {
            return None;
        }
        // Cheaper than `div_ceil`, which must not overflow.
        Some(Self(WIDTH_OF_WORDS[(size_bytes + 7) >> 3]))
    }

    /// The `index`-th width.
    ///
    /// # Panics
    /// When `index` is not below [`WIDTH_COUNT`].
    #[inline(always)]
    pub fn new(index: usize) -> Self {
        assert!(index < WIDTH_COUNT);
        Self(index as u8)
    }

    /// Position in [`WIDTHS`].
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Bytes of a cell.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        WIDTHS[self.0 as usize] as usize
    }

    /// Cells that fit in a block.
    #[inline(always)]
    pub fn cells_per_block(self) -> usize {
        BLOCK_BYTES / self.bytes()
    }

    /// Whether a cell of this width starts `offset` bytes into its block.
    #[inline(always)]
    pub fn is_cell_start(self, offset: usize) -> bool {
        self.cell_start(offset) == Some(offset)
    }

    /// Where the cell that contains `offset` starts; `None` behind the last cell.
    #[inline(always)]
    pub(crate) fn cell_start(self, offset: usize) -> Option<usize> {
        debug_assert!(offset < BLOCK_BYTES);
        let cell = (offset as u64 * RECIPROCALS[self.0 as usize]) >> 32;
        let start = cell as usize * self.bytes();
        (start + self.bytes() <= BLOCK_BYTES).then_some(start)
    }

    /// All widths, narrowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..WIDTH_COUNT as u8).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_narrowest_width_that_holds_it() {
        for size in 0..=WIDTH_MAX_BYTES {
            let chosen = WidthIndex::for_size(size).unwrap();
            assert!(chosen.bytes() >= size);
            if chosen.index() > 0 {
                assert!(WidthIndex::new(chosen.index() - 1).bytes() < size);
            }
        }
        assert_eq!(WidthIndex::for_size(WIDTH_MAX_BYTES + 1), None);
    }

    #[test]
    fn cell_starts_are_exactly_the_multiples_that_fit() {
        for width in WidthIndex::all() {
            // The interpreter is too slow for all of them.
            let step = if cfg!(miri) { 199 } else { 1 };
            for offset in (0..BLOCK_BYTES).step_by(step) {
                let expected = offset % width.bytes() == 0 && offset + width.bytes() <= BLOCK_BYTES;
                assert_eq!(width.is_cell_start(offset), expected, "{width:?} {offset}");
                let start = offset - offset % width.bytes();
                let is_whole = start + width.bytes() <= BLOCK_BYTES;
                assert_eq!(width.cell_start(offset), is_whole.then_some(start));
            }
        }
    }

    #[test]
    fn widths_are_whole_words_and_ascend() {
        assert!(WIDTHS.iter().all(|width| width % 8 == 0));
        assert!(WIDTHS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
