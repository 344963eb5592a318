//! The objects of a dump and what they refer to.

use std::collections::HashMap;

use crate::blocks::Block;
use crate::interner::Interner;

/// The number of a node: objects first, in the order of the dump, then the categories of
/// roots, then the root of all.
pub type Node = u32;

/// No node.
pub const NONE: Node = Node::MAX;

/// The age of old objects; each collection that a younger object survives adds one to its
/// age.
pub const AGE_OLD: u8 = 3;
const AGE_BITS: u8 = 3;

/// An object as a dump describes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Object<'a> {
    /// Its address.
    pub address: u64,
    /// The name of its type, such as `STRING`.
    pub kind: &'a str,
    /// Bytes of its cell.
    pub cell_bytes: usize,
    /// Bytes that the object owns outside its cell.
    pub payload_bytes: usize,
    /// The number of collections that the object has survived, at most [`AGE_OLD`].
    pub age: u8,
    /// The address of its class, 0 for none.
    pub class: u64,
    /// Its own name, empty for none.
    pub name: &'a str,
    /// For a class: the address of the class above it, 0 for none.
    pub superclass: u64,
    /// Whether the object is a singleton class or an include class: instances of such a
    /// class count as those of the class above it.
    pub is_hidden_class: bool,
}

/// Why an object or a reference cannot be added to a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There are about 2^31 objects, or 2^32 references, or more.
    TooLarge,
    /// The address has been described before.
    Twice(u64),
}

/// Makes a [`Graph`] while a dump is read.
#[derive(Debug)]
pub struct Builder {
    interner: Interner,
    /// The node of each interned address; `NONE` until the dump describes it.
    described: Vec<Node>,
    interned: Vec<u32>,
    cell_bytes: Vec<u32>,
    payload_bytes: Vec<u32>,
    large: HashMap<Node, u64>,
    kind: Vec<u8>,
    age: Vec<u8>,
    class: Vec<u32>,
    first_edge: Vec<u32>,
    edges: Vec<u32>,
    names: HashMap<Node, Box<str>>,
    supers: HashMap<u32, u32>,
    kinds: Vec<String>,
    categories: Categories,
    roots: Vec<(u32, u32)>,
    /// What each block is used for, when the dump says so.
    pub blocks: Vec<Block>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            interner: Interner::new(),
            described: Vec::new(),
            interned: Vec::new(),
            cell_bytes: Vec::new(),
            payload_bytes: Vec::new(),
            large: HashMap::new(),
            kind: Vec::new(),
            age: Vec::new(),
            class: Vec::new(),
            first_edge: vec![0],
            edges: Vec::new(),
            names: HashMap::new(),
            supers: HashMap::new(),
            kinds: Vec::new(),
            categories: Categories::default(),
            roots: Vec::new(),
            blocks: Vec::new(),
        }
    }
}

/// Categories of roots in the order in which they are first seen: a dump may have any number.
#[derive(Debug, Default)]
struct Categories {
    names: Vec<String>,
    indices: HashMap<String, usize>,
}

/// Dumps have about thirty kinds of objects; from this one on, all count as one kind.
const KIND_MAX: usize = 255;

fn kind_number(kinds: &mut Vec<String>, name: &str) -> u8 {
    let known = kinds.iter().position(|known| known == name);
    if known.is_none() && kinds.len() <= KIND_MAX {
        kinds.push(name.to_owned());
    }
    known.unwrap_or(kinds.len() - 1) as u8
}

impl Categories {
    fn index_of(&mut self, name: &str) -> usize {
        if let Some(&known) = self.indices.get(name) {
            return known;
        }
        self.indices.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.names.len() - 1
    }
}

impl Builder {
    /// How many objects have been added so far.
    pub fn objects(&self) -> usize {
        self.kind.len()
    }

    /// How many references have been added so far, including those to classes.
    pub fn references(&self) -> usize {
        self.edges.len()
    }

    fn intern(&mut self, address: u64) -> Result<u32, Refused> {
        let number = self.interner.number(address).ok_or(Refused::TooLarge)?;
        if self.described.len() < self.interner.len() {
            self.described.push(NONE);
        }
        Ok(number)
    }

