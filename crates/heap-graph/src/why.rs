//! Why objects are alive: the paths that lead to them, with equal paths combined.

use std::collections::HashMap;

use crate::graph::{Graph, Node};
use crate::paths::Paths;

/// Objects to which paths of the same labels lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// One of the objects: the path to it represents all paths.
    pub example: Node,
    /// The number of objects.
    pub objects: u64,
    /// Bytes of their cells and payloads.
    pub shallow_bytes: u64,
}

/// The different paths to the objects of a group; those to most objects come first.
pub fn ways(graph: &Graph, paths: &Paths, group: u32) -> Vec<Way> {
    let mut of_path = vec![0u64; graph.nodes()];
    let mut found: HashMap<u64, Way> = HashMap::new();
    for &node in paths.order() {
        let label = graph.label_key(node);
        of_path[node as usize] = match paths.before(node) {
            None => 0,
            // A further link of a chain adds nothing.
            Some(before) if graph.label_key(before) == label => of_path[before as usize],
            Some(before) => mix(of_path[before as usize], label),
        };
        if graph.group(node) == Some(group) {
            let way = found.entry(of_path[node as usize]).or_insert(Way {
                example: node,
                objects: 0,
                shallow_bytes: 0,
            });
            way.objects += 1;
            way.shallow_bytes += graph.shallow_bytes(node);
        }
    }
    let mut ways: Vec<Way> = found.into_values().collect();
    ways.sort_by_key(|way| (std::cmp::Reverse(way.objects), way.example));
    ways
}

/// Combines the number of a path with the label that makes it longer.
fn mix(path: u64, label: u64) -> u64 {
    let mixed = (path.rotate_left(23) ^ label).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// A part of a path: consecutive nodes with one label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The first of these nodes.
    pub node: Node,
    /// How many nodes there are.
    pub count: u64,
}

/// A path whose consecutive nodes with one label are combined.
pub fn steps(graph: &Graph, path: &[Node]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for &node in path {
        match steps.last_mut() {
            Some(step) if graph.label_key(step.node) == graph.label_key(node) => step.count += 1,
            _ => steps.push(Step { node, count: 1 }),
        }
    }
    steps
}
