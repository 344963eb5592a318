//! Sorted runs of small unsigned integers ("planes") inside a node, and searches in them.
//!
//! A plane always has at least 8 readable bytes of the same node before it. Loads that *end* at
//! the last item therefore never leave the node, and no padding is needed after the plane.
//! Multi-byte items are stored lowest byte first.

use super::bits::apart;
use core::ptr;

/// Reads 8 bytes, lowest first.
///
/// # Safety
/// `at` must be readable for 8 bytes.
#[inline(always)]
pub(crate) unsafe fn read8(at: *const u8) -> u64 {
    // SAFETY: the caller's contract; no alignment is needed.
    u64::from_le(unsafe { ptr::read_unaligned(at.cast::<u64>()) })
}

/// Prefetches the cache line at `at`, which need not be readable.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint about an address, which is not read.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Item `i` of a plane of `width`-byte items.
///
/// # Safety
/// The plane must hold more than `i` items and have 8 readable bytes before it.
#[inline(always)]
pub(crate) unsafe fn get(plane: *const u8, width: usize, i: usize) -> u64 {
    // SAFETY: the 8 bytes that end with item `i` lie in the plane and the 8 bytes before it.
    let word = unsafe { read8(plane.add((i + 1) * width).sub(8)) };
    word >> (64 - 8 * width as u32)
}

/// Whether item `i` of a plane of `width`-byte items is `item`, whose upper bytes are ignored.
///
/// # Safety
/// As [`get`].
#[inline(always)]
pub(crate) unsafe fn is(plane: *const u8, width: usize, i: usize, item: u64) -> bool {
    // SAFETY: the 8 bytes that end with item `i` lie in the plane and the 8 bytes before it.
    let word = unsafe { read8(plane.add((i + 1) * width).sub(8)) };
    let low = 64 - 8 * width as u32;
    (word ^ (item << low)) >> low == 0
}

/// Writes item `i` of a plane of `width`-byte items; upper bytes of `item` are ignored.
///
/// # Safety
/// The plane must have room for more than `i` items.
#[inline(always)]
pub(crate) unsafe fn set(plane: *mut u8, width: usize, i: usize, item: u64) {
    let at = plane.wrapping_add(i * width);
    // Two overlapping stores write the widths that no single store has.
    let last = |size: usize| item >> (8 * (width - size));
    // SAFETY: `width` bytes at item `i` belong to the plane.
    unsafe {
        match width {
            1 => *at = item as u8,
            2..=3 => {
                ptr::write_unaligned(at.cast(), (item as u16).to_le());
                ptr::write_unaligned(at.add(width - 2).cast(), (last(2) as u16).to_le());
            }
            _ => {
                ptr::write_unaligned(at.cast(), (item as u32).to_le());
                ptr::write_unaligned(at.add(width - 4).cast(), (last(4) as u32).to_le());
            }
        }
    }
}

/// Copies `bytes` bytes; the ranges may overlap. Short copies are not worth a call: all their
/// bytes are read before the first is written.
///
/// # Safety
/// `from` must be readable and `to` writable for `bytes`.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    #[inline(always)]
    unsafe fn ends<T: Copy>(from: *const u8, to: *mut u8, bytes: usize) {
        let tail = bytes - core::mem::size_of::<T>();
        // SAFETY: the caller of `copy` guarantees `bytes` bytes, at least as many as a `T` has.
        unsafe {
            let first = ptr::read_unaligned(from.cast::<T>());
            let last = ptr::read_unaligned(from.add(tail).cast::<T>());
            ptr::write_unaligned(to.cast(), first);
            ptr::write_unaligned(to.add(tail).cast(), last);
        }
    }
    // SAFETY: the caller's contract; each arm copies at most `bytes` bytes.
    unsafe {
        if bytes > 64 {
            ptr::copy(from, to, bytes);
        } else if bytes > 32 {
            ends::<[u64; 4]>(from, to, bytes);
        } else if bytes >= 16 {
            ends::<[u64; 2]>(from, to, bytes);
        } else if bytes >= 8 {
            ends::<u64>(from, to, bytes);
        } else if bytes >= 4 {
            ends::<u32>(from, to, bytes);
        } else if bytes >= 2 {
            ends::<u16>(from, to, bytes);
        } else if bytes > 0 {
            *to = *from;
        }
    }
}

