//! The maps and sets that are measured, behind one interface each.

use ashlar_wordmap::memory::SharedHeap;
use ashlar_wordmap::{WordMap, WordSet};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, c_int, c_void, CString};
use std::sync::OnceLock;

/// What a walk over a map saw: enough to notice a wrong or missing entry.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub entries: u64,
    pub key_sum: u64,
    pub value_sum: u64,
}

impl Seen {
    #[inline(always)]
    pub fn add(&mut self, key: u64, value: u64) {
        self.entries += 1;
        self.key_sum = self.key_sum.wrapping_add(key);
        self.value_sum = self.value_sum.wrapping_add(value);
    }
}

/// An ordered walk is part of the interface; hash tables sort to give it.
pub trait Map {
    fn new() -> Self;
    fn insert(&mut self, key: u64, value: u64);
    fn get(&self, key: u64) -> Option<u64>;
    fn remove(&mut self, key: u64) -> bool;
    fn walk(&self) -> Seen;
    /// A map of entries whose keys rise, the value of each being its complement: what the
    /// peer has for it, else insertion.
    fn build(keys: &[u64]) -> Self
    where
        Self: Sized,
    {
        let mut map = Self::new();
        for key in keys {
            map.insert(*key, !*key);
        }
        map
    }
    /// Bytes taken from the system for all maps of this kind, handles aside.
    fn system_bytes() -> u64 {
        malloc_bytes()
    }
}

pub trait Set {
    fn new() -> Self;
    fn insert(&mut self, key: u64);
    fn contains(&self, key: u64) -> bool;
    fn walk(&self) -> Seen;
    fn system_bytes() -> u64 {
        malloc_bytes()
    }
}

/// What malloc has handed out, its headers included.
fn malloc_bytes() -> u64 {
    // SAFETY: no arguments, no state of ours.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}

impl Map for WordMap {
    fn new() -> Self {
        WordMap::new()
    }
    #[inline(always)]
    fn insert(&mut self, key: u64, value: u64) {
        WordMap::insert(self, key, value);
    }
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        WordMap::get(self, key).copied()
    }
    fn remove(&mut self, key: u64) -> bool {
        WordMap::remove(self, key).is_some()
    }
    fn walk(&self) -> Seen {
        let mut seen = Seen::default();
        for (key, value) in self {
            seen.add(key, *value);
        }
        seen
    }
    fn build(keys: &[u64]) -> Self {
        let mut map = WordMap::new();
        let built = map.try_fill_sorted(keys.iter().map(|key| (*key, !*key)));
        built.expect("rising keys, and memory for them");
        map
    }
    fn system_bytes() -> u64 {
        SharedHeap.heap().usage().reserved_bytes as u64
    }
}

impl Set for WordSet {
    fn new() -> Self {
        WordSet::new()
    }
    fn insert(&mut self, key: u64) {
        WordSet::insert(self, key);
    }
    #[inline(always)]
    fn contains(&self, key: u64) -> bool {
        WordSet::contains(self, key)
    }
    fn walk(&self) -> Seen {
        let mut seen = Seen::default();
        for key in self {
            seen.add(key, 0);
        }
        seen
    }
    fn system_bytes() -> u64 {
        SharedHeap.heap().usage().reserved_bytes as u64
    }
}

pub type FxMap = HashMap<u64, u64, FxBuildHasher>;

impl Map for FxMap {
    fn new() -> Self {
        FxMap::default()
    }
    #[inline(always)]
    fn insert(&mut self, key: u64, value: u64) {
        HashMap::insert(self, key, value);
    }
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        HashMap::get(self, &key).copied()
    }
    fn remove(&mut self, key: u64) -> bool {
        HashMap::remove(self, &key).is_some()
    }
    fn walk(&self) -> Seen {
        let mut entries: Vec<_> = self.iter().map(|(k, v)| (*k, *v)).collect();
        entries.sort_unstable();
        let mut seen = Seen::default();
        for (key, value) in entries {
            seen.add(key, value);
        }
        seen
    }
}

