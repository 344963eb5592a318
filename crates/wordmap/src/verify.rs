//! Walks a whole tree and checks the numbered invariants of `node/mod.rs`.

use crate::map::WordMap;
use crate::memory::NodeSource;
use crate::node::edge::{above, byte, Edge, Kind};
use crate::path::{branch, leaf, leaf_len};
use crate::set::WordSet;
use core::fmt;

/// A broken invariant: its number, and what was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// The number of the invariant, as in `N3`.
    pub invariant: &'static str,
    /// A key near the place in the tree.
    pub key: u64,
    /// What was seen.
    pub seen: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invariant {} is broken near key {:#x}: {}",
            self.invariant, self.key, self.seen
        )
    }
}

fn check(holds: bool, invariant: &'static str, key: u64, seen: &'static str) -> Result<(), Broken> {
    if holds {
        Ok(())
    } else {
        Err(Broken {
            invariant,
            key,
            seen,
        })
    }
}

/// The limits of a subtree: its keys lie in `low..=high`, and its level is at most
/// `level_max` for a branch, `level_max + 1` for a leaf.
struct Bounds {
    low: u64,
    high: u64,
    level_max: usize,
}

fn verify<const V: usize>(edge: Edge, bounds: &Bounds) -> Result<u64, Broken> {
    if edge.is_branch() {
        verify_branch::<V>(edge, bounds)
    } else {
        verify_leaf::<V>(edge, bounds)
    }
}

fn verify_leaf<const V: usize>(edge: Edge, bounds: &Bounds) -> Result<u64, Broken> {
    let known = (Kind::ONE..=Kind::FULL).contains(&edge.kind());
    check(known, "N1", bounds.low, "an edge of no known kind")?;
    if edge.kind() == Kind::FULL {
        check(V == 0, "N1", bounds.low, "a full leaf in a map")?;
        let base = edge.full_base();
        let inside = base >= bounds.low && base | 0xff <= bounds.high;
        check(inside, "N5", base, "a full leaf outside its child's bytes")?;
        return Ok(256);
    }
    let leaf = leaf::<V>(edge);
    let n = leaf.len();
    let mut keys = [0; 256];
    let read = leaf.keys(0, &mut keys);
    check(read == n, "N2", keys[0], "fewer keys than the header says")?;
    for (i, &key) in keys[..n].iter().enumerate() {
        check(
            i == 0 || keys[i - 1] < key,
            "N3",
            key,
            "keys that do not rise",
        )?;
        check(
            leaf.covers(key),
            "N2",
            key,
            "a key without the leaf's upper bytes",
        )?;
        check(leaf.key(i) == key, "N3", key, "one key read in two ways")?;
        check(
            leaf.find(key) == Some(i),
            "N3",
            key,
            "a key that its leaf does not find",
        )?;
    }
    let inside = keys[0] >= bounds.low && keys[n - 1] <= bounds.high;
    check(inside, "N5", keys[0], "a key outside its child's bytes")?;
    let level_ok = edge.kind() == Kind::ONE || edge.level() <= bounds.level_max + 1;
    check(
        level_ok,
        "N7",
        keys[0],
        "a leaf wider than the branch above",
    )?;
    Ok(n as u64)
}

fn verify_branch<const V: usize>(edge: Edge, bounds: &Bounds) -> Result<u64, Broken> {
    let b = branch(edge);
    let level = b.level();
    let low = b.lowest();
    let known = (Kind::LINEAR..=Kind::DIRECT).contains(&edge.kind());
    check(known, "N1", low, "a branch of no known kind")?;
    check(
        level <= bounds.level_max && level >= 1,
        "N7",
        low,
        "a level that does not fall",
    )?;
    let high = low | (u64::MAX >> (56 - 8 * level));
    let overlaps = low <= bounds.high && high >= bounds.low;
    check(overlaps, "N5", low, "a branch outside its child's bytes")?;
    let mut total = 0;
    let mut children = 0;
    let mut slot = Some(0);
    while let Some(s) = slot {
        let next = b.next_slot(s);
        let child = b.child(s);
        let from = first_byte(edge, s);
        let until = next.map_or(255, |n| first_byte(edge, n) - 1);
        let unit = 1u64 << (8 * level);
        let inner = Bounds {
            low: low + from * unit,
            high: low + until * unit + (unit - 1),
            level_max: if child.is_branch() { level - 1 } else { level },
        };
        let count = verify::<V>(child, &inner)?;
        check(
            b.slot(from as u8) == s || edge.kind() == Kind::DIRECT,
            "N5",
            inner.low,
            "a separator that leads elsewhere",
        )?;
        let one_byte = child.is_branch() || child.kind() == Kind::FULL || leaf_len::<V>(child) == 1;
        if !one_byte && leaf::<V>(child).level() <= level {
            let lowest = leaf::<V>(child).lowest();
            check(
                above(lowest ^ low, level + 1) == 0,
                "N2",
                lowest,
                "a leaf under a foreign branch",
            )?;
            let b = u64::from(byte(lowest, level));
            check(
                (from..=until).contains(&b),
                "N5",
                lowest,
                "a leaf outside its bytes",
            )?;
        }
        total += count;
        children += 1;
        slot = next;
    }
    check(
        children >= 2 && children == b.len(),
        "N5",
        low,
        "a wrong number of children",
    )?;
    check(total == b.count(), "N6", low, "a wrong subtree count")?;
    let slots = if edge.kind() == Kind::DIRECT {
        256
    } else {
        b.len()
    };
    check(
        b.noted_slot() < slots,
        "N8",
        low,
        "a slot noted that is not there",
    )?;
    Ok(total)
}

/// The first byte that leads to the child of `slot`.
fn first_byte(edge: Edge, slot: usize) -> u64 {
    let b = branch(edge);
    let child = b.child(slot);
    (0..=255u8)
        .find(|&byte| b.child(b.slot(byte)) == child)
        .map_or(0, u64::from)
}

const ALL: Bounds = Bounds {
    low: 0,
    high: u64::MAX,
    level_max: 7,
};

impl<A: NodeSource> WordMap<A> {
    /// Checks every node against the invariants. For tests and fuzzing.
    ///
    /// # Errors
    /// Returns the first broken invariant that is found.
    pub fn verify(&self) -> Result<(), Broken> {
        match self.tree.root {
            root if root.is_null() => Ok(()),
            root => verify::<1>(root, &ALL).map(|_| ()),
        }
    }
}

impl<A: NodeSource> WordSet<A> {
    /// Checks every node against the invariants. For tests and fuzzing.
    ///
    /// # Errors
    /// Returns the first broken invariant that is found.
    pub fn verify(&self) -> Result<(), Broken> {
        match self.tree.root {
            root if root.is_null() => Ok(()),
            root => verify::<0>(root, &ALL).map(|_| ()),
        }
    }
}