/// Like [`copy`], but does nothing when both addresses are the same.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub(crate) unsafe fn copy_unless_same(from: *const u8, to: *mut u8, bytes: usize) {
    if !ptr::eq(from, to) {
        // SAFETY: `from` has `bytes` bytes, and `to` has room for them.
        unsafe { copy(from, to, bytes) };
    }
}

/// Copies a plane of `n` items to `to`, leaving room for one item at `i`. `to` may be the plane
/// itself, or overlap it from above.
///
/// # Safety
/// `to` must have room for `n + 1` items, and `i <= n`.
#[inline(always)]
pub(crate) unsafe fn open(plane: *const u8, to: *mut u8, width: usize, n: usize, i: usize) {
    let before = i * width;
    // SAFETY: items `i..n`, then items `0..i`.
    unsafe {
        copy(plane.add(before), to.add(before + width), (n - i) * width);
        copy_unless_same(plane, to, before);
    }
}

/// Copies a plane of `n` items to `to` without item `i`. `to` may be the plane itself, or
/// overlap it from below.
///
/// # Safety
/// `to` must have room for `n - 1` items, and `i < n`.
#[inline(always)]
pub(crate) unsafe fn close(plane: *const u8, to: *mut u8, width: usize, n: usize, i: usize) {
    let before = i * width;
    // SAFETY: items `0..i`, then the items after `i`.
    unsafe {
        copy_unless_same(plane, to, before);
        copy(
            plane.add(before + width),
            to.add(before),
            (n - i - 1) * width,
        );
    }
}

/// The index of the first of items `from..to` of a plane that is not below `item`, whose upper
/// bytes are ignored; `to` when all are below.
///
/// The processor mispredicts half the time whether an item is below. Where the plane has yet to
/// be fetched, a branch is worth that, because what is looked at next is fetched meanwhile.
/// `GUESSES` says whether to use a branch.
///
/// # Safety
/// As [`get`], for items up to `to`.
#[inline(always)]
pub(crate) unsafe fn lower_bound<const GUESSES: bool>(
    plane: *const u8,
    width: usize,
    from: usize,
    to: usize,
    item: u64,
) -> usize {
    // An item is in the upper bytes of the word that ends with it, so it is compared there; the
    // lower bytes of the word cannot make it less.
    let item = item << (64 - 8 * width as u32);
    let words = plane.wrapping_add(width).wrapping_sub(8);
    // SAFETY: the caller passes items of the plane.
    let is_below = |i: usize| unsafe { read8(words.wrapping_add(i * width)) } < item;
    let (mut base, mut left) = (from, to - from);
    while left > 1 {
        let half = left / 2;
        let below = is_below(base + half - 1);
        if GUESSES {
            base = if below { base + half } else { base };
        } else {
            // A mask that the compiler cannot make a branch of.
            base += half & apart(usize::from(below).wrapping_neg());
        }
        left -= half;
    }
    if left == 1 {
        base += usize::from(is_below(base));
    }
    base
}

/// How many items [`lower_bound_near`] looks at before it halves the range.
const NEAR: usize = 8;

/// The first of the [`NEAR`] items around the place where `item` belongs if the items
/// `from..to`, of which there are at least [`NEAR`], are spread evenly over all values of
/// `width` (3 to 7) bytes, as those of random keys are.
#[inline(always)]
fn near(width: usize, from: usize, to: usize, item: u64) -> usize {
    let n = to - from;
    debug_assert!((3..8).contains(&width) && (NEAR..=256).contains(&n));
    // The part of the range that is below the item, in 1 / 2^32.
    let part = (item << (64 - 8 * width as u32)) >> 32;
    let expected = ((part * n as u64) >> 32) as usize;
    from + expected.saturating_sub(NEAR / 2).min(n - NEAR)
}