    /// Adds an object; its references must follow.
    pub fn object(&mut self, object: &Object<'_>) -> Result<(), Refused> {
        let interned = self.intern(object.address)?;
        let node = self.kind.len() as Node;
        if self.described[interned as usize] != NONE {
            return Err(Refused::Twice(object.address));
        }
        self.described[interned as usize] = node;
        self.interned.push(interned);
        self.cell_bytes
            .push(u32::try_from(object.cell_bytes).unwrap_or(u32::MAX));
        if let Ok(bytes) = u32::try_from(object.payload_bytes) {
            self.payload_bytes.push(bytes);
        } else {
            self.payload_bytes.push(u32::MAX);
            self.large.insert(node, object.payload_bytes as u64);
        }
        self.kind.push(kind_number(&mut self.kinds, object.kind));
        self.age.push(object.age.min(AGE_OLD));
        if !object.name.is_empty() {
            self.names.insert(node, object.name.into());
        }
        self.first_edge.push(self.edges.len() as u32);
        let class = match object.class {
            0 => NONE,
            class => self.intern(class)?,
        };
        self.class.push(class);
        if class != NONE {
            self.edge(class)?;
        }
        if object.is_hidden_class && object.superclass != 0 {
            let above = self.intern(object.superclass)?;
            self.supers.insert(interned, above);
        }
        Ok(())
    }

    fn edge(&mut self, to: u32) -> Result<(), Refused> {
        if self.edges.len() >= u32::MAX as usize - 1 {
            return Err(Refused::TooLarge);
        }
        self.edges.push(to);
        *self
            .first_edge
            .last_mut()
            .expect("there is one more than objects") += 1;
        Ok(())
    }

    /// Adds a reference from the latest object.
    #[inline]
    pub fn reference(&mut self, to: u64) -> Result<(), Refused> {
        let to = self.intern(to)?;
        self.edge(to)
    }

    /// Adds a root.
    pub fn root(&mut self, category: &str, to: u64) -> Result<(), Refused> {
        let to = self.intern(to)?;
        let category = self.categories.index_of(category);
        self.roots.push((category as u32, to));
        Ok(())
    }

    /// Makes the graph of what has been added.
    pub fn finish(self) -> Graph {
        let Self {
            interner,
            described,
            interned,
            mut class,
            mut first_edge,
            mut edges,
            supers,
            categories: Categories {
                names: categories, ..
            },
            mut roots,
            ..
        } = self;
        let addresses = interner.into_addresses();
        let address = interned
            .iter()
            .map(|&number| addresses[number as usize])
            .collect();
        drop((addresses, interned));
        for class in &mut class {
            *class = described_class(*class, &supers, &described);
        }
        let objects = class.len();
        let dangling = keep_described(&mut first_edge, &mut edges, &described);
        let mut lost_roots = 0;
        roots.sort_by_key(|&(category, _)| category);
        // Each category has a root.
        for of_category in roots.chunk_by(|one, next| one.0 == next.0) {
            for &(_, to) in of_category {
                match described[to as usize] {
                    NONE => lost_roots += 1,
                    node => edges.push(node),
                }
            }
            first_edge.push(edges.len() as u32);
        }
        edges.extend((0..categories.len()).map(|category| (objects + category) as Node));
        first_edge.push(edges.len() as u32);
        edges.shrink_to_fit();
        let mut graph = Graph {
            address,
            cell_bytes: self.cell_bytes,
            payload_bytes: self.payload_bytes,
            large: self.large,
            kind: self.kind,
            age: self.age,
            group: Vec::new(),
            groups: Vec::new(),
            first_edge,
            edges,
            names: self.names,
            kinds: self.kinds,
            categories,
            blocks: self.blocks,
            dangling_references: dangling + lost_roots,
        };
        graph.group_by(&class);
        graph
    }
}

/// The node of a class; for a singleton class, the node of the class above it.
fn described_class(mut class: u32, supers: &HashMap<u32, u32>, described: &[Node]) -> Node {
    // A broken dump may have classes in a circle.
    for _ in 0..=supers.len() {
        match supers.get(&class) {
            Some(&above) => class = above,
            None => break,
        }
    }
    match class {
        NONE => NONE,
        class => described[class as usize],
    }
}

/// Replaces interned numbers by nodes, and removes references to addresses that the dump
/// does not describe; returns how many those are.
fn keep_described(first_edge: &mut [u32], edges: &mut Vec<u32>, described: &[Node]) -> usize {
    let (mut kept, mut start) = (0, 0);
    for end in first_edge.iter_mut().skip(1) {
        for index in start..*end as usize {
            let node = described[edges[index] as usize];
            if node != NONE {
                edges[kept] = node;
                kept += 1;
            }
        }
        start = *end as usize;
        *end = kept as u32;
    }
    let dangling = edges.len() - kept;
    edges.truncate(kept);
    dangling
}

