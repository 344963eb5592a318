//! Sorted runs of small unsigned integers ("planes") inside a node, and the
//! searches in them.
//!
//! A plane always has at least 8 readable bytes of the same node before it,
//! so loads that *end* at the last item never leave the node: there is no
//! need for padding behind it. Multi-byte items are stored lowest byte first.

use core::ptr;

/// Reads 8 bytes, lowest first.
///
/// # Safety
/// `at` must be readable for 8 bytes.
#[inline(always)]
pub(crate) unsafe fn read8(at: *const u8) -> u64 {
    // SAFETY: the caller's duty; no alignment is asked for.
    u64::from_le(unsafe { ptr::read_unaligned(at.cast::<u64>()) })
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

/// Writes item `i` of a plane of `width`-byte items.
///
/// # Safety
/// The plane must have room for more than `i` items.
#[inline(always)]
pub(crate) unsafe fn set(plane: *mut u8, width: usize, i: usize, item: u64) {
    let at = plane.wrapping_add(i * width);
    match width {
        // SAFETY: `width` bytes at item `i` belong to the plane.
        1 => unsafe { *at = item as u8 },
        // SAFETY: as above.
        2 => unsafe { ptr::write_unaligned(at.cast(), (item as u16).to_le()) },
        // SAFETY: as above.
        4 => unsafe { ptr::write_unaligned(at.cast(), (item as u32).to_le()) },
        // SAFETY: as above.
        8 => unsafe { ptr::write_unaligned(at.cast(), item.to_le()) },
        // SAFETY: as above; the parts make up the width.
        3 => unsafe {
            set(at, 2, 0, item);
            set(at.add(2), 1, 0, item >> 16);
        },
        // SAFETY: as above.
        5 => unsafe {
            set(at, 4, 0, item);
            set(at.add(4), 1, 0, item >> 32);
        },
        // SAFETY: as above.
        6 => unsafe {
            set(at, 4, 0, item);
            set(at.add(4), 2, 0, item >> 32);
        },
        // SAFETY: as above.
        _ => unsafe {
            set(at, 4, 0, item);
            set(at.add(4), 2, 0, item >> 32);
            set(at.add(6), 1, 0, item >> 48);
        },
    }
}

/// Makes room for one item at `i` in a plane that holds `n`.
///
/// # Safety
/// The plane must have room for `n + 1` items, and `i <= n`.
#[inline(always)]
pub(crate) unsafe fn open(plane: *mut u8, width: usize, n: usize, i: usize) {
    // SAFETY: both ranges lie in the plane.
    unsafe {
        ptr::copy(
            plane.add(i * width),
            plane.add((i + 1) * width),
            (n - i) * width,
        );
    }
}

/// Closes the gap left by item `i` of a plane that holds `n`.
///
/// # Safety
/// The plane must hold `n` items, and `i < n`.
#[inline(always)]
pub(crate) unsafe fn close(plane: *mut u8, width: usize, n: usize, i: usize) {
    // SAFETY: both ranges lie in the plane.
    unsafe {
        ptr::copy(
            plane.add((i + 1) * width),
            plane.add(i * width),
            (n - i - 1) * width,
        );
    }
}

/// The number of items below `item` among items `from..to` of a plane.
///
/// # Safety
/// As [`get`], for items up to `to`.
#[inline(always)]
pub(crate) unsafe fn lower_bound(
    plane: *const u8,
    width: usize,
    from: usize,
    to: usize,
    item: u64,
) -> usize {
    let (mut base, mut left) = (from, to - from);
    while left > 1 {
        let half = left / 2;
        // SAFETY: `base + half - 1 < to`.
        let smaller = unsafe { get(plane, width, base + half - 1) } < item;
        base = if smaller { base + half } else { base };
        left -= half;
    }
    // SAFETY: `base < to` when one item is left.
    if left == 1 && unsafe { get(plane, width, base) } < item {
        base += 1;
    }
    base
}

#[cfg(target_arch = "x86_64")]
mod lanes {
    //! SSE2 is part of every x86-64 processor; no dispatch is needed.
    use super::read8;
    use core::arch::x86_64::*;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> __m128i {
        // SAFETY: the caller vouches for 16 readable bytes; the load is unaligned.
        unsafe { _mm_loadu_si128(at.cast()) }
    }

    #[inline(always)]
    fn at_least1(x: __m128i, t: __m128i) -> u32 {
        // SAFETY: SSE2 is always there.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(x, t), x)) as u32 }
    }

    #[inline(always)]
    fn equal1(x: __m128i, t: __m128i) -> u32 {
        // SAFETY: SSE2 is always there.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(x, t)) as u32 }
    }

    #[inline(always)]
    fn at_least2(x: __m128i, t: __m128i) -> u32 {
        // SAFETY: SSE2 is always there.
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
        // SAFETY: SSE2 is always there.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi16(x, t)) as u32 }
    }

    /// The first item of `n` for which `test` sets its lane, or `n`.
    ///
    /// # Safety
    /// `plane` must hold `n >= 1` items of `WIDTH` bytes and have 8 readable
    /// bytes before it.
    #[inline(always)]
    pub(super) unsafe fn first<const WIDTH: usize>(
        plane: *const u8,
        n: usize,
        item: __m128i,
        test: impl Fn(__m128i, __m128i) -> u32,
    ) -> usize {
        let bytes = n * WIDTH;
        if bytes <= 8 {
            // SAFETY: the 8 bytes that end with the plane's last item are readable;
            // SSE2 is always there.
            let x = unsafe {
                let word = read8(plane.add(bytes).sub(8)) >> (64 - 8 * bytes as u32);
                _mm_cvtsi64_si128(word as i64)
            };
            let hit = test(x, item) | (1 << bytes);
            return hit.trailing_zeros() as usize / WIDTH;
        }
        let mut done = 0;
        while done + 16 <= bytes {
            // SAFETY: 16 bytes of the plane.
            let hit = test(unsafe { load(plane.add(done)) }, item);
            if hit != 0 {
                return (done + hit.trailing_zeros() as usize) / WIDTH;
            }
            done += 16;
        }
        let rest = bytes - done;
        if rest == 0 {
            return n;
        }
        // SAFETY: the 16 bytes that end with the last item; the plane has more than 8
        // bytes, so at most 8 of them lie before it.
        let hit = test(unsafe { load(plane.add(bytes).sub(16)) }, item) >> (16 - rest);
        let hit = hit | (1 << rest);
        (done + hit.trailing_zeros() as usize) / WIDTH
    }

    #[inline(always)]
    pub(super) unsafe fn find(plane: *const u8, width: usize, n: usize, item: u64) -> usize {
        // SAFETY: the caller's duty is that of `first`; SSE2 is always there.
        unsafe {
            if width == 1 {
                first::<1>(plane, n, _mm_set1_epi8(item as i8), equal1)
            } else {
                first::<2>(plane, n, _mm_set1_epi16(item as i16), equal2)
            }
        }
    }

    #[inline(always)]
    pub(super) unsafe fn count_below(plane: *const u8, width: usize, n: usize, item: u64) -> usize {
        // SAFETY: the caller's duty is that of `first`; SSE2 is always there.
        unsafe {
            if width == 1 {
                first::<1>(plane, n, _mm_set1_epi8(item as i8), at_least1)
            } else {
                first::<2>(plane, n, _mm_set1_epi16(item as i16), at_least2)
            }
        }
    }

    /// How many of 16 bytes at `at`, the first `n` of which rise, are at most `b`.
    #[inline(always)]
    pub(super) unsafe fn at_most_16(at: *const u8, n: usize, b: u8) -> usize {
        // SAFETY: the caller vouches for 16 readable bytes; SSE2 is always there.
        let hit = unsafe {
            let (x, t) = (load(at), _mm_set1_epi8(b as i8));
            _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(x, t), x)) as u32
        };
        (!hit | (1 << n)).trailing_zeros() as usize
    }

    /// As [`at_most_16`] for 8 bytes.
    #[inline(always)]
    pub(super) unsafe fn at_most_8(at: *const u8, n: usize, b: u8) -> usize {
        // SAFETY: the caller vouches for 8 readable bytes; SSE2 is always there.
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

    pub(super) unsafe fn find(plane: *const u8, width: usize, n: usize, item: u64) -> usize {
        // SAFETY: the caller's duty is that of `lower_bound`.
        let i = unsafe { lower_bound(plane, width, 0, n, item) };
        // SAFETY: `i < n` where it is read.
        if i < n && unsafe { get(plane, width, i) } == item {
            i
        } else {
            n
        }
    }

    pub(super) unsafe fn count_below(plane: *const u8, width: usize, n: usize, item: u64) -> usize {
        // SAFETY: the caller's duty is that of `lower_bound`.
        unsafe { lower_bound(plane, width, 0, n, item) }
    }

    pub(super) unsafe fn at_most_16(at: *const u8, n: usize, b: u8) -> usize {
        let mut i = 0;
        // SAFETY: the caller vouches for 16 readable bytes and `n <= 16`.
        while i < n && unsafe { *at.add(i) } <= b {
            i += 1;
        }
        i
    }

    pub(super) unsafe fn at_most_8(at: *const u8, n: usize, b: u8) -> usize {
        // SAFETY: the caller's duty, with `n <= 8`.
        unsafe { at_most_16(at, n, b) }
    }
}

