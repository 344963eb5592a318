//! Dominators: which objects keep which alive.
//!
//! The algorithm is semi-NCA: semidominators as Lengauer and Tarjan find them (A Fast
//! Algorithm for Finding Dominators in a Flowgraph, TOPLAS 1979), with path compression,
//! and then the immediate dominator of a node as the nearest common ancestor of its
//! parent and its semidominator (Georgiadis, Tarjan, Werneck: Finding Dominators in
//! Practice, Journal of Graph Algorithms and Applications, 2006). In the worst case it
//! takes time quadratic in the nodes; on heaps it is near to linear. `docs/design/heap-dump.md`
//! has the measurement against the iterative algorithm of Cooper, Harvey and Kennedy.
//!
//! No function here is recursive: a linked list makes paths as long as the heap.

use crate::graph::{Graph, Node, NONE};

/// The dominator tree of what can be reached from the root.
///
/// Nodes are numbered in the order in which a depth-first search meets them: a node's
/// dominators have smaller numbers. In this file, nodes are mostly identified by these
/// numbers.
#[derive(Debug)]
pub struct Dominators {
    /// The node with each number.
    node: Vec<Node>,
    /// The number of each node; `NONE` for nodes that cannot be reached.
    number: Vec<u32>,
    /// The number of the immediate dominator of each number; the root's is its own.
    immediate: Vec<u32>,
}

impl Dominators {
    /// Finds the dominators of all nodes that can be reached.
    pub fn of(graph: &Graph) -> Self {
        let Search {
            node,
            number,
            parent,
        } = Search::of(graph);
        let predecessors = Predecessors::of(graph, &node, &number);
        let semi = semidominators(&parent, &predecessors);
        drop(predecessors);
        let immediate = nearest_common_ancestors(parent, &semi);
        Self {
            node,
            number,
            immediate,
        }
    }

    /// How many nodes can be reached; all numbers are below this.
    pub fn reached(&self) -> usize {
        self.node.len()
    }

    /// The node with a number.
    pub fn node(&self, number: u32) -> Node {
        self.node[number as usize]
    }

    /// The number of a node, `None` when it cannot be reached.
    pub fn number(&self, node: Node) -> Option<u32> {
        Some(self.number[node as usize]).filter(|&number| number != NONE)
    }

    /// The number of the immediate dominator. The root has none; its own number is
    /// returned.
    #[inline]
    pub fn immediate(&self, number: u32) -> u32 {
        self.immediate[number as usize]
    }

    /// Returns what each number dominates immediately.
    pub fn children(&self) -> Children {
        let reached = self.reached();
        let mut first = vec![0u32; reached + 1];
        for &above in self.immediate.iter().skip(1) {
            first[above as usize + 1] += 1;
        }
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        let mut next = first.clone();
        let mut below = vec![0; reached.saturating_sub(1)];
        for (number, &above) in self.immediate.iter().enumerate().skip(1) {
            let place = &mut next[above as usize];
            below[*place as usize] = number as u32;
            *place += 1;
        }
        Children { first, below }
    }
}

/// The dominator tree from the top down.
#[derive(Debug)]
pub struct Children {
    first: Vec<u32>,
    below: Vec<u32>,
}

impl Children {
    /// The numbers that `number` dominates immediately.
    #[inline]
    pub fn of(&self, number: u32) -> &[u32] {
        let number = number as usize;
        &self.below[self.first[number] as usize..self.first[number + 1] as usize]
    }
}

/// A depth-first search from the root.
struct Search {
    node: Vec<Node>,
    number: Vec<u32>,
    /// For each number, the number of the node from which it was met.
    parent: Vec<u32>,
}

