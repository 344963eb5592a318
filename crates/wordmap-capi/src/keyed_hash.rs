//! A hash of bytes that nobody outside the process can predict: SipHash-1-3 with a secret
//! of the process.
//!
//! JudyHS is a table for strings from any source. With a hash that everybody can compute,
//! a few thousand strings made to collide would be one list. It must also be impossible
//! to guess the secret from what the program answers. So the hash is a keyed one that was
//! designed for that, the one that Rust's and Ruby's own tables use.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The two words that SipHash takes as its key.
pub(crate) type Secret = [u64; 2];

/// The secret of this process; a word is 0 until it is drawn. A word that is not 0 never
/// changes, not even in a forked child. So all threads that have seen both words have
/// seen the same ones, in whatever order they loaded them; the words publish no other
/// memory.
static SECRET: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// The hash of these bytes in this process.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let secret = [SECRET[0].load(Relaxed), SECRET[1].load(Relaxed)];
    if secret[0] != 0 && secret[1] != 0 {
        sip_hash(secret, bytes)
    } else {
        sip_hash(secret_of(&SECRET, draw), bytes)
    }
}

/// Draws the words that are missing. Several threads may do so at once, and a fork may
/// come in between: the first word stored counts, and no thread waits for another.
#[cold]
fn secret_of(words: &[AtomicU64; 2], draw: fn() -> Secret) -> Secret {
    let drawn = draw();
    std::array::from_fn(|index| {
        let new = drawn[index].max(1);
        match words[index].compare_exchange(0, new, Relaxed, Relaxed) {
            Ok(_) => new,
            Err(first) => first,
        }
    })
}

/// Returns random words from the kernel. The kernel may refuse (in a sandbox) or have
/// none yet (while the machine starts); then the words are made from those that it gave
/// the process with its arguments. Other parts of the process know these, so they are
/// hashed first.
fn draw() -> Secret {
    let mut words = [0u64; 2];
    let bytes = size_of_val(&words);
    // SAFETY: the words are as long as `bytes` says. The call does not wait.
    let got = unsafe { libc::getrandom(words.as_mut_ptr().cast(), bytes, libc::GRND_NONBLOCK) };
    if got == bytes as isize {
        return words;
    }
    let mut seed = [(&raw const words).addr() as u64, 0];
    // SAFETY: the kernel gives the address of 16 bytes that never move, or null.
    unsafe {
        let given = libc::getauxval(libc::AT_RANDOM) as *const Secret;
        if !given.is_null() {
            let given = given.read_unaligned();
            seed = [seed[0] ^ given[0], seed[1] ^ given[1]];
        }
    }
    [sip_hash(seed, b"first"), sip_hash(seed, b"second")]
}

/// SipHash-1-3: one round for each 8 bytes, and three at the end.
#[inline]
pub(crate) fn sip_hash(secret: Secret, bytes: &[u8]) -> u64 {
    let mut state = [
        secret[0] ^ 0x736f_6d65_7073_6575,
        secret[1] ^ 0x646f_7261_6e64_6f6d,
        secret[0] ^ 0x6c79_6765_6e65_7261,
        secret[1] ^ 0x7465_6462_7974_6573,
    ];
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        absorb(&mut state, little_endian(word));
    }
    // The last word has the remaining bytes, and the length in its highest byte.
    let last = little_endian(words.remainder()) | (bytes.len() as u64) << 56;
    absorb(&mut state, last);
    state[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut state);
    }
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

#[inline(always)]
fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

#[inline(always)]
fn round(state: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *state;
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    *state = [a, b, c, d];
}

/// Reads up to 8 bytes as a number, in few loads.
#[inline(always)]
fn little_endian(bytes: &[u8]) -> u64 {
    if let Ok(eight) = bytes.try_into() {
        return u64::from_le_bytes(eight);
    }
    let (mut rest, mut number, mut shift) = (bytes, 0, 0);
    if let Some((four, more)) = rest.split_first_chunk() {
        (rest, number, shift) = (more, u64::from(u32::from_le_bytes(*four)), 32);
    }
    if let Some((two, more)) = rest.split_first_chunk() {
        number |= u64::from(u16::from_le_bytes(*two)) << shift;
        (rest, shift) = (more, shift + 16);
    }
    if let Some(one) = rest.first() {
        number |= u64::from(*one) << shift;
    }
    number
}
