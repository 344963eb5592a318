//! Retained sizes: the bytes that would be freed if an object were gone.

use crate::dominators::{Children, Dominators};
use crate::graph::{Graph, Node, NONE};

/// Computes the retained bytes of each number of a dominator tree.
pub fn sizes(graph: &Graph, dominators: &Dominators) -> Vec<u64> {
    let reached = dominators.reached() as u32;
    let shallow = |number| graph.shallow_bytes(dominators.node(number));
    let mut bytes: Vec<u64> = (0..reached).map(shallow).collect();
    for number in (1..reached).rev() {
        let above = dominators.immediate(number) as usize;
        bytes[above] += bytes[number as usize];
    }
    bytes
}

/// The objects of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSize {
    /// The number of objects.
    pub objects: u64,
    /// Bytes of their cells.
    pub cell_bytes: u64,
    /// Bytes that they own outside their cells.
    pub payload_bytes: u64,
    /// The sum of the bytes that each object retains; what one of them retains through
    /// another counts once. What only several of them together keep is not included.
    pub retained_bytes: u64,
}

/// Computes sizes by group. Objects that cannot be reached are not counted.
pub fn by_group(
    graph: &Graph,
    dominators: &Dominators,
    children: &Children,
    sizes: &[u64],
) -> Vec<GroupSize> {
    let mut groups = vec![GroupSize::default(); graph.groups().len()];
    // How many objects of each group are on the path from the root.
    let mut open = vec![0u32; groups.len()];
    // The numbers to enter, and the complements of the numbers to leave.
    let mut stack = vec![0u32];
    while let Some(number) = stack.pop() {
        let is_left = number > u32::MAX / 2;
        let number = if is_left { !number } else { number };
        let node = dominators.node(number);
        let Some(group) = graph.group(node) else {
            stack.extend(children.of(number));
            continue;
        };
        let group = group as usize;
        if is_left {
            open[group] -= 1;
            continue;
        }
        let size = &mut groups[group];
        size.objects += 1;
        size.cell_bytes += graph.cell_bytes(node);
        size.payload_bytes += graph.payload_bytes(node);
        if open[group] == 0 {
            size.retained_bytes += sizes[number as usize];
        }
        let below = children.of(number);
        if !below.is_empty() {
            open[group] += 1;
            stack.push(!number);
            stack.extend(below);
        }
    }
    groups
}

/// Returns the bytes and objects that would be freed if all objects were gone for which
/// `is_gone` is true: all that can be reached from the root, and only through these
/// objects.
pub fn without(
    graph: &Graph,
    dominators: &Dominators,
    is_gone: impl Fn(Node) -> bool,
) -> (u64, u64) {
    let mut seen = vec![false; graph.nodes()];
    let mut stack = vec![graph.root()];
    seen[graph.root() as usize] = true;
    while let Some(node) = stack.pop() {
        for &to in graph.edges(node) {
            if !seen[to as usize] && !is_gone(to) {
                seen[to as usize] = true;
                stack.push(to);
            }
        }
    }
    let mut freed = (0, 0);
    for number in 0..dominators.reached() as u32 {
        let node = dominators.node(number);
        if !seen[node as usize] {
            freed = (freed.0 + graph.shallow_bytes(node), freed.1 + 1);
        }
    }
    freed
}

/// Objects of one label that are kept by the same path of labels.
#[derive(Clone, Debug)]
pub struct Branch {
    /// The first of the objects.
    pub node: Node,
    /// The number of objects. An object that another one of them keeps is included.
    pub objects: u64,
    /// Bytes of their cells and payloads.
    pub shallow_bytes: u64,
    /// Bytes that they retain.
    pub retained_bytes: u64,
    /// What the objects keep, the largest first, without branches that are too small.
    pub below: Vec<Branch>,
}

/// Branches deeper than this are cut.
const DEPTH_MAX: usize = 60;

/// Returns the part of the dominator tree below one number; 0 stands for all of it. Objects
/// of one label below one branch are combined, and branches that retain less than
/// `least_bytes` are left out.
pub fn tree(
    graph: &Graph,
    dominators: &Dominators,
    children: &Children,
    sizes: &[u64],
    number: u32,
    least_bytes: u64,
) -> Branch {
    let look = Look {
        graph,
        dominators,
        children,
        sizes,
        least_bytes,
    };
    look.branch(vec![number], 0)
}

struct Look<'a> {
    graph: &'a Graph,
    dominators: &'a Dominators,
    children: &'a Children,
    sizes: &'a [u64],
    least_bytes: u64,
}

impl Look<'_> {
    fn key(&self, number: u32) -> u64 {
        self.graph.label_key(self.dominators.node(number))
    }

    /// Makes the branch of these numbers, which have one label and whose dominators are in
    /// the branch above. It is recursive, at most [`DEPTH_MAX`] levels deep.
    fn branch(&self, mut members: Vec<u32>, depth: usize) -> Branch {
        let retained_bytes = members
            .iter()
            .map(|&member| self.sizes[member as usize])
            .sum();
        let key = self.key(members[0]);
        let mut below = Vec::new();
        let (mut next, mut shallow_bytes) = (0, 0);
        while let Some(&member) = members.get(next) {
            next += 1;
            shallow_bytes += self.graph.shallow_bytes(self.dominators.node(member));
            for &child in self.children.of(member) {
                match self.key(child) {
                    // The links of a chain are one branch.
                    same if same == key => members.push(child),
                    other => below.push((other, child)),
                }
            }
        }
        Branch {
            node: self.dominators.node(members[0]),
            objects: members.len() as u64,
            shallow_bytes,
            retained_bytes,
            below: if depth < DEPTH_MAX {
                self.branches(below, depth + 1)
            } else {
                Vec::new()
            },
        }
    }

    /// Makes the branches of these numbers, each given with its label.
    fn branches(&self, mut members: Vec<(u64, u32)>, depth: usize) -> Vec<Branch> {
        members.sort_unstable();
        let mut found = Vec::new();
        for members in members.chunk_by(|one, other| one.0 == other.0) {
            let bytes: u64 = members
                .iter()
                .map(|&(_, member)| self.sizes[member as usize])
                .sum();
            if bytes >= self.least_bytes.max(1) {
                let members = members.iter().map(|&(_, member)| member).collect();
                found.push(self.branch(members, depth));
            }
        }
        found.sort_by_key(|branch| std::cmp::Reverse(branch.retained_bytes));
        found
    }
}

/// The `count` objects that retain most, the largest first.
pub fn largest(graph: &Graph, dominators: &Dominators, sizes: &[u64], count: usize) -> Vec<u32> {
    let is_object = |&number: &u32| (dominators.node(number) as usize) < graph.objects();
    let mut numbers: Vec<u32> = (0..dominators.reached() as u32).filter(is_object).collect();
    let order = |&number: &u32| (std::cmp::Reverse(sizes[number as usize]), number);
    if numbers.len() > count {
        numbers.select_nth_unstable_by_key(count, order);
        numbers.truncate(count);
    }
    numbers.sort_by_key(order);
    numbers
}

/// A node's dominators, from the root of all down to the node itself.
pub fn keepers(dominators: &Dominators, number: u32) -> Vec<u32> {
    let mut path = vec![number];
    let mut at = number;
    while at != 0 && at != NONE {
        at = dominators.immediate(at);
        path.push(at);
    }
    path.reverse();
    path
}