/// Like [`lower_bound`], for items of 3 to 7 bytes. Looks first at the items near the place
/// where `item` belongs if the items are spread evenly: they are in one or two cache lines,
/// where halving reads one line in each step. They are counted, so nothing is predicted and
/// their lines are fetched at once. Before that, `ahead` is called with the first and the end
/// of these items. Where `item` is not among them, because the items are not spread so, this
/// costs about three steps of halving more.
///
/// # Safety
/// As [`get`], for items up to `to`.
#[inline(always)]
pub(crate) unsafe fn lower_bound_near<const GUESSES: bool>(
    plane: *const u8,
    width: usize,
    from: usize,
    to: usize,
    item: u64,
    ahead: impl FnOnce(usize, usize),
) -> usize {
    let (mut from, mut to) = (from, to);
    if to - from < NEAR {
        ahead(from, to);
    } else {
        let first = near(width, from, to, item);
        ahead(first, first + NEAR);
        let top = item << (64 - 8 * width as u32);
        // The address of the word that ends with item `i`, compared as in `lower_bound`.
        let word = |i: usize| plane.wrapping_add((i + 1) * width).wrapping_sub(8);
        let mut at = word(first);
        let mut below = 0;
        for _ in 0..NEAR {
            // A comparison and an addition with carry; without `apart` the compiler would make
            // vectors of the results. SAFETY: `near` returns items of `from..to`.
            below = apart(below) + usize::from(unsafe { read8(at) } < top);
            at = at.wrapping_add(width);
        }
        if below % NEAR != 0 {
            return first + below;
        }
        // The item belongs after the last of them, or not after the first: mostly not far away.
        let next = if below == NEAR {
            from = first + NEAR;
            from + NEAR - 1
        } else {
            to = first;
            first.wrapping_sub(NEAR)
        };
        if next.wrapping_sub(from) < to - from {
            // SAFETY: this is one of items `from..to`.
            if unsafe { read8(word(next)) } < top {
                from = next + 1;
            } else {
                to = next;
            }
        }
    }
    // SAFETY: the caller's contract, for a part of the items.
    unsafe { lower_bound::<GUESSES>(plane, width, from, to, item) }
}