/// The objects of a dump and what they refer to.
///
/// Invariants:
/// 1. Node `n` has the edges `edges[first_edge[n]..first_edge[n + 1]]`.
/// 2. The root of all is the last node; it refers to the categories, and these to objects.
#[derive(Debug)]
pub struct Graph {
    address: Vec<u64>,
    cell_bytes: Vec<u32>,
    /// `u32::MAX` for those in `large`.
    payload_bytes: Vec<u32>,
    large: HashMap<Node, u64>,
    kind: Vec<u8>,
    age: Vec<u8>,
    /// The group of each object: objects of one class, or of one kind without a class, are
    /// a group.
    group: Vec<u32>,
    groups: Vec<String>,
    first_edge: Vec<u32>,
    edges: Vec<Node>,
    names: HashMap<Node, Box<str>>,
    kinds: Vec<String>,
    categories: Vec<String>,
    /// What each block is used for, when the dump says so.
    pub blocks: Vec<Block>,
    /// The number of references to addresses that the dump does not describe.
    pub dangling_references: usize,
}

impl Graph {
    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.first_edge.len() - 1
    }

    /// The number of nodes that are objects; these are the first nodes.
    pub fn objects(&self) -> usize {
        self.address.len()
    }

    /// The number of references, including those of roots.
    pub fn references(&self) -> usize {
        self.edges.len()
    }

    /// The root of all.
    pub fn root(&self) -> Node {
        self.nodes() as Node - 1
    }

    /// The nodes that a node refers to.
    #[inline]
    pub fn edges(&self, node: Node) -> &[Node] {
        let node = node as usize;
        &self.edges[self.first_edge[node] as usize..self.first_edge[node + 1] as usize]
    }

    /// The categories of roots and their nodes.
    pub fn categories(&self) -> impl Iterator<Item = (Node, &str)> {
        let first = self.objects();
        let named = self.categories.iter().enumerate();
        named.map(move |(index, name)| ((first + index) as Node, name.as_str()))
    }

    /// Bytes of an object's cell; 0 for roots.
    #[inline]
    pub fn cell_bytes(&self, node: Node) -> u64 {
        self.cell_bytes
            .get(node as usize)
            .map_or(0, |&bytes| u64::from(bytes))
    }

    /// Bytes that an object owns outside its cell; 0 for roots.
    #[inline]
    pub fn payload_bytes(&self, node: Node) -> u64 {
        match self.payload_bytes.get(node as usize) {
            None => 0,
            Some(&u32::MAX) => self
                .large
                .get(&node)
                .copied()
                .unwrap_or(u64::from(u32::MAX)),
            Some(&bytes) => u64::from(bytes),
        }
    }

    /// Bytes of an object's cell and of its payloads.
    #[inline]
    pub fn shallow_bytes(&self, node: Node) -> u64 {
        self.cell_bytes(node) + self.payload_bytes(node)
    }

    /// The address of an object.
    pub fn address(&self, node: Node) -> Option<u64> {
        self.address.get(node as usize).copied()
    }

    /// The object at an address, found by looking at all objects.
    pub fn object_at(&self, address: u64) -> Option<Node> {
        let found = self.address.iter().position(|&known| known == address);
        found.map(|index| index as Node)
    }

    /// The number of collections that an object has survived, [`AGE_OLD`] when it is old.
    pub fn age(&self, node: Node) -> u8 {
        self.age[node as usize] & AGE_BITS
    }

    /// The name of an object's type, such as `STRING`.
    pub fn kind(&self, node: Node) -> &str {
        let kind = self.kind.get(node as usize);
        kind.map_or("ROOT", |&kind| &self.kinds[kind as usize])
    }

    /// Names of the groups.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// The group of an object, `None` for roots.
    #[inline]
    pub fn group(&self, node: Node) -> Option<u32> {
        self.group.get(node as usize).copied()
    }

    /// An object's own name: classes and code have one.
    pub fn name(&self, node: Node) -> Option<&str> {
        self.names.get(&node).map(AsRef::as_ref)
    }

    /// Whether an object has a name of its own, as classes and code have.
    pub fn is_named(&self, node: Node) -> bool {
        self.names.contains_key(&node)
    }

    /// The label of a node in reports.
    pub fn label(&self, node: Node) -> String {
        if let Some(index) = (node as usize).checked_sub(self.objects()) {
            return match self.categories.get(index) {
                Some(name) => format!("root {name}"),
                None => "roots".to_owned(),
            };
        }
        match (self.name(node), self.kind(node)) {
            (Some(name), "CLASS") => format!("class {name}"),
            (Some(name), "MODULE") => format!("module {name}"),
            (Some(name), "ICLASS") => format!("inclusion of {name}"),
            (Some(name), "IMEMO iseq") => format!("code of {name}"),
            _ => self.groups[self.group[node as usize] as usize].clone(),
        }
    }

    /// A number that two nodes share if a report shows them together, under one label. A
    /// node with a name of its own shares its number with no other.
    pub fn label_key(&self, node: Node) -> u64 {
        match self.group(node) {
            Some(group) if !self.is_named(node) => u64::from(group),
            _ => u64::from(node) | 1 << 32,
        }
    }

    /// Finds the groups, given the class of each object.
    fn group_by(&mut self, class: &[Node]) {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut by_class: HashMap<(Node, u8), u32> = HashMap::new();
        let mut group = Vec::with_capacity(class.len());
        for (&class, &kind) in class.iter().zip(&self.kind) {
            let key = (class, if class == NONE { kind } else { 0 });
            let number = *by_class.entry(key).or_insert_with(|| {
                let name = self.group_name(class, kind);
                let next = numbers.len() as u32;
                *numbers.entry(name).or_insert(next)
            });
            group.push(number);
        }
        self.group = group;
        self.groups = vec![String::new(); numbers.len()];
        for (name, number) in numbers {
            self.groups[number as usize] = name;
        }
    }

    fn group_name(&self, class: Node, kind: u8) -> String {
        if class == NONE {
            let kind = &self.kinds[kind as usize];
            if let Some(internal) = kind.strip_prefix("IMEMO ") {
                return format!("(internal {internal})");
            }
            return match kind.strip_prefix("DATA ") {
                Some(native_type) => format!("(hidden {native_type})"),
                None => format!("(hidden {})", kind.to_lowercase()),
            };
        }
        match self.name(class) {
            Some(name) => name.to_owned(),
            None => format!("#<Class:{:#x}>", self.address[class as usize]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(address: u64, class: u64) -> Object<'static> {
        Object {
            address,
            kind: "OBJECT",
            cell_bytes: 40,
            class,
            ..Object::default()
        }
    }

    #[test]
    fn references_may_come_before_what_they_refer_to() {
        let mut builder = Builder::default();
        builder.root("vm", 16).unwrap();
        builder.object(&object(8, 0)).unwrap();
        builder.reference(16).unwrap();
        builder.reference(24).unwrap();
        builder.object(&object(16, 0)).unwrap();
        builder.reference(8).unwrap();
        let graph = builder.finish();
        assert_eq!(graph.edges(0), [1]);
        assert_eq!(graph.edges(1), [0]);
        assert_eq!(graph.edges(2), [1]); // the category
        assert_eq!(graph.edges(graph.root()), [2]);
        assert_eq!(graph.dangling_references, 1);
        assert_eq!(graph.label(graph.root() - 1), "root vm");
    }

    #[test]
    fn objects_of_a_singleton_class_count_as_those_of_the_class_above() {
        let mut builder = Builder::default();
        let class = Object {
            kind: "CLASS",
            name: "Cache",
            ..object(8, 0)
        };
        let singleton = Object {
            kind: "CLASS",
            superclass: 8,
            is_hidden_class: true,
            ..object(16, 0)
        };
        builder.object(&object(24, 16)).unwrap();
        builder.object(&object(32, 8)).unwrap();
        builder.object(&singleton).unwrap();
        builder.object(&class).unwrap();
        let graph = builder.finish();
        assert_eq!(graph.label(0), "Cache");
        assert_eq!(graph.group(0), graph.group(1));
        assert_eq!(graph.label(3), "class Cache");
        assert_eq!(
            graph.edges(0),
            [2],
            "the singleton class is what it refers to"
        );
    }

    #[test]
    fn payloads_of_more_than_4_gib_keep_their_size() {
        let mut builder = Builder::default();
        builder
            .object(&Object {
                payload_bytes: 5 << 30,
                ..object(8, 0)
            })
            .unwrap();
        assert_eq!(builder.finish().shallow_bytes(0), (5 << 30) + 40);
    }

    #[test]
    fn an_address_is_described_once() {
        let mut builder = Builder::default();
        builder.object(&object(8, 0)).unwrap();
        assert_eq!(builder.object(&object(8, 0)), Err(Refused::Twice(8)));
    }
}