impl Search {
    fn of(graph: &Graph) -> Self {
        let mut search = Self {
            node: Vec::new(),
            number: vec![NONE; graph.nodes()],
            parent: Vec::new(),
        };
        // The numbers of nodes on the path, and how many of their edges have been
        // followed.
        let mut path: Vec<(u32, u32)> = Vec::new();
        search.meet(graph.root(), 0);
        path.push((0, 0));
        while let Some((number, followed)) = path.last_mut() {
            let from = *number;
            let edges = &graph.edges(search.node[from as usize])[*followed as usize..];
            let new = edges
                .iter()
                .position(|&to| search.number[to as usize] == NONE);
            match new {
                None => {
                    path.pop();
                }
                Some(skipped) => {
                    *followed += skipped as u32 + 1;
                    let met = search.meet(edges[skipped], from);
                    path.push((met, 0));
                }
            }
        }
        search
    }

    fn meet(&mut self, node: Node, from: u32) -> u32 {
        let number = self.node.len() as u32;
        self.number[node as usize] = number;
        self.node.push(node);
        self.parent.push(from);
        number
    }
}

/// For each number, the numbers whose nodes refer to it.
struct Predecessors {
    first: Vec<u32>,
    numbers: Vec<u32>,
}

impl Predecessors {
    fn of(graph: &Graph, node: &[Node], number: &[u32]) -> Self {
        let mut first = vec![0u32; node.len() + 1];
        for &from in node {
            for &to in graph.edges(from) {
                first[number[to as usize] as usize + 1] += 1;
            }
        }
        for index in 1..first.len() {
            first[index] += first[index - 1];
        }
        // Filled from the back, so that `next` ends at the start of each list and one
        // table is enough.
        let mut numbers = vec![0; first[node.len()] as usize];
        let mut next: Vec<u32> = first[1..].to_vec();
        for (from, &node) in node.iter().enumerate() {
            for &to in graph.edges(node) {
                let place = &mut next[number[to as usize] as usize];
                *place -= 1;
                numbers[*place as usize] = from as u32;
            }
        }
        Self { first, numbers }
    }

    fn of_number(&self, number: u32) -> &[u32] {
        let number = number as usize;
        &self.numbers[self.first[number] as usize..self.first[number + 1] as usize]
    }
}

/// Computes the semidominator of each number: the smallest number from which a path leads
/// to it on which all nodes in between have larger numbers than it has.
fn semidominators(parent: &[u32], predecessors: &Predecessors) -> Vec<u32> {
    let mut forest = Forest {
        above: parent.to_vec(),
        least: (0..parent.len() as u32).collect(),
        path: Vec::new(),
    };
    let mut semi = parent.to_vec();
    for number in (1..parent.len() as u32).rev() {
        let mut found = parent[number as usize];
        for &from in predecessors.of_number(number) {
            found = found.min(match from <= number {
                true => from,
                false => forest.least_above(from, number),
            });
        }
        semi[number as usize] = found;
        forest.least[number as usize] = found;
    }
    semi
}

/// The search tree of the numbers that have been processed, which are the larger ones.
struct Forest {
    /// An ancestor of each number: its parent, or, after compression, one farther up.
    above: Vec<u32>,
    /// The least semidominator from a number, included, up to `above`, excluded.
    least: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    /// The least semidominator of `from` and of those of its ancestors whose numbers are
    /// above `limit`.
    #[inline]
    fn least_above(&mut self, from: u32, limit: u32) -> u32 {
        let mut top = from;
        while self.above[top as usize] > limit {
            self.path.push(top);
            top = self.above[top as usize];
        }
        // From the top down, each number takes the minimum over what is above it.
        let (end, mut least) = (self.above[top as usize], self.least[top as usize]);
        while let Some(number) = self.path.pop() {
            let number = number as usize;
            least = least.min(self.least[number]);
            self.least[number] = least;
            self.above[number] = end;
        }
        least
    }
}

/// Computes immediate dominators from parents and semidominators.
fn nearest_common_ancestors(parent: Vec<u32>, semi: &[u32]) -> Vec<u32> {
    let mut immediate = parent;
    for number in 1..immediate.len() {
        let mut above = immediate[number];
        while above > semi[number] {
            above = immediate[above as usize];
        }
        immediate[number] = above;
    }
    immediate
}
