//! A bitmap: a bit for each of the 256 keys of a leaf of level 1.

use super::planes::{index_of, Planes, Spot, Step};
use super::shape::{bitmap_room, Shape, LISTED_MAX};
use super::view::Leaf;
use crate::node::bits;
use crate::node::edge::Edge;

#[derive(Clone, Copy)]
pub(crate) struct Bitmap<const V: usize> {
    header: *mut u8,
    n: usize,
}

impl<const V: usize> Bitmap<V> {
    #[inline(always)]
    fn words(self) -> *mut u64 {
        self.header.cast::<u64>().wrapping_add(1)
    }

    #[inline(always)]
    fn word(self, w: usize) -> u64 {
        // SAFETY: N1: a bitmap has four words.
        unsafe { *self.words().add(w & 3) }
    }

    #[inline(always)]
    fn base(self) -> u64 {
        // SAFETY: N1: the header word of a live node.
        unsafe { *self.header.cast::<u64>() & !0xff }
    }

    /// How many keys are below bit `b`, and whether the bit is set.
    #[inline(always)]
    fn rank(self, b: usize) -> (usize, bool) {
        // SAFETY: N1: a bitmap has four words.
        unsafe { bits::rank(self.words(), b) }
    }

    /// The index of `key`, which the leaf covers.
    #[inline(always)]
    pub(super) fn find(self, key: u64) -> Option<usize> {
        let (rank, hit) = self.rank((key & 0xff) as usize);
        hit.then_some(rank)
    }

    /// The bit of entry `i`.
    fn nth_bit(self, mut i: usize) -> u64 {
        for w in 0..4 {
            let mut word = self.word(w);
            let ones = word.count_ones() as usize;
            if i < ones {
                if ones == 64 {
                    return (w * 64 + i) as u64;
                }
                for _ in 0..i {
                    word &= word - 1;
                }
                return (w * 64) as u64 + u64::from(word.trailing_zeros());
            }
            i -= ones;
        }
        unreachable!("a bitmap has as many bits as its header says")
    }

    /// Copies the bits to `to`, with one of them changed.
    ///
    /// # Safety
    /// `to` must have room for four words.
    #[inline(always)]
    unsafe fn flip(self, to: Self, b: usize) {
        // SAFETY: N1: a bitmap has four words; all are read before one is written.
        unsafe {
            if self.header == to.header {
                *self.words().add(b / 64) ^= 1 << (b % 64);
                return;
            }
            let mut words = self.words().cast::<[u64; 4]>().read();
            words[b / 64] ^= 1 << (b % 64);
            to.words().cast::<[u64; 4]>().write(words);
        }
    }
}

impl<const V: usize> Leaf<V> {
    /// Writes a bitmap that covers `key`, without values.
    ///
    /// # Safety
    /// `block` must be writable for the bytes of [`Shape::bitmap`] with as many entries as
    /// `bits` has ones, at least one, and be aligned to 8.
    pub(crate) unsafe fn write_bitmap(block: *mut u8, key: u64, bits: [u64; 4]) -> Edge {
        let n = bits.iter().map(|word| word.count_ones() as usize).sum();
        let shape = Shape::bitmap(n);
        let header = block.wrapping_add(shape.before::<V>());
        // SAFETY: the caller's contract: room for the header and four words of bits after it.
        unsafe {
            header.cast::<u64>().write(shape.word(key));
            header.cast::<u64>().add(1).cast::<[u64; 4]>().write(bits);
        }
        Edge::new(shape.kind, shape.level, header)
    }

    /// Inserts `key` into a bitmap, with value 0, in the cases that are easily recognized.
    /// Returns the new entry's index (without meaning in a set); `None`, with nothing
    /// changed, in all other cases.
    ///
    /// In a set the insertion sets a bit. In a map the key must be after all others, as dense
    /// keys mostly are: then nothing has to be counted or moved.
    #[inline(always)]
    pub(crate) fn insert_in_bitmap(self, key: u64) -> Option<usize> {
        let (word, bitmap) = (self.word(), Bitmap::<V>::of(self));
        let (n, b) = (bitmap.n, (key & 0xff) as usize);
        let bits = bitmap.word(b / 64);
        let is_free = if V == 1 {
            bits >> (b % 64) == 0
        } else {
            bits >> (b % 64) & 1 == 0
        };
        if (word ^ key) >> 8 != 0 || !has_room::<V>(n) || !is_free {
            return None;
        }
        if V == 1 {
            for above in b / 64 + 1..4 {
                if bitmap.word(above) != 0 {
                    return None;
                }
            }
        }
        // SAFETY: N1: a bitmap has four words; there is room for one more value.
        unsafe {
            *bitmap.words().add(b / 64) = bits | 1 << (b % 64);
            if V == 1 {
                *self.value(n) = 0;
            }
        }
        self.set_word(word + 1);
        Some(n)
    }
}