impl Map for BTreeMap<u64, u64> {
    fn new() -> Self {
        BTreeMap::new()
    }
    #[inline(always)]
    fn insert(&mut self, key: u64, value: u64) {
        BTreeMap::insert(self, key, value);
    }
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        BTreeMap::get(self, &key).copied()
    }
    fn remove(&mut self, key: u64) -> bool {
        BTreeMap::remove(self, &key).is_some()
    }
    fn walk(&self) -> Seen {
        let mut seen = Seen::default();
        for (key, value) in self {
            seen.add(*key, *value);
        }
        seen
    }
    fn build(keys: &[u64]) -> Self {
        keys.iter().map(|key| (*key, !*key)).collect()
    }
}

impl Set for BTreeSet<u64> {
    fn new() -> Self {
        BTreeSet::new()
    }
    fn insert(&mut self, key: u64) {
        BTreeSet::insert(self, key);
    }
    fn contains(&self, key: u64) -> bool {
        BTreeSet::contains(self, &key)
    }
    fn walk(&self) -> Seen {
        let mut seen = Seen::default();
        for key in self {
            seen.add(*key, 0);
        }
        seen
    }
}

/// Entries in a sorted vector: the floor for small maps.
pub struct SortedVec(Vec<(u64, u64)>);

impl Map for SortedVec {
    fn new() -> Self {
        SortedVec(Vec::new())
    }
    fn insert(&mut self, key: u64, value: u64) {
        match self.0.binary_search_by_key(&key, |e| e.0) {
            Ok(i) => self.0[i].1 = value,
            Err(i) => {
                self.0.reserve_exact(1);
                self.0.insert(i, (key, value));
            }
        }
    }
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        let i = self.0.binary_search_by_key(&key, |e| e.0).ok()?;
        Some(self.0[i].1)
    }
    fn remove(&mut self, key: u64) -> bool {
        match self.0.binary_search_by_key(&key, |e| e.0) {
            Ok(i) => {
                self.0.remove(i);
                true
            }
            Err(_) => false,
        }
    }
    fn walk(&self) -> Seen {
        let mut seen = Seen::default();
        for (key, value) in &self.0 {
            seen.add(*key, *value);
        }
        seen
    }
}

pub struct Expanse(expanse_trie::ExpanseMap);

impl Map for Expanse {
    fn new() -> Self {
        Expanse(expanse_trie::ExpanseMap::new())
    }
    #[inline(always)]
    fn insert(&mut self, key: u64, value: u64) {
        self.0.insert(key, value);
    }
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(key)
    }
    fn remove(&mut self, key: u64) -> bool {
        self.0.remove(key).is_some()
    }
    fn walk(&self) -> Seen {
        let mut seen = Seen::default();
        for (key, value) in self.0.iter() {
            seen.add(key, value);
        }
        seen
    }
}

pub struct ExpanseSet(expanse_trie::ExpanseSet);

impl Set for ExpanseSet {
    fn new() -> Self {
        ExpanseSet(expanse_trie::ExpanseSet::new())
    }
    fn insert(&mut self, key: u64) {
        self.0.insert(key);
    }
    #[inline(always)]
    fn contains(&self, key: u64) -> bool {
        self.0.contains(key)
    }
    fn walk(&self) -> Seen {
        let mut seen = Seen::default();
        for key in self.0.iter() {
            seen.add(key, 0);
        }
        seen
    }
}

pub struct CongeeMap(congee::Congee<usize, usize>, std::cell::Cell<u64>);

impl Map for CongeeMap {
    fn new() -> Self {
        CongeeMap(congee::Congee::default(), std::cell::Cell::new(0))
    }
    fn insert(&mut self, key: u64, value: u64) {
        let guard = self.0.pin();
        let done = self.0.insert(key as usize, value as usize, &guard);
        done.expect("memory for a congee node");
        self.1.set(self.1.get() + 1);
    }
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        let guard = self.0.pin();
        self.0.get(&(key as usize), &guard).map(|v| v as u64)
    }
    fn remove(&mut self, key: u64) -> bool {
        let guard = self.0.pin();
        self.0.remove(&(key as usize), &guard).is_some()
    }
    fn walk(&self) -> Seen {
        let guard = self.0.pin();
        let mut seen = Seen::default();
        let mut batch = vec![(0usize, 0usize); 4096];
        let mut from = 0usize;
        loop {
            let n = self.0.range(&from, &usize::MAX, &mut batch, &guard);
            for (key, value) in &batch[..n] {
                seen.add(*key as u64, *value as u64);
            }
            if n < batch.len() || batch[n - 1].0 == usize::MAX {
                return seen;
            }
            from = batch[n - 1].0 + 1;
        }
    }
}

