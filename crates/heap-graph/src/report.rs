//! The report on a dump, as JSON for programs that show it.

use std::fmt;

use serde_json::{json, Value};

use crate::blocks::{by_width, Use};
use crate::dominators::{Children, Dominators};
use crate::graph::{Graph, Node};
use crate::paths::Paths;
use crate::read::{Dump, Source};
use crate::retained::{self, Branch, GroupSize};
use crate::why::{self, Step};

/// What the report contains besides the whole heap.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Classes, by name, and objects, by address with `0x` before it.
    pub subjects: Vec<String>,
    /// Whether the report describes each block.
    pub map: bool,
}

/// A class or an object that is not in the dump.
#[derive(Debug)]
pub struct NotThere(String);

impl fmt::Display for NotThere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotThere {}

/// The most objects that a list shows.
const LARGEST: usize = 30;
const WAYS: usize = 20;
/// A branch is left out if it retains less than the bytes of its tree divided by this.
const LEAST_BRANCH: u64 = 400;
/// The most branches that are shown below a branch.
const BRANCHES_BELOW: usize = 20;
/// The most steps of a path that are shown; the middle of a longer path is left out.
const STEPS: usize = 40;

/// Makes the report on a dump; calls `progress` with what is being done.
pub fn tell(
    dump: &Dump,
    wanted: &Wanted,
    progress: &mut dyn FnMut(&str),
) -> Result<Value, NotThere> {
    let graph = &dump.graph;
    let subjects = wanted.subjects.iter().map(|name| subject(graph, name));
    let subjects = subjects.collect::<Result<Vec<_>, _>>()?;
    progress("finding dominators");
    let dominators = Dominators::of(graph);
    progress("adding up what objects retain");
    let report = Report {
        graph,
        sizes: retained::sizes(graph, &dominators),
        children: dominators.children(),
        dominators,
        paths: Paths::of(graph),
    };
    progress("telling");
    let subjects: Vec<_> = subjects
        .iter()
        .map(|subject| report.subject(subject))
        .collect();
    Ok(json!({
        "source": source(&dump.source),
        "totals": report.totals(),
        "classes": report.classes(),
        "largest": report.largest(),
        "tree": report.branch(&report.tree(0)),
        "memory": report.memory(),
        "blocks": wanted.map.then(|| report.blocks()),
        "subjects": subjects,
    }))
}

fn source(source: &Source) -> Value {
    json!({
        "format": source.format,
        "ruby_version": source.ruby_version,
        "pid": source.pid,
        "unix_seconds": source.unix_seconds,
        "elsewhere_bytes": source.elsewhere_bytes,
        "tells_blocks": source.tells_blocks,
    })
}

/// What the caller asks about.
enum Subject {
    Object(Node),
    Group(u32),
}

fn subject(graph: &Graph, name: &str) -> Result<Subject, NotThere> {
    if let Some(digits) = name.strip_prefix("0x") {
        let address = u64::from_str_radix(digits, 16).map_err(|_| {
            NotThere(format!(
                "{name}: an address such as 0x7f12a4c01028 is wanted"
            ))
        })?;
        let found = graph.object_at(address).map(Subject::Object);
        return found
            .ok_or_else(|| NotThere(format!("{name}: no object of the dump is at this address")));
    }
    if let Some(group) = graph.groups().iter().position(|known| known == name) {
        return Ok(Subject::Group(group as u32));
    }
    // The name may be that of a class without objects, of a module, or of code: then the
    // object itself is meant.
    let is_it = |&node: &Node| graph.name(node) == Some(name) && graph.kind(node) != "ICLASS";
    if let Some(node) = (0..graph.objects() as Node).find(is_it) {
        return Ok(Subject::Object(node));
    }
    Err(NotThere(no_such_class(graph, name)))
}

fn no_such_class(graph: &Graph, name: &str) -> String {
    let wanted = name.to_lowercase();
    let is_like = |known: &&String| known.to_lowercase().contains(&wanted);
    let mut like: Vec<&str> = graph
        .groups()
        .iter()
        .filter(is_like)
        .map(String::as_str)
        .collect();
    like.sort_unstable();
    like.truncate(5);
    match like.is_empty() {
        true => format!("{name}: no class of this name is in the dump"),
        false => format!(
            "{name}: no class of this name is in the dump; similar ones are {}",
            like.join(", ")
        ),
    }
}

struct Report<'a> {
    graph: &'a Graph,
    dominators: Dominators,
    children: Children,
    sizes: Vec<u64>,
    paths: Paths,
}

