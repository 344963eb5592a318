//! Dominators, retained sizes and paths against their definitions, on random graphs.

use std::collections::HashSet;

use ashlar_heap_graph::dominators::Dominators;
use ashlar_heap_graph::graph::{Builder, Graph, Node, Object};
use ashlar_heap_graph::paths::Paths;
use ashlar_heap_graph::{retained, why};
use proptest::prelude::*;

/// A graph of objects 0, 1, 2, ...: who refers to whom, and which are roots. Object `n` has
/// `n` bytes of payload and one of four classes.
#[derive(Clone, Debug)]
struct Plan {
    objects: usize,
    references: Vec<(usize, usize)>,
    roots: Vec<usize>,
}

fn address(object: usize) -> u64 {
    0x7f00_0000_0000 + 40 * object as u64
}

impl Plan {
    fn graph(&self) -> Graph {
        let mut builder = Builder::default();
        for (index, &root) in self.roots.iter().enumerate() {
            let category = if index % 2 == 0 { "vm" } else { "global_tbl" };
            builder.root(category, address(root)).unwrap();
        }
        for object in 0..self.objects {
            let kind = ["STRING", "ARRAY", "HASH", "OBJECT"][object % 4];
            builder
                .object(&Object {
                    address: address(object),
                    kind,
                    cell_bytes: 40,
                    payload_bytes: object,
                    ..Object::default()
                })
                .unwrap();
            for &(from, to) in &self.references {
                if from == object {
                    builder.reference(address(to)).unwrap();
                }
            }
        }
        builder.finish()
    }
}

fn plans() -> impl Strategy<Value = Plan> {
    (1usize..24).prop_flat_map(|objects| {
        let references = prop::collection::vec((0..objects, 0..objects), 0..objects * 3);
        let roots = prop::collection::vec(0..objects, 0..4);
        (references, roots).prop_map(move |(references, roots)| Plan {
            objects,
            references,
            roots,
        })
    })
}

/// What can be reached from the root without going through any of `gone`.
fn reached_without(graph: &Graph, gone: impl Fn(Node) -> bool) -> HashSet<Node> {
    let mut reached = HashSet::new();
    let mut open = vec![graph.root()];
    while let Some(node) = open.pop() {
        if !gone(node) && reached.insert(node) {
            open.extend(graph.edges(node));
        }
    }
    reached
}

