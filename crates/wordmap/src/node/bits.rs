//! 256 bits in four words and their rank; and words about which the compiler knows
//! nothing.
//!
//! The rank is computed without branches on the position of the bit: for random keys
//! they are mispredicted more often than not. Counting ones takes an instruction that
//! not every x86-64 processor has; where the program is not built for processors that
//! have it, the processor is asked once.

/// The number of ones among the bits below `b` (0 to 255), and whether bit `b` is one.
///
/// # Safety
/// Four words must be readable at `words`.
#[inline(always)]
pub(crate) unsafe fn rank(words: *const u64, b: usize) -> (usize, bool) {
    // SAFETY: the caller's duty; `b / 64` is below 4.
    let (first, here) = unsafe { ([*words, *words.add(1), *words.add(2)], *words.add(b / 64)) };
    let bit = 1 << (b % 64);
    let counts = ones([first[0], first[1], first[2], here & (bit - 1)]);
    // The sign of `w - b / 64`, where the compiler sees no choice to make a branch of.
    let word = apart(b / 64);
    let mut rank = counts[3];
    for (w, count) in counts[..3].iter().enumerate() {
        rank += count & (w.wrapping_sub(word) as i64 >> 63) as u64;
    }
    (rank as usize, here & bit != 0)
}

/// Returns the same word. The compiler does not know that it is the same, so it cannot
/// replace the word by a value that it compares equal to.
#[inline(always)]
pub(crate) fn apart(word: usize) -> usize {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    {
        let mut word = word;
        // SAFETY: executes no instruction; the word stays in its register.
        unsafe {
            core::arch::asm!("/* {0} */", inlateout(reg) word, options(pure, nomem, nostack, preserves_flags));
        }
        word
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    word
}

#[inline(always)]
fn ones(words: [u64; 4]) -> [u64; 4] {
    #[cfg(all(target_arch = "x86_64", not(target_feature = "popcnt"), not(miri)))]
    if popcnt::is_there() {
        return words.map(popcnt::ones);
    }
    words.map(|word| u64::from(word.count_ones()))
}

#[cfg(all(target_arch = "x86_64", not(target_feature = "popcnt"), not(miri)))]
mod popcnt {
    use core::arch::asm;
    use core::arch::x86_64::__cpuid;
    use core::sync::atomic::{AtomicU8, Ordering};

    const UNKNOWN: u8 = 0;
    const ABSENT: u8 = 1;
    const THERE: u8 = 2;
    static PROCESSOR: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline(always)]
    pub(super) fn is_there() -> bool {
        match PROCESSOR.load(Ordering::Relaxed) {
            THERE => true,
            UNKNOWN => ask(),
            _ => false,
        }
    }

    #[cold]
    #[inline(never)]
    fn ask() -> bool {
        // Unsafe in older compilers only.
        #[allow(unused_unsafe)]
        // SAFETY: every x86-64 processor has this leaf.
        let features = unsafe { __cpuid(1) }.ecx;
        let is_there = features & (1 << 23) != 0;
        PROCESSOR.store(if is_there { THERE } else { ABSENT }, Ordering::Relaxed);
        is_there
    }

    /// May be called only where [`is_there`] returns true.
    #[inline(always)]
    pub(super) fn ones(word: u64) -> u64 {
        let count;
        // SAFETY: the processor has been asked; the instruction touches nothing else.
        unsafe {
            asm!("popcnt {0}, {1}", out(reg) count, in(reg) word, options(pure, nomem, nostack));
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_counts_the_ones_below() {
        let words = [0x8000_0000_0000_0001, 0, u64::MAX, 0x8000_0000_0000_0000];
        let is_one = |b: usize| words[b / 64] >> (b % 64) & 1 != 0;
        for b in 0..256 {
            let below = (0..b).filter(|&b| is_one(b)).count();
            // SAFETY: four words.
            let ranked = unsafe { rank(words.as_ptr(), b) };
            assert_eq!(ranked, (below, is_one(b)), "bit {b}");
        }
    }
}
