//! Tests JudySL with texts whose common beginning is long: the time that they take grows with
//! their length and not with its square, and a small stack is enough.

use crate::array::Slot;
use crate::error::JudyError;
use crate::judysl::{JudySLDel, JudySLFirst, JudySLFreeArray, JudySLGet, JudySLIns};
use crate::judysl::{JudySLLast, JudySLNext, JudySLPrev};
use crate::memory::ashlar_wordmap_heap_bytes;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::time::{Duration, Instant};

type Find = unsafe extern "C" fn(*const c_void, *mut u8, *mut JudyError) -> Slot;

/// A text of `length` times the same byte, and then `end`.
fn text(length: usize, end: &str) -> Vec<u8> {
    let mut text = vec![b'a'; length];
    text.extend(end.bytes());
    text.push(0);
    text
}

/// An array of texts of at most `room` bytes.
struct Texts {
    root: *mut c_void,
    room: usize,
}

impl Texts {
    fn of(room: usize) -> Self {
        let root = null_mut();
        Self { root, room }
    }

    fn insert(&mut self, text: &[u8], value: usize) {
        // SAFETY: the root is an array or null, and the text ends with 0.
        unsafe {
            let slot = JudySLIns(&mut self.root, text.as_ptr(), null_mut());
            assert!(slot as usize != usize::MAX && (*slot).is_null());
            *slot = value as *mut c_void;
        }
    }

    fn get(&self, text: &[u8]) -> Option<usize> {
        // SAFETY: the root is an array or null, and the text ends with 0.
        unsafe {
            let slot = JudySLGet(self.root, text.as_ptr(), null_mut());
            (!slot.is_null()).then(|| *slot as usize)
        }
    }

    fn remove(&mut self, text: &[u8]) -> bool {
        // SAFETY: the root is an array or null, and the text ends with 0.
        unsafe { JudySLDel(&mut self.root, text.as_ptr(), null_mut()) == 1 }
    }

    /// What `find` finds from `text` on: the text, with its end, and its value.
    fn find(&self, find: Find, text: &[u8]) -> Option<(Vec<u8>, usize)> {
        let mut found = text.to_vec();
        found.resize(self.room, 7);
        // SAFETY: the root is an array or null; there is room for each text.
        let slot = unsafe { find(self.root, found.as_mut_ptr(), null_mut()) };
        // SAFETY: the array is as it was.
        (!slot.is_null()).then(|| unsafe {
            found.truncate(1 + found.iter().position(|byte| *byte == 0).unwrap());
            (found, *slot as usize)
        })
    }

    fn free(&mut self) -> usize {
        // SAFETY: the root is an array or null.
        unsafe { JudySLFreeArray(&mut self.root, null_mut()) }
    }
}

/// One test at a time: they look at the memory and the time of the process.
static ALONE: Mutex<()> = Mutex::new(());

fn on_a_small_stack(work: fn()) {
    let _alone = ALONE.lock();
    let thread = std::thread::Builder::new().stack_size(64 << 10);
    thread.spawn(work).unwrap().join().unwrap();
}

#[test]
fn texts_with_a_long_common_beginning_need_little_stack() {
    on_a_small_stack(|| {
        let length = 200 << 10;
        for extra in 0..9 {
            let ends = ["", "b", "bcdefghijk", "c", "d"];
            let texts = ends.map(|end| text(length + extra, end));
            let mut all = Texts::of(256 << 10);
            for index in [3, 1, 4, 0, 2] {
                all.insert(&texts[index], index + 1);
            }
            for (index, text) in texts.iter().enumerate() {
                assert_eq!(all.get(text), Some(index + 1));
                let next = texts.get(index + 1).map(|next| (next.clone(), index + 2));
                assert!(all.find(JudySLNext, text) == next);
                let previous = index.checked_sub(1).map(|at| (texts[at].clone(), at + 1));
                assert!(all.find(JudySLPrev, text) == previous);
                assert!(all.find(JudySLFirst, text) == Some((text.clone(), index + 1)));
                assert!(all.find(JudySLLast, text) == Some((text.clone(), index + 1)));
            }
            // The nearest text is found in the first map, far above where the others end.
            all.insert(b"b\0", 6);
            assert!(all.find(JudySLNext, &texts[4]) == Some((b"b\0".to_vec(), 6)));
            assert!(all.find(JudySLPrev, b"b\0") == Some((texts[4].clone(), 5)));
            assert!(all.remove(&texts[2]) && !all.remove(&texts[2]));
            assert_eq!(all.get(&texts[1]), Some(2));
            assert!(all.free() > length && all.root.is_null());
        }
    });
}

#[test]
fn removing_the_last_text_of_a_long_way_frees_the_way() {
    on_a_small_stack(|| {
        let (one, other) = (text(200 << 10, "b"), text(200 << 10, "c"));
        let mut all = Texts::of(256 << 10);
        all.insert(b"alone\0", 1);
        let before = ashlar_wordmap_heap_bytes();
        for _ in 0..100 {
            all.insert(&one, 2);
            all.insert(&other, 3);
            assert!(all.remove(&one) && all.remove(&other));
        }
        // One way has 25,600 maps of 16 bytes or more.
        assert!(ashlar_wordmap_heap_bytes() < before + (10 << 20));
        assert_eq!(all.get(b"alone\0"), Some(1));
        all.free();
    });
}

/// Trees of maps below maps, and of many of them in one map.
#[test]
fn everything_below_a_map_is_freed_once_whatever_its_form() {
    let _alone = ALONE.lock();
    let mut all = Texts::of(80);
    let mut state = 1u64;
    let mut texts = std::collections::BTreeSet::new();
    for _ in 0..3000 {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let letters = (0..(state >> 33) % 70).map(|at| b'a' + (state >> (at % 50) & 1) as u8);
        let text: Vec<u8> = letters.chain([0]).collect();
        if texts.insert(text.clone()) {
            all.insert(&text, texts.len());
        }
    }
    let mut walked = Vec::new();
    let mut found = all.find(JudySLFirst, b"\0");
    while let Some((text, _)) = found {
        found = all.find(JudySLNext, &text);
        walked.push(text);
    }
    assert!(walked.iter().eq(texts.iter()));
    assert!(all.free() > texts.len() * 16 && all.root.is_null());
}

/// Copying what is left of a text for each of its chunks would take minutes.
#[test]
fn the_time_grows_with_the_length_of_the_common_beginning() {
    let _alone = ALONE.lock();
    let start = Instant::now();
    let length = 8 << 20;
    let (one, other) = (text(length, "b"), text(length, "c"));
    let mut all = Texts::of(9 << 20);
    all.insert(&one, 1);
    all.insert(&other, 2);
    assert!(all.find(JudySLNext, &one) == Some((other, 2)));
    all.free();
    assert!(start.elapsed() < Duration::from_secs(30));
}
