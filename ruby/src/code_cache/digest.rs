//! A digest of 128 bits: it finds damage, and tells contents apart. It is no protection against
//! somebody who looks for two texts with the same digest; who may write the file is what
//! protects it ([`super::trust`]).

pub(crate) type Digest = [u8; 16];

/// Odd numbers with about as many ones as zeros.
const ODD: [u64; 4] = [
    0x9e37_79b9_7f4a_7c15,
    0xd1b5_4a32_d192_ed03,
    0x8cb9_2ba7_2f3d_8dd7,
    0xe703_7ed1_a0b4_28db,
];

/// The digest of several parts. Where a part ends is part of it.
pub(super) fn digest(parts: &[&[u8]]) -> Digest {
    let mut sum = Sum(ODD[2], ODD[3]);
    for part in parts {
        sum.add(part.len() as u64, !(part.len() as u64));
        let mut pairs = part.chunks_exact(16);
        for pair in &mut pairs {
            sum.add(word(pair, 0), word(pair, 8));
        }
        let rest = pairs.remainder();
        if !rest.is_empty() {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            sum.add(word(&last, 0), word(&last, 8));
        }
    }
    sum.digest()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Two sums of 64 bits. A pair of words that makes one of the products 0, and so forgets what
/// was before, does not do so to the other.
struct Sum(u64, u64);

impl Sum {
    #[inline(always)]
    fn add(&mut self, x: u64, y: u64) {
        let (a, b) = (
            folded(x ^ ODD[0], y ^ self.0),
            folded(x ^ self.1, y ^ ODD[1]),
        );
        (self.0, self.1) = (a, b.rotate_left(23));
    }

    fn digest(self) -> Digest {
        let first = folded(self.0 ^ ODD[2], self.1 ^ ODD[3]) ^ self.0;
        let second = folded(self.1 ^ ODD[0], first ^ ODD[1]) ^ self.1;
        let mut digest = [0; 16];
        digest[..8].copy_from_slice(&first.to_le_bytes());
        digest[8..].copy_from_slice(&second.to_le_bytes());
        digest
    }
}

#[inline(always)]
fn folded(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    product as u64 ^ (product >> 64) as u64
}

/// The digest as 32 hexadecimal digits.
pub(super) fn hexadecimal(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_bit_and_every_length_counts() {
        let text: Vec<u8> = (0..100_u8).collect();
        let mut seen = HashSet::new();
        assert!(seen.insert(digest(&[&text])));
        for at in 0..text.len() * 8 {
            let mut other = text.clone();
            other[at / 8] ^= 1 << (at % 8);
            assert!(seen.insert(digest(&[&other])), "bit {at}");
        }
        for length in 0..text.len() {
            assert!(seen.insert(digest(&[&text[..length]])), "length {length}");
        }
    }

    #[test]
    fn where_a_part_ends_counts() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
        assert_ne!(digest(&[b"ab"]), digest(&[b"ab", b""]));
        assert_ne!(digest(&[b"a"]), digest(&[b"a\0"]));
    }

    #[test]
    fn it_is_written_with_two_digits_a_byte() {
        let mut digest = [0; 16];
        digest[15] = 0xa;
        assert_eq!(hexadecimal(&digest), "0000000000000000000000000000000a");
    }
}