/// Whether a bitmap of `n` keys has room for one more. A set's bitmap has room for 255 keys;
/// with the last one it becomes a full leaf.
#[inline(always)]
fn has_room<const V: usize>(n: usize) -> bool {
    const HAVE: [bool; 257] = {
        let mut have = [false; 257];
        let mut n = 0;
        while n < 257 {
            have[n] = bitmap_room(n) > n;
            n += 1;
        }
        have
    };
    if V == 1 {
        HAVE[n % 257]
    } else {
        n < 255
    }
}

impl<const V: usize> Planes<V> for Bitmap<V> {
    const ARE_LONG: bool = false;

    #[inline(always)]
    fn of(leaf: Leaf<V>) -> Self {
        Bitmap {
            header: leaf.header,
            n: usize::from(leaf.word() as u8) + 1,
        }
    }

    #[inline(always)]
    fn moved(self, header: *mut u8, _: &Shape) -> Self {
        Bitmap { header, n: self.n }
    }

    #[inline(always)]
    fn len(self) -> usize {
        self.n
    }

    #[inline(always)]
    fn spot(self, key: u64) -> Spot {
        let (rank, hit) = self.rank((key & 0xff) as usize);
        Spot::new(rank, hit)
    }

    #[inline(always)]
    fn has_room(self, _: Spot) -> bool {
        has_room::<V>(self.n)
    }

    #[inline(always)]
    fn shape_with(self, mut shape: Shape, _: Spot) -> Option<Shape> {
        shape.entries += 1;
        Some(shape)
    }

    #[inline(always)]
    fn keeps_room(self, _: usize) -> bool {
        self.n > LISTED_MAX + 1 && (V == 0 || bitmap_room(self.n - 1) == bitmap_room(self.n))
    }

    #[inline(always)]
    fn shape_without(self, mut shape: Shape, _: usize) -> Option<Shape> {
        shape.entries -= 1;
        (shape.entries > LISTED_MAX).then_some(shape)
    }

    #[inline(always)]
    fn after(self, key: u64) -> Option<(usize, u64)> {
        let b = (key & 0xff) as usize;
        let (rank, hit) = self.rank(b);
        let mut w = b / 64;
        let mut word = self.word(w) & (u64::MAX << (b % 64) << 1);
        while word == 0 {
            w += 1;
            if w == 4 {
                return None;
            }
            word = self.word(w);
        }
        let next = (w * 64) as u64 + u64::from(word.trailing_zeros());
        Some((rank + usize::from(hit), self.base() | next))
    }

    fn key(self, i: usize) -> u64 {
        self.base() | self.nth_bit(i)
    }

    fn keys(self, from: usize, keys: &mut [u64]) {
        let base = self.base();
        let mut skip = from;
        let mut k = 0;
        for w in 0..4 {
            let mut word = self.word(w);
            let ones = word.count_ones() as usize;
            if skip >= ones {
                skip -= ones;
                continue;
            }
            if word == u64::MAX {
                let mut b = skip as u64;
                while b < 64 && k < keys.len() {
                    keys[k] = base | ((w as u64) * 64 + b);
                    b += 1;
                    k += 1;
                }
                skip = 0;
                continue;
            }
            for _ in 0..skip {
                word &= word - 1;
            }
            skip = 0;
            while word != 0 && k < keys.len() {
                keys[k] = base | ((w * 64) as u64 + u64::from(word.trailing_zeros()));
                word &= word - 1;
                k += 1;
            }
        }
    }

    unsafe fn write(self, keys: &[u64]) {
        let mut bits = [0u64; 4];
        for key in keys {
            let b = (key & 0xff) as usize;
            bits[b / 64] |= 1 << (b % 64);
        }
        // SAFETY: the leaf is laid out for keys in a bitmap: four words.
        unsafe { self.words().cast::<[u64; 4]>().write(bits) };
    }

    #[inline(always)]
    unsafe fn open(self, to: Self, _: Spot, key: u64) {
        // SAFETY: `to` is laid out for a bitmap of these keys.
        unsafe { self.flip(to, (key & 0xff) as usize) };
    }

    #[inline(always)]
    unsafe fn close(self, to: Self, _: usize, key: u64) {
        // SAFETY: `to` is laid out for a bitmap of these keys.
        unsafe { self.flip(to, (key & 0xff) as usize) };
    }

    #[inline(always)]
    fn step(self, hint: usize, key: u64, is_last: bool) -> Step {
        let (b, i) = ((key & 0xff) as usize, index_of(hint));
        if key & !0xff != self.base() {
            return Step::Elsewhere;
        }
        // In a full bitmap nothing has to be counted.
        let rank = if self.n == 256 {
            (b, true)
        } else {
            self.rank(b)
        };
        if rank != (i, true) {
            return Step::Elsewhere;
        }
        if is_last {
            return Step::Behind;
        }
        // Where keys are dense, the next key mostly exists: here `key` is not the last, so
        // `b` is below 255.
        if self.word((b + 1) / 64) >> ((b + 1) % 64) & 1 != 0 {
            return Step::To(key + 1, i + 1);
        }
        self.after(key)
            .map_or(Step::Behind, |(_, next)| Step::To(next, i + 1))
    }
}