pub struct Blart(blart::TreeMap<[u8; 8], u64>);

impl Map for Blart {
    fn new() -> Self {
        Blart(blart::TreeMap::new())
    }
    fn insert(&mut self, key: u64, value: u64) {
        self.0.insert(key.to_be_bytes(), value);
    }
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key.to_be_bytes()).copied()
    }
    fn remove(&mut self, key: u64) -> bool {
        self.0.remove(&key.to_be_bytes()).is_some()
    }
    fn walk(&self) -> Seen {
        let mut seen = Seen::default();
        for (key, value) in self.0.iter() {
            seen.add(u64::from_be_bytes(*key), *value);
        }
        seen
    }
}

type Fill =
    unsafe extern "C" fn(*mut *mut c_void, usize, *const u64, *const u64, *mut c_void) -> c_int;

/// The functions of a library with libJudy's interface.
struct Judy {
    insert: unsafe extern "C" fn(*mut *mut c_void, u64, *mut c_void) -> *mut u64,
    fill: Fill,
    get: unsafe extern "C" fn(*const c_void, u64, *mut c_void) -> *mut u64,
    delete: unsafe extern "C" fn(*mut *mut c_void, u64, *mut c_void) -> c_int,
    first: unsafe extern "C" fn(*const c_void, *mut u64, *mut c_void) -> *mut u64,
    next: unsafe extern "C" fn(*const c_void, *mut u64, *mut c_void) -> *mut u64,
    free: unsafe extern "C" fn(*mut *mut c_void, *mut c_void) -> u64,
    set: unsafe extern "C" fn(*mut *mut c_void, u64, *mut c_void) -> c_int,
    test: unsafe extern "C" fn(*const c_void, u64, *mut c_void) -> c_int,
    first1: unsafe extern "C" fn(*const c_void, *mut u64, *mut c_void) -> c_int,
    next1: unsafe extern "C" fn(*const c_void, *mut u64, *mut c_void) -> c_int,
    free1: unsafe extern "C" fn(*mut *mut c_void, *mut c_void) -> u64,
    /// Ours only: the bytes its heap has taken.
    heap_bytes: Option<unsafe extern "C" fn() -> u64>,
}

static JUDY: OnceLock<Judy> = OnceLock::new();

/// Whether the system's loader finds a library by this name or path.
pub fn can_load(path: &str) -> bool {
    let library = load(path);
    // SAFETY: the handle is one of `dlopen`, which nothing else has, or null and not used.
    !library.is_null() && unsafe { libc::dlclose(library) } == 0
}

/// Null where there is none.
fn load(path: &str) -> *mut c_void {
    let Ok(name) = CString::new(path) else {
        return std::ptr::null_mut(); // no file has a name with a NUL
    };
    // SAFETY: the name ends with a NUL; a library with libJudy's interface does nothing when it is loaded.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
}

/// Loads the library that [`JudyMap`] and [`JudySet`] call.
pub fn load_judy(path: &str) {
    let library = load(path);
    if library.is_null() {
        crate::stop(&format!("cannot load {path}; build or install it"));
    }
    // SAFETY: the symbols have the types of libJudy's documented interface.
    unsafe {
        let find = |symbol: &std::ffi::CStr| {
            let at = libc::dlsym(library, symbol.as_ptr().cast::<c_char>());
            assert!(!at.is_null(), "{path} has no symbol {symbol:?}");
            at
        };
        let heap_bytes = libc::dlsym(library, c"ashlar_wordmap_heap_bytes".as_ptr());
        let judy = Judy {
            insert: std::mem::transmute(find(c"JudyLIns")),
            fill: std::mem::transmute(find(c"JudyLInsArray")),
            get: std::mem::transmute(find(c"JudyLGet")),
            delete: std::mem::transmute(find(c"JudyLDel")),
            first: std::mem::transmute(find(c"JudyLFirst")),
            next: std::mem::transmute(find(c"JudyLNext")),
            free: std::mem::transmute(find(c"JudyLFreeArray")),
            set: std::mem::transmute(find(c"Judy1Set")),
            test: std::mem::transmute(find(c"Judy1Test")),
            first1: std::mem::transmute(find(c"Judy1First")),
            next1: std::mem::transmute(find(c"Judy1Next")),
            free1: std::mem::transmute(find(c"Judy1FreeArray")),
            heap_bytes: (!heap_bytes.is_null()).then(|| std::mem::transmute(heap_bytes)),
        };
        let _ = JUDY.set(judy);
    }
}