impl Report<'_> {
    fn retained_bytes(&self, node: Node) -> u64 {
        let number = self.dominators.number(node);
        number.map_or(0, |number| self.sizes[number as usize])
    }

    fn totals(&self) -> Value {
        let graph = self.graph;
        let (mut cell_bytes, mut payload_bytes) = (0, 0);
        let (mut lost_objects, mut lost_bytes) = (0, 0);
        for node in 0..graph.objects() as Node {
            cell_bytes += graph.cell_bytes(node);
            payload_bytes += graph.payload_bytes(node);
            if self.dominators.number(node).is_none() {
                lost_objects += 1;
                lost_bytes += graph.shallow_bytes(node);
            }
        }
        json!({
            "objects": graph.objects(),
            "references": graph.references(),
            "cell_bytes": cell_bytes,
            "payload_bytes": payload_bytes,
            "reached_bytes": self.sizes[0],
            "unreached_objects": lost_objects,
            "unreached_bytes": lost_bytes,
            "dangling_references": graph.dangling_references,
        })
    }

    fn classes(&self) -> Vec<Value> {
        let sizes = retained::by_group(self.graph, &self.dominators, &self.children, &self.sizes);
        let mut classes: Vec<(&String, GroupSize)> =
            self.graph.groups().iter().zip(sizes).collect();
        classes.sort_by(|one, other| {
            let order = |size: &GroupSize| (size.retained_bytes, size.objects);
            order(&other.1).cmp(&order(&one.1)).then(one.0.cmp(other.0))
        });
        let shown = classes.iter().filter(|(_, size)| size.objects > 0);
        shown.map(|(name, size)| group(name, size)).collect()
    }

    fn step(&self, step: &Step) -> Value {
        json!({
            "label": self.graph.label(step.node),
            "address": self.graph.address(step.node).map(hexadecimal),
            "count": step.count,
            "retained_bytes": self.retained_bytes(step.node),
        })
    }

    /// A path as JSON, without its middle when it is long.
    fn steps(&self, path: &[Node]) -> Vec<Value> {
        let steps = why::steps(self.graph, path);
        if steps.len() <= STEPS {
            return steps.iter().map(|step| self.step(step)).collect();
        }
        let (first, last) = (&steps[..STEPS / 2], &steps[steps.len() - STEPS / 2..]);
        let left_out = json!({ "left_out": steps.len() - STEPS });
        let shown = |part: &[Step]| part.iter().map(|step| self.step(step)).collect::<Vec<_>>();
        [shown(first), vec![left_out], shown(last)].concat()
    }

    fn object(&self, node: Node) -> Value {
        json!({
            "label": self.graph.label(node),
            "address": self.graph.address(node).map(hexadecimal),
            "shallow_bytes": self.graph.shallow_bytes(node),
            "retained_bytes": self.retained_bytes(node),
        })
    }

    fn largest(&self) -> Vec<Value> {
        let numbers = retained::largest(self.graph, &self.dominators, &self.sizes, LARGEST);
        let nodes = numbers.iter().map(|&number| self.dominators.node(number));
        let told = nodes.map(|node| {
            let mut object = self.object(node);
            object["path"] = self.steps(&self.paths.to(node)).into();
            object
        });
        told.collect()
    }

    /// What the object with this number in the dominator tree keeps; the number 0 keeps
    /// everything.
    fn tree(&self, number: u32) -> Branch {
        let least_bytes = self.sizes[number as usize] / LEAST_BRANCH;
        retained::tree(
            self.graph,
            &self.dominators,
            &self.children,
            &self.sizes,
            number,
            least_bytes,
        )
    }

    fn branch(&self, branch: &Branch) -> Value {
        let below: Vec<_> = branch
            .below
            .iter()
            .take(BRANCHES_BELOW)
            .map(|below| self.branch(below))
            .collect();
        json!({
            "label": self.graph.label(branch.node),
            "address": self.graph.address(branch.node).map(hexadecimal),
            "objects": branch.objects,
            "shallow_bytes": branch.shallow_bytes,
            "retained_bytes": branch.retained_bytes,
            "below": below,
        })
    }

    fn memory(&self) -> Value {
        let blocks = &self.graph.blocks;
        let widths = |used_for| -> Vec<Value> {
            let widths = by_width(blocks, used_for).into_iter();
            let told = widths.map(|(width, usage)| {
                json!({ "width_bytes": width, "blocks": usage.blocks, "room": usage.room, "used": usage.used })
            });
            told.collect()
        };
        let count = |used_for: Use| -> u64 {
            let those = blocks.iter().filter(|block| block.used_for == used_for);
            those.map(|block| u64::from(block.count)).sum()
        };
        let spans = || blocks.iter().filter(|block| block.used_for == Use::Span);
        json!({
            "cells": widths(Use::Cells),
            "payloads": widths(Use::Payloads),
            "spans": {
                "count": spans().count(),
                "blocks": count(Use::Span),
                "room_bytes": spans().map(|span| span.room).sum::<u64>(),
                "used_bytes": spans().map(|span| span.used).sum::<u64>(),
            },
            "spare_blocks": count(Use::Spare),
            "released_blocks": count(Use::Released),
        })
    }

    fn blocks(&self) -> Vec<Value> {
        let round = |part: f64| (part * 1000.0).round() / 1000.0;
        let blocks = self.graph.blocks.iter();
        let told = blocks.map(|block| {
            let age = block.age().map(round);
            json!([
                block.used_for.name(),
                block.count,
                block.width_bytes,
                round(block.fill()),
                age
            ])
        });
        told.collect()
    }

    fn subject(&self, subject: &Subject) -> Value {
        match *subject {
            Subject::Object(node) => self.why_object(node),
            Subject::Group(group) => self.why_group(group),
        }
    }

    fn why_object(&self, node: Node) -> Value {
        let mut told = self.object(node);
        told["kind"] = self.graph.kind(node).into();
        told["age"] = self.graph.age(node).into();
        told["path"] = self.steps(&self.paths.to(node)).into();
        told["referrers"] = self.referrers(|to| to == node).into();
        let Some(number) = self.dominators.number(node) else {
            return told;
        };
        let keepers = retained::keepers(&self.dominators, number);
        // The root of all roots explains nothing.
        let keepers: Vec<Node> = keepers[1..]
            .iter()
            .map(|&number| self.dominators.node(number))
            .collect();
        told["keepers"] = self.steps(&keepers).into();
        told["below"] = self.branch(&self.tree(number))["below"].take();
        told
    }

    fn why_group(&self, group: u32) -> Value {
        let graph = self.graph;
        let is_one = |node| graph.group(node) == Some(group);
        let sizes = retained::by_group(graph, &self.dominators, &self.children, &self.sizes);
        let mut told = self::group(&graph.groups()[group as usize], &sizes[group as usize]);
        let (bytes, objects) = retained::without(graph, &self.dominators, is_one);
        told["together_bytes"] = bytes.into();
        told["together_objects"] = objects.into();
        let mut members: Vec<Node> = (0..graph.objects() as Node)
            .filter(|&node| is_one(node))
            .collect();
        members.sort_by_key(|&node| (std::cmp::Reverse(self.retained_bytes(node)), node));
        told["largest"] = members
            .iter()
            .take(LARGEST)
            .map(|&node| self.object(node))
            .collect();
        let ways = why::ways(graph, &self.paths, group);
        told["ways_in_all"] = ways.len().into();
        let shown = ways.iter().take(WAYS).map(|way| {
            json!({
                "objects": way.objects,
                "shallow_bytes": way.shallow_bytes,
                "path": self.steps(&self.paths.to(way.example)),
            })
        });
        told["ways"] = shown.collect();
        told["referrers"] = self.referrers(is_one).into();
        told
    }

    /// Counts the objects that refer to these objects, by label; the largest counts
    /// first.
    fn referrers(&self, is_one: impl Fn(Node) -> bool) -> Vec<Value> {
        let mut counts = std::collections::HashMap::new();
        for node in 0..self.graph.root() {
            if !is_one(node) && self.graph.edges(node).iter().any(|&to| is_one(to)) {
                let count = counts
                    .entry(self.graph.label_key(node))
                    .or_insert((0u64, node));
                count.0 += 1;
            }
        }
        let mut counts: Vec<(u64, Node)> = counts.into_values().collect();
        counts.sort_by_key(|&(count, node)| (std::cmp::Reverse(count), node));
        let told = counts.iter().take(WAYS);
        told.map(|&(count, node)| json!({ "label": self.graph.label(node), "objects": count }))
            .collect()
    }
}

fn group(name: &str, size: &GroupSize) -> Value {
    json!({
        "class": name,
        "objects": size.objects,
        "cell_bytes": size.cell_bytes,
        "payload_bytes": size.payload_bytes,
        "retained_bytes": size.retained_bytes,
    })
}

fn hexadecimal(address: u64) -> String {
    format!("{address:#x}")
}