/// Where `item` is among the `n >= 1` items of a plane of 1- or 2-byte items; `n` if nowhere.
///
/// # Safety
/// The plane must hold `n` items and have 8 readable bytes before it.
#[inline(always)]
pub(crate) unsafe fn find_small(plane: *const u8, width: usize, n: usize, item: u64) -> usize {
    // SAFETY: handed on.
    unsafe { lanes::find(plane, width, n, item) }
}

/// How many of the `n >= 1` items of a plane of 1- or 2-byte items are below `item`.
///
/// # Safety
/// As [`find_small`].
#[inline(always)]
pub(crate) unsafe fn count_below_small(
    plane: *const u8,
    width: usize,
    n: usize,
    item: u64,
) -> usize {
    // SAFETY: handed on.
    unsafe { lanes::count_below(plane, width, n, item) }
}

/// How many of the first `n <= 16` separators at `at`, which rise, are at most `b`.
///
/// # Safety
/// 8 bytes must be readable at `at` when `n <= 8`, else 16.
#[inline(always)]
pub(crate) unsafe fn separators_at_most(at: *const u8, n: usize, b: u8) -> usize {
    // SAFETY: handed on.
    unsafe {
        if n <= 8 {
            lanes::at_most_8(at, n, b)
        } else {
            lanes::at_most_16(at, n, b)
        }
    }
}