/// Adds 1 to items `from..to` of a plane of bytes, or subtracts 1 from them.
///
/// # Safety
/// The items, and those before them, must exist, and be below 255 or above 0.
#[inline(always)]
pub(crate) unsafe fn count_bytes(plane: *mut u8, from: usize, to: usize, up: bool) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut end = to;
    // Eight at a time; some of the eight may stay as they are.
    while end > from && end >= 8 {
        let at = plane.wrapping_add(end - 8);
        let left = (end - from).min(8);
        let ones = ONES << (64 - 8 * left as u32);
        // SAFETY: these are 8 items of the plane; none carries into the next.
        unsafe {
            let word = read8(at);
            let word = if up { word + ones } else { word - ones };
            ptr::write_unaligned(at.cast(), word.to_le());
        }
        end -= left;
    }
    for i in from..end {
        // SAFETY: the item exists, and is below 255 or above 0.
        unsafe {
            let item = plane.add(i);
            *item = if up { *item + 1 } else { *item - 1 };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod lanes {
    //! SSE2 is part of every x86-64 processor; no dispatch is needed.
    use super::read8;
    use core::arch::x86_64::*;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> __m128i {
        // SAFETY: the caller guarantees 16 readable bytes; the load is unaligned.
        unsafe { _mm_loadu_si128(at.cast()) }
    }

    #[inline(always)]
    fn at_least1(x: __m128i, t: __m128i) -> u32 {
        // SAFETY: x86-64 always has SSE2.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(x, t), x)) as u32 }
    }

    #[inline(always)]
    fn equal1(x: __m128i, t: __m128i) -> u32 {
        // SAFETY: x86-64 always has SSE2.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(x, t)) as u32 }
    }

    #[inline(always)]
    fn at_least2(x: __m128i, t: __m128i) -> u32 {
        // SAFETY: x86-64 always has SSE2.
        unsafe {
            let flip = _mm_set1_epi16(i16::MIN);
            !(_mm_movemask_epi8(_mm_cmplt_epi16(
                _mm_xor_si128(x, flip),
                _mm_xor_si128(t, flip),
            )) as u32)
                & 0xffff
        }
    }

    #[inline(always)]
    fn equal2(x: __m128i, t: __m128i) -> u32 {
        // SAFETY: x86-64 always has SSE2.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi16(x, t)) as u32 }
    }

    #[inline(always)]
    fn above1(x: __m128i, t: __m128i) -> u32 {
        // SAFETY: x86-64 always has SSE2.
        unsafe { !(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(x, t), x)) as u32) & 0xffff }
    }

    #[inline(always)]
    fn above2(x: __m128i, t: __m128i) -> u32 {
        // SAFETY: x86-64 always has SSE2.
        unsafe {
            let flip = _mm_set1_epi16(i16::MIN);
            _mm_movemask_epi8(_mm_cmpgt_epi16(
                _mm_xor_si128(x, flip),
                _mm_xor_si128(t, flip),
            )) as u32
        }
    }

    /// The first of `n` items whose lane `test` sets; `n` if there is none. Loads overlap
    /// instead of being chosen by branches, because lengths are hard to predict.
    ///
    /// # Safety
    /// `plane` must hold `n >= 1` items of `WIDTH` bytes and have `BEFORE` (8, or at least 14)
    /// readable bytes before it.
    #[inline(always)]
    unsafe fn first<const WIDTH: usize, const BEFORE: usize>(
        plane: *const u8,
        n: usize,
        item: __m128i,
        test: impl Fn(__m128i, __m128i) -> u32,
    ) -> usize {
        let bytes = n * WIDTH;
        if bytes <= 16 && (BEFORE >= 14 || bytes > 8) {
            // SAFETY: the 16 bytes that end with the last item. A plane of one 1-byte item
            // needs 15 bytes before it; no caller passes one where there are only 14.
            let hit = test(unsafe { load(plane.add(bytes).sub(16)) }, item) >> (16 - bytes);
            return (hit | (1 << bytes)).trailing_zeros() as usize / WIDTH;
        }
        if bytes <= 8 {
            // SAFETY: the 8 bytes that end with the plane's last item are readable; x86-64
            // always has SSE2.
            let x = unsafe {
                let word = read8(plane.add(bytes).sub(8)) >> (64 - 8 * bytes as u32);
                _mm_cvtsi64_si128(word as i64)
            };
            return (test(x, item) | (1 << bytes)).trailing_zeros() as usize / WIDTH;
        }
        let mut done = 0;
        while bytes - done > 64 {
            // SAFETY: 64 bytes of the plane.
            let hits = unsafe { quad(plane.add(done), 48, item, &test) };
            if hits != 0 {
                return (done + hits.trailing_zeros() as usize) / WIDTH;
            }
            done += 64;
        }
        if done > 0 {
            // The last 64 bytes; the first of them have been tested already.
            done = bytes - 64;
        }
        // SAFETY: the plane has more than 16 bytes from `done` on, and at most 64.
        let hits = unsafe { quad(plane.add(done), bytes - done - 16, item, &test) };
        match hits {
            0 => n,
            _ => (done + hits.trailing_zeros() as usize) / WIDTH,
        }
    }

    /// Applies `test` to the bytes up to 16 after `last`, which is at most 48, by four loads;
    /// none reads further.
    ///
    /// # Safety
    /// `last + 16` bytes must be readable at `at`.
    #[inline(always)]
    unsafe fn quad(
        at: *const u8,
        last: usize,
        item: __m128i,
        test: &impl Fn(__m128i, __m128i) -> u32,
    ) -> u64 {
        let mut hits = 0;
        for k in 0..4 {
            let offset = last.min(16 * k);
            // SAFETY: `offset + 16` bytes are readable.
            hits |= u64::from(test(unsafe { load(at.add(offset)) }, item)) << offset;
        }
        hits
    }

    #[inline(always)]
    fn splat<const WIDTH: usize>(item: u64) -> __m128i {
        // SAFETY: x86-64 always has SSE2.
        unsafe {
            match WIDTH {
                1 => _mm_set1_epi8(item as i8),
                _ => _mm_set1_epi16(item as i16),
            }
        }
    }

    #[inline(always)]
    pub(super) unsafe fn find<const WIDTH: usize, const BEFORE: usize>(
        plane: *const u8,
        n: usize,
        item: u64,
    ) -> usize {
        let test = if WIDTH == 1 { equal1 } else { equal2 };
        // SAFETY: the plane holds `n >= 1` items; `first` reads at most `BEFORE` bytes before
        // it.
        unsafe { first::<WIDTH, BEFORE>(plane, n, splat::<WIDTH>(item), test) }
    }

    #[inline(always)]
    pub(super) unsafe fn count_below<const WIDTH: usize>(
        plane: *const u8,
        n: usize,
        item: u64,
    ) -> usize {
        let test = if WIDTH == 1 { at_least1 } else { at_least2 };
        // SAFETY: the plane holds `n >= 1` items; `first` reads at most 8 bytes before it.
        unsafe { first::<WIDTH, 8>(plane, n, splat::<WIDTH>(item), test) }
    }

    #[inline(always)]
    pub(super) unsafe fn count_at_most<const WIDTH: usize, const BEFORE: usize>(
        plane: *const u8,
        n: usize,
        item: u64,
    ) -> usize {
        let test = if WIDTH == 1 { above1 } else { above2 };
        // SAFETY: the plane holds `n >= 1` items; `first` reads at most `BEFORE` bytes before
        // it.
        unsafe { first::<WIDTH, BEFORE>(plane, n, splat::<WIDTH>(item), test) }
    }

    /// How many of the first 16 bytes at `at` are `b`, up to the first byte that is not.
    #[inline(always)]
    pub(super) unsafe fn run_of_16(at: *const u8, b: u8) -> usize {
        // SAFETY: the caller guarantees 16 readable bytes.
        let hit = unsafe { equal1(load(at), splat::<1>(u64::from(b))) };
        (!hit).trailing_zeros() as usize
    }

    /// How many of the 16 bytes at `at` are at most `b`; the first `n` are in ascending order,
    /// and only these are counted.
    #[inline(always)]
    pub(super) unsafe fn at_most_16(at: *const u8, n: usize, b: u8) -> usize {
        // SAFETY: the caller guarantees 16 readable bytes; x86-64 always has SSE2.
        let hit = unsafe {
            let (x, t) = (load(at), _mm_set1_epi8(b as i8));
            _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(x, t), x)) as u32
        };
        (!hit | (1 << n)).trailing_zeros() as usize
    }

    /// Like [`at_most_16`], for 8 bytes.
    #[inline(always)]
    pub(super) unsafe fn at_most_8(at: *const u8, n: usize, b: u8) -> usize {
        // SAFETY: the caller guarantees 8 readable bytes; x86-64 always has SSE2.
        let hit = unsafe {
            let (x, t) = (_mm_cvtsi64_si128(read8(at) as i64), _mm_set1_epi8(b as i8));
            _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(x, t), x)) as u32
        };
        (!hit | (1 << n)).trailing_zeros() as usize
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod lanes {
    //! Plain binary search where there is no SSE2.
    use super::{get, lower_bound};

    pub(super) unsafe fn find<const WIDTH: usize, const BEFORE: usize>(
        plane: *const u8,
        n: usize,
        item: u64,
    ) -> usize {
        // SAFETY: the plane holds `n` items.
        let i = unsafe { lower_bound::<true>(plane, WIDTH, 0, n, item) };
        // SAFETY: `i < n` where it is read.
        if i < n && unsafe { get(plane, WIDTH, i) } == item {
            i
        } else {
            n
        }
    }

    pub(super) unsafe fn count_below<const WIDTH: usize>(
        plane: *const u8,
        n: usize,
        item: u64,
    ) -> usize {
        // SAFETY: the plane holds `n` items.
        unsafe { lower_bound::<true>(plane, WIDTH, 0, n, item) }
    }

    pub(super) unsafe fn count_at_most<const WIDTH: usize, const BEFORE: usize>(
        plane: *const u8,
        n: usize,
        item: u64,
    ) -> usize {
        if item == u64::MAX >> (64 - 8 * WIDTH as u32) {
            return n;
        }
        // SAFETY: the plane holds `n` items.
        unsafe { lower_bound::<true>(plane, WIDTH, 0, n, item + 1) }
    }

    pub(super) unsafe fn run_of_16(at: *const u8, b: u8) -> usize {
        // SAFETY: the caller guarantees 16 readable bytes.
        (0..16).take_while(|i| unsafe { *at.add(*i) } == b).count()
    }

    pub(super) unsafe fn at_most_16(at: *const u8, n: usize, b: u8) -> usize {
        let mut i = 0;
        // SAFETY: the caller guarantees 16 readable bytes and `n <= 16`.
        while i < n && unsafe { *at.add(i) } <= b {
            i += 1;
        }
        i
    }

    pub(super) unsafe fn at_most_8(at: *const u8, n: usize, b: u8) -> usize {
        // SAFETY: the caller guarantees 8 readable bytes and `n <= 8`.
        unsafe { at_most_16(at, n, b) }
    }
}

