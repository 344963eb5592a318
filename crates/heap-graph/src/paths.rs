//! Short paths from the roots, to say why an object is alive.

use std::collections::VecDeque;

use crate::graph::{Graph, Node, NONE};

/// A shortest path to each object.
///
/// Some paths explain more than others. Paths through caches of compiled code are taken only
/// where there is no other, and paths from the machine's stack only where there is no other
/// at all.
#[derive(Debug)]
pub struct Paths {
    /// The node before each node on its path; `NONE` for nodes that are not reached and for
    /// the root.
    before: Vec<Node>,
    /// All nodes that are reached, each after the node before it on its path.
    order: Vec<Node>,
}

/// Paths are searched for in this many rounds, the preferred ones first.
const SEARCHES: usize = 3;
const OF_CACHES: usize = 1;
const OF_STACKS: usize = 2;

/// The category of roots found on stacks.
const STACK_CATEGORY: &str = "machine_context";
/// Kinds of objects whose references other objects have, too.
const CACHE_KINDS: [&str; 3] = ["IMEMO constcache", "IMEMO callcache", "IMEMO callinfo"];

impl Paths {
    /// Finds the paths.
    pub fn of(graph: &Graph) -> Self {
        let mut before = vec![NONE; graph.nodes()];
        let mut order = vec![graph.root()];
        let mut searches: [VecDeque<(Node, Node)>; SEARCHES] = Default::default();
        for (category, name) in graph.categories() {
            let search = if name == STACK_CATEGORY { OF_STACKS } else { 0 };
            searches[search].push_back((category, graph.root()));
        }
        for search in 0..SEARCHES {
            let mut next = order.len();
            // Where this search begins, and the node before.
            while let Some((start, from)) = searches[search].pop_front() {
                if before[start as usize] == NONE {
                    before[start as usize] = from;
                    order.push(start);
                }
            }
            while let Some(&node) = order.get(next) {
                next += 1;
                let is_cache = search < OF_CACHES && CACHE_KINDS.contains(&graph.kind(node));
                for &to in graph.edges(node) {
                    if before[to as usize] != NONE {
                        continue;
                    }
                    if is_cache {
                        searches[OF_CACHES].push_back((to, node));
                    } else {
                        before[to as usize] = node;
                        order.push(to);
                    }
                }
            }
        }
        Self { before, order }
    }

    /// The path to a node, from a category of roots to the node itself; empty when it cannot
    /// be reached.
    pub fn to(&self, node: Node) -> Vec<Node> {
        let mut path = Vec::new();
        let mut at = node;
        while self.before[at as usize] != NONE {
            path.push(at);
            at = self.before[at as usize];
        }
        path.reverse();
        path
    }

    /// The node before `node` on its path.
    pub fn before(&self, node: Node) -> Option<Node> {
        Some(self.before[node as usize]).filter(|&before| before != NONE)
    }

    /// All nodes that are reached, each after the node before it on its path.
    pub fn order(&self) -> &[Node] {
        &self.order
    }
}
