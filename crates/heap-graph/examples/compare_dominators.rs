//! Two algorithms for dominators on the heap in a dump: the one that is used, and the
//! iterative one of Cooper, Harvey and Kennedy (A Simple, Fast Dominance Algorithm, 2001).
//!
//! ```text
//! cargo run --release -p ashlar-heap-graph --example compare_dominators app.dump.gz
//! ```

use std::path::Path;
use std::time::Instant;

use ashlar_heap_graph::dominators::Dominators;
use ashlar_heap_graph::graph::{Graph, Node, NONE};
use ashlar_heap_graph::read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("a dump is wanted")?;
    let graph = read::file(Path::new(&file), &mut |_, _| {})?.graph;
    println!(
        "{} objects, {} references",
        graph.objects(),
        graph.references()
    );
    let began = Instant::now();
    let dominators = Dominators::of(&graph);
    println!("semi-NCA   {:7.2} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    let (immediate, rounds) = iterative(&graph);
    println!(
        "iterative  {:7.2} s, {rounds} rounds",
        began.elapsed().as_secs_f64()
    );
    let differences = (0..dominators.reached() as u32).filter(|&number| {
        let above = dominators.node(dominators.immediate(number));
        immediate[dominators.node(number) as usize] != above
    });
    println!("differences: {}", differences.count());
    Ok(())
}

/// The immediate dominator of each node, and how often all nodes were looked at.
fn iterative(graph: &Graph) -> (Vec<Node>, usize) {
    let (order, place) = postorder(graph);
    let mut before: Vec<Vec<Node>> = vec![Vec::new(); graph.nodes()];
    for &node in &order {
        for &to in graph.edges(node) {
            before[to as usize].push(node);
        }
    }
    let mut immediate = vec![NONE; graph.nodes()];
    immediate[graph.root() as usize] = graph.root();
    let mut rounds = 0;
    loop {
        rounds += 1;
        let mut has_changed = false;
        for &node in order.iter().rev().skip(1) {
            let known = before[node as usize]
                .iter()
                .copied()
                .filter(|&from| immediate[from as usize] != NONE);
            let meet = |mut one: Node, mut other: Node| {
                while one != other {
                    while place[one as usize] < place[other as usize] {
                        one = immediate[one as usize];
                    }
                    while place[other as usize] < place[one as usize] {
                        other = immediate[other as usize];
                    }
                }
                one
            };
            let found = known
                .reduce(meet)
                .expect("a node comes after one that refers to it");
            if immediate[node as usize] != found {
                immediate[node as usize] = found;
                has_changed = true;
            }
        }
        if !has_changed {
            return (immediate, rounds);
        }
    }
}

/// Nodes in postorder, and the place of each.
fn postorder(graph: &Graph) -> (Vec<Node>, Vec<u32>) {
    let mut order = Vec::new();
    let mut place = vec![NONE; graph.nodes()];
    let mut seen = vec![false; graph.nodes()];
    let mut path = vec![(graph.root(), 0)];
    seen[graph.root() as usize] = true;
    while let Some((node, followed)) = path.last_mut() {
        let edges = graph.edges(*node);
        if let Some(&to) = edges.get(*followed) {
            *followed += 1;
            if !std::mem::replace(&mut seen[to as usize], true) {
                path.push((to, 0));
            }
        } else {
            place[*node as usize] = order.len() as u32;
            order.push(*node);
            path.pop();
        }
    }
    (order, place)
}