/// The index of `item` among the `n` items of a plane of items of `WIDTH` (1 or 2) bytes; `n`
/// if it is not there.
///
/// # Safety
/// The plane must hold `n >= 1` items and have `BEFORE` readable bytes before it: 8, or 16,
/// which is faster.
#[inline(always)]
pub(crate) unsafe fn find_small<const WIDTH: usize, const BEFORE: usize>(
    plane: *const u8,
    n: usize,
    item: u64,
) -> usize {
    // SAFETY: `n >= 1` items, and `BEFORE` readable bytes before them.
    unsafe { lanes::find::<WIDTH, BEFORE>(plane, n, item) }
}

/// How many of the `n` ascending items of a plane of items of `WIDTH` bytes are at most `item`.
///
/// # Safety
/// As [`find_small`].
#[inline(always)]
pub(crate) unsafe fn count_at_most_small<const WIDTH: usize, const BEFORE: usize>(
    plane: *const u8,
    n: usize,
    item: u64,
) -> usize {
    // SAFETY: `n >= 1` items, and `BEFORE` readable bytes before them.
    unsafe { lanes::count_at_most::<WIDTH, BEFORE>(plane, n, item) }
}

/// How many of the `n` ascending bytes at `at` are `byte`, which the first one must be. The
/// count may include bytes after the `n`.
///
/// # Safety
/// 16 bytes after the last one must be readable.
#[inline(always)]
pub(crate) unsafe fn run_of(at: *const u8, n: usize, byte: u64) -> usize {
    let mut run = 0;
    loop {
        // SAFETY: `run < n`.
        let more = unsafe { lanes::run_of_16(at.add(run), byte as u8) };
        run += more;
        if more < 16 || run >= n {
            return run;
        }
    }
}