#[inline(always)]
fn judy() -> &'static Judy {
    JUDY.get().expect("a library loaded by load_judy")
}

fn judy_bytes() -> u64 {
    match judy().heap_bytes {
        // SAFETY: no arguments.
        Some(bytes) => unsafe { bytes() },
        None => malloc_bytes(),
    }
}

const NO_ERROR: *mut c_void = std::ptr::null_mut();

pub struct JudyMap(*mut c_void);

impl Map for JudyMap {
    fn new() -> Self {
        JudyMap(std::ptr::null_mut())
    }
    #[inline(always)]
    fn insert(&mut self, key: u64, value: u64) {
        // SAFETY: the array is ours; the slot is valid until the next insertion.
        unsafe { *(judy().insert)(&mut self.0, key, NO_ERROR) = value }
    }
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        // SAFETY: as `insert`.
        unsafe { (judy().get)(self.0, key, NO_ERROR).as_ref().copied() }
    }
    fn remove(&mut self, key: u64) -> bool {
        // SAFETY: as `insert`.
        unsafe { (judy().delete)(&mut self.0, key, NO_ERROR) == 1 }
    }
    fn walk(&self) -> Seen {
        let mut seen = Seen::default();
        let mut key = 0;
        // SAFETY: as `insert`.
        unsafe {
            let mut slot = (judy().first)(self.0, &mut key, NO_ERROR);
            while let Some(value) = slot.as_ref() {
                seen.add(key, *value);
                slot = (judy().next)(self.0, &mut key, NO_ERROR);
            }
        }
        seen
    }
    fn system_bytes() -> u64 {
        judy_bytes()
    }
    fn build(keys: &[u64]) -> Self {
        let mut map = JudyMap::new();
        let values: Vec<u64> = keys.iter().map(|key| !*key).collect();
        // SAFETY: both lead to as many words as said.
        let built = unsafe {
            (judy().fill)(
                &mut map.0,
                keys.len(),
                keys.as_ptr(),
                values.as_ptr(),
                NO_ERROR,
            )
        };
        assert_eq!(built, 1, "an array could not be built");
        map
    }
}

impl Drop for JudyMap {
    fn drop(&mut self) {
        // SAFETY: as `insert`.
        unsafe { (judy().free)(&mut self.0, NO_ERROR) };
    }
}

pub struct JudySet(*mut c_void);

impl Set for JudySet {
    fn new() -> Self {
        JudySet(std::ptr::null_mut())
    }
    fn insert(&mut self, key: u64) {
        // SAFETY: the array is ours.
        unsafe { (judy().set)(&mut self.0, key, NO_ERROR) };
    }
    #[inline(always)]
    fn contains(&self, key: u64) -> bool {
        // SAFETY: as `insert`.
        unsafe { (judy().test)(self.0, key, NO_ERROR) == 1 }
    }
    fn walk(&self) -> Seen {
        let mut seen = Seen::default();
        let mut key = 0;
        // SAFETY: as `insert`.
        unsafe {
            let mut found = (judy().first1)(self.0, &mut key, NO_ERROR);
            while found == 1 {
                seen.add(key, 0);
                found = (judy().next1)(self.0, &mut key, NO_ERROR);
            }
        }
        seen
    }
    fn system_bytes() -> u64 {
        judy_bytes()
    }
}

impl Drop for JudySet {
    fn drop(&mut self) {
        // SAFETY: as `insert`.
        unsafe { (judy().free1)(&mut self.0, NO_ERROR) };
    }
}
