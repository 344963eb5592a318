//! Tests the hash of JudyHS: it is SipHash-1-3, and all threads have the same secret.

use crate::keyed_hash::{hash, sip_hash};
use std::hash::{DefaultHasher, Hasher};

/// A text of `length` bytes that repeats no word.
fn text(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 37 + n / 8) as u8).collect()
}

#[test]
fn without_a_secret_it_is_the_hash_of_the_standard_library() {
    for length in 0..200 {
        let mut expected = DefaultHasher::new();
        expected.write(&text(length));
        assert_eq!(
            sip_hash([0, 0], &text(length)),
            expected.finish(),
            "{length}"
        );
    }
}

/// The published result for the key 0, 1, ... 15 and an empty text.
#[test]
fn with_a_known_secret_it_gives_the_known_result() {
    let secret = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
    assert_eq!(sip_hash(secret, &[]), 0xabac_0158_050f_c4dc);
}

#[test]
fn both_words_of_the_secret_count() {
    let of = |secret| sip_hash(secret, b"a key");
    assert_ne!(of([1, 2]), of([1, 3]));
    assert_ne!(of([1, 2]), of([3, 2]));
}

#[test]
fn threads_that_begin_at_once_have_one_secret() {
    let start = std::sync::Barrier::new(8);
    let found: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (start.wait(), hash(b"a key")).1))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(found.iter().all(|hash| *hash == found[0]), "{found:x?}");
    assert_eq!(hash(b"a key"), found[0]);
    assert_ne!(found[0], sip_hash([0, 0], b"a key"), "no secret was drawn");
}