proptest! {
    /// A dominates B exactly if B cannot be reached without A; the immediate dominator is the
    /// one that all the others dominate.
    #[test]
    fn dominators_are_what_every_path_goes_through(plan in plans()) {
        let graph = plan.graph();
        let dominators = Dominators::of(&graph);
        let everything = reached_without(&graph, |_| false);
        prop_assert_eq!(dominators.reached(), everything.len());
        for node in 0..graph.nodes() as Node {
            prop_assert_eq!(dominators.number(node).is_some(), everything.contains(&node));
        }
        for &above in &everything {
            let left = reached_without(&graph, |node| node == above);
            for &node in &everything {
                let keepers = retained::keepers(&dominators, dominators.number(node).unwrap());
                let is_keeper = keepers.iter().any(|&number| dominators.node(number) == above);
                prop_assert_eq!(is_keeper, !left.contains(&node), "{} keeps {}", above, node);
            }
        }
    }

    /// The retained size of an object is the bytes of what cannot be reached without it.
    #[test]
    fn retained_is_what_would_be_freed(plan in plans()) {
        let graph = plan.graph();
        let dominators = Dominators::of(&graph);
        let sizes = retained::sizes(&graph, &dominators);
        let everything = reached_without(&graph, |_| false);
        for &gone in &everything {
            let left = reached_without(&graph, |node| node == gone);
            let freed: u64 = everything.difference(&left).map(|&node| graph.shallow_bytes(node)).sum();
            prop_assert_eq!(sizes[dominators.number(gone).unwrap() as usize], freed);
        }
    }

    /// What a class retains one by one is at most what it retains together, and at least
    /// its own bytes; together it is what cannot be reached without any of its objects.
    #[test]
    fn classes_retain_what_would_be_freed_without_them(plan in plans()) {
        let graph = plan.graph();
        let dominators = Dominators::of(&graph);
        let sizes = retained::sizes(&graph, &dominators);
        let groups = retained::by_group(&graph, &dominators, &dominators.children(), &sizes);
        let everything = reached_without(&graph, |_| false);
        for (group, size) in groups.iter().enumerate() {
            let is_one = |node| graph.group(node) == Some(group as u32);
            let left = reached_without(&graph, is_one);
            let freed: u64 = everything.difference(&left).map(|&node| graph.shallow_bytes(node)).sum();
            let (bytes, objects) = retained::without(&graph, &dominators, is_one);
            prop_assert_eq!((bytes, objects as usize), (freed, everything.difference(&left).count()));
            prop_assert!(size.retained_bytes <= bytes);
            prop_assert!(size.retained_bytes >= size.cell_bytes + size.payload_bytes);
            prop_assert_eq!(size.objects as usize, everything.iter().filter(|&&node| is_one(node)).count());
        }
    }

    /// A path is one of references, from a category of roots, and no path is shorter.
    #[test]
    fn paths_are_shortest_paths_of_references(plan in plans()) {
        let graph = plan.graph();
        let paths = Paths::of(&graph);
        let mut level: HashSet<Node> = HashSet::from([graph.root()]);
        let mut seen = level.clone();
        for length in 0..=graph.nodes() {
            for &node in &level {
                let path = paths.to(node);
                prop_assert_eq!(path.len(), length);
                let from_root = std::iter::once(graph.root()).chain(path.iter().copied());
                for (from, to) in from_root.zip(path.iter()) {
                    prop_assert!(graph.edges(from).contains(to));
                }
            }
            level = level.iter().flat_map(|&node| graph.edges(node).iter().copied()).filter(|&to| seen.insert(to)).collect();
        }
        for node in (0..graph.root()).filter(|node| !seen.contains(node)) {
            prop_assert!(paths.to(node).is_empty());
        }
    }

    /// The tree that puts branches together counts every byte once, and the ways to the
    /// objects of a class count each object once.
    #[test]
    fn nothing_is_told_twice(plan in plans()) {
        let graph = plan.graph();
        let dominators = Dominators::of(&graph);
        let sizes = retained::sizes(&graph, &dominators);
        let tree = retained::tree(&graph, &dominators, &dominators.children(), &sizes, 0, 0);
        let (mut bytes, mut objects, mut open) = (0, 0, vec![&tree]);
        while let Some(branch) = open.pop() {
            bytes += branch.shallow_bytes;
            objects += branch.objects;
            let below: u64 = branch.below.iter().map(|below| below.retained_bytes).sum();
            prop_assert_eq!(branch.retained_bytes, branch.shallow_bytes + below);
            open.extend(&branch.below);
        }
        // Categories of roots that keep nothing alone are no branches.
        let empty = sizes.iter().skip(1).filter(|&&size| size == 0).count();
        prop_assert_eq!((bytes, objects as usize), (sizes[0], dominators.reached() - empty));
        let paths = Paths::of(&graph);
        for group in 0..graph.groups().len() as u32 {
            let told: u64 = why::ways(&graph, &paths, group).iter().map(|way| way.objects).sum();
            let there = (0..graph.objects() as Node).filter(|&node| graph.group(node) == Some(group) && dominators.number(node).is_some());
            prop_assert_eq!(told as usize, there.count());
        }
    }
}

/// A list of half a million links, each with a value: deeper than any stack, and the case in
/// which the iterative algorithms take longest.
#[test]
fn a_long_list_is_no_deeper_than_memory_allows() {
    const LINKS: usize = 500_000;
    let mut builder = Builder::default();
    builder.root("vm", address(0)).unwrap();
    for link in 0..LINKS {
        builder
            .object(&Object {
                address: address(2 * link),
                kind: "OBJECT",
                cell_bytes: 40,
                ..Object::default()
            })
            .unwrap();
        if link + 1 < LINKS {
            builder.reference(address(2 * link + 2)).unwrap();
        }
        builder.reference(address(2 * link + 1)).unwrap();
        builder
            .object(&Object {
                address: address(2 * link + 1),
                kind: "STRING",
                cell_bytes: 40,
                ..Object::default()
            })
            .unwrap();
        // The value leads back to the first link.
        builder.reference(address(0)).unwrap();
    }
    let graph = builder.finish();
    let dominators = Dominators::of(&graph);
    let sizes = retained::sizes(&graph, &dominators);
    let middle = dominators.number(LINKS as Node).unwrap();
    assert_eq!(sizes[middle as usize], LINKS as u64 * 40);
    let tree = retained::tree(&graph, &dominators, &dominators.children(), &sizes, 0, 1);
    let list = &tree.below[0].below[0];
    assert_eq!(
        (list.objects, list.below[0].objects),
        (LINKS as u64, LINKS as u64),
        "the links of a chain are one branch"
    );
    let paths = Paths::of(&graph);
    let steps = why::steps(&graph, &paths.to(2 * LINKS as Node - 1));
    assert_eq!(
        steps.iter().map(|step| step.count).collect::<Vec<_>>(),
        [1, LINKS as u64, 1]
    );
}