/// How many of the `n >= 1` ascending items of a plane of 1- or 2-byte items are below `item`.
///
/// # Safety
/// As [`find_small`], with 8 bytes before the plane.
#[inline(always)]
pub(crate) unsafe fn count_below_small(
    plane: *const u8,
    width: usize,
    n: usize,
    item: u64,
) -> usize {
    // SAFETY: `n >= 1` items, and 8 readable bytes before them.
    unsafe {
        if width == 1 {
            lanes::count_below::<1>(plane, n, item)
        } else {
            lanes::count_below::<2>(plane, n, item)
        }
    }
}

/// Writes `n` items, one after another.
///
/// # Safety
/// The plane must have room for `n` items of `width` bytes.
#[inline(always)]
pub(crate) unsafe fn fill(plane: *mut u8, width: usize, n: usize, item: impl Fn(usize) -> u64) {
    // Eight bytes at a time, while the following items overwrite the excess bytes.
    let whole = (n * width).saturating_sub(8) / width;
    for i in 0..whole {
        // SAFETY: `i * width + 8 <= n * width`.
        unsafe { ptr::write_unaligned(plane.add(i * width).cast(), item(i).to_le()) };
    }
    for i in whole..n {
        // SAFETY: `i < n`.
        unsafe { set(plane, width, i, item(i)) };
    }
}

/// Writes zeros to bytes `from..to` of a plane: bytes that are loaded must have been written.
///
/// # Safety
/// These bytes must be writable.
#[inline(always)]
pub(crate) unsafe fn clear(plane: *mut u8, from: usize, to: usize) {
    for i in from..to {
        // SAFETY: the bytes can be written.
        unsafe { *plane.add(i) = 0 };
    }
}

/// How many of the first `n <= 16` separators at `at`, which are in ascending order, are at
/// most `b`.
///
/// # Safety
/// 8 bytes must be readable at `at` when `n <= 8`, else 16.
#[inline(always)]
pub(crate) unsafe fn separators_at_most(at: *const u8, n: usize, b: u8) -> usize {
    // SAFETY: as many bytes are readable as either function reads.
    unsafe {
        if n <= 8 {
            lanes::at_most_8(at, n, b)
        } else {
            lanes::at_most_16(at, n, b)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// `n` ascending items of at most 24 bits; `way` is the number of a way of spreading them.
    fn spread(way: usize, n: u64) -> Vec<u64> {
        let item = |i: u64| match way {
            0 => (i << 24) / n,
            1 => i,
            2 => (1 << 24) - n + i,
            3 => (1 << 23) + i,
            // Half of the items at either end.
            4 if i < n / 2 => i,
            4 => (1 << 24) - n + i,
            _ => i * i * i,
        };
        (0..n).map(item).collect()
    }

    const WAYS: usize = 6;

    /// A plane of `items` in the upper bytes of `width`, with scrambled lower bytes, after 8
    /// readable bytes; and the items as they are in the plane.
    fn plane_of(items: &[u64], width: usize) -> (Vec<u8>, Vec<u64>) {
        let mut bytes = std::vec![0xff; 8];
        let lower = 8 * (width - 3);
        let items: Vec<u64> = items
            .iter()
            .map(|item| item << lower | item.wrapping_mul(0x9e37_79b9) & ((1 << lower) - 1))
            .collect();
        for item in &items {
            bytes.extend_from_slice(&item.to_le_bytes()[..width]);
        }
        (bytes, items)
    }

    /// The search looks first where an item is expected; the item may be anywhere.
    #[test]
    fn an_item_is_found_however_the_items_are_spread() {
        let lengths: Vec<u64> = match cfg!(miri) {
            true => std::vec![7, 25],
            false => (0..=192).collect(),
        };
        let cases = (0..WAYS).flat_map(|way| (3..8).map(move |width| (way, width)));
        for (way, width) in cases.step_by(if cfg!(miri) { 7 } else { 1 }) {
            for &n in &lengths {
                let (bytes, items) = plane_of(&spread(way, n), width);
                let last = u64::MAX >> (64 - 8 * width);
                let near = |item: u64| [item.saturating_sub(1), item, last.min(item + 1)];
                let asked = items.iter().copied().flat_map(near).chain([0, last]);
                for item in asked {
                    let expected = items.partition_point(|i| *i < item);
                    // All of them, and a run among others.
                    for (from, to) in [(0, items.len()), (items.len() / 5, items.len() * 7 / 8)] {
                        let plane = bytes.as_ptr().wrapping_add(8);
                        // SAFETY: a plane of as many items, with 8 bytes before it. Upper bytes
                        // of the item are ignored.
                        let found = unsafe {
                            let other = item | !last;
                            [
                                lower_bound_near::<false>(plane, width, from, to, item, |_, _| ()),
                                lower_bound_near::<true>(plane, width, from, to, other, |_, _| ()),
                            ]
                        };
                        let expected = expected.clamp(from, to);
                        assert_eq!(
                            found, [expected; 2],
                            "way {way}, width {width}, {n} items, {from}..{to}, {item:#x}"
                        );
                    }
                }
            }
        }
    }

    /// Evenly spread items are where they are expected: a search for one looks at one place.
    #[test]
    fn an_item_of_evenly_spread_ones_is_near() {
        let cases = (3..8).flat_map(|width| (NEAR..=192).map(move |n| (width, n)));
        for (width, n) in cases.step_by(if cfg!(miri) { 113 } else { 1 }) {
            let from = n % 7;
            for (i, item) in spread(0, n as u64).into_iter().enumerate() {
                let first = near(width, from, from + n, item << (8 * (width - 3)));
                let behind = from + i - first;
                assert!(first >= from && first + NEAR <= from + n);
                let is_end = i < NEAR / 2 || i + NEAR / 2 >= n;
                assert!(
                    behind < NEAR,
                    "item {i} of {n}, {width} bytes wide: {behind}"
                );
                assert!(is_end || behind.abs_diff(NEAR / 2) <= 1);
            }
        }
    }
}
