//! The contents of a dump: the walk over roots, blocks and cells.

use std::ffi::{c_void, CStr};
use std::io;
use std::time::SystemTime;

use ashlar_heap::{
    BlockIndex, BlockUse, Cell, CellRange, CellState, Inspection, Trace, TraceCommon, Vm,
    WidthIndex, BLOCK_BYTES,
};

use super::format::{Out, Tag, MAGIC, UNIT_BYTES, VERSION};
use super::names::{class_of, name_of};
use crate::collector::Collector;
use crate::layout::*;
use crate::libc_malloc;
use crate::object_model::{freeing, Freeing, Object};
use crate::ruby_calls::{is_object, Value};

/// Ruby's names of its types of objects.
const TYPE_NAMES: &[(usize, &str)] = &[
    (T_OBJECT, "OBJECT"),
    (T_CLASS, "CLASS"),
    (T_MODULE, "MODULE"),
    (T_ICLASS, "ICLASS"),
    (T_FLOAT, "FLOAT"),
    (T_STRING, "STRING"),
    (T_REGEXP, "REGEXP"),
    (T_ARRAY, "ARRAY"),
    (T_HASH, "HASH"),
    (T_STRUCT, "STRUCT"),
    (T_BIGNUM, "BIGNUM"),
    (T_FILE, "FILE"),
    (T_DATA, "DATA"),
    (T_MATCH, "MATCH"),
    (T_COMPLEX, "COMPLEX"),
    (T_RATIONAL, "RATIONAL"),
    (T_SYMBOL, "SYMBOL"),
    (T_IMEMO, "IMEMO"),
];

/// A cell's flags in a dump; the two lowest bits are its age.
const PINNED: u8 = 1 << 2;
const UNPROTECTED: u8 = 1 << 3;
const REMEMBERED: u8 = 1 << 4;
const NAMED: u8 = 1 << 5;

/// The number of an object's type, combined with its kind if it is an internal object.
fn kind_number(kind: usize, internal_kind: usize) -> usize {
    kind | internal_kind << 5
}

const _: () = assert!(T_MASK == 31);

pub(super) fn write(collector: &Collector, out: &mut Out<'_>) -> io::Result<()> {
    let mut walk = Walk {
        collector,
        base: collector.heap.region().start(),
        name: Vec::new(),
        cells: 0,
        references: 0,
        out,
    };
    walk.header();
    walk.roots();
    walk.blocks();
    walk.totals();
    walk.out.finish()
}

struct Walk<'a, 'out> {
    collector: &'a Collector,
    out: &'a mut Out<'out>,
    /// The region's first address.
    base: usize,
    /// The name of the object that is being written.
    name: Vec<u8>,
    cells: usize,
    references: usize,
}

impl Walk<'_, '_> {
    fn header(&mut self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.out.bytes(MAGIC);
        self.out.number(VERSION);
        self.out.text(RUBY_VERSION.as_bytes());
        self.out.number(std::process::id() as usize);
        let seconds = now.map_or(0, |since| since.as_secs());
        self.out.number(seconds as usize);
        self.out.number(self.base);
        self.out.number(BLOCK_BYTES);
        self.out.number(TYPE_NAMES.len() + IMEMO_NAMES.len());
        for &(kind, name) in TYPE_NAMES {
            self.out.number(kind_number(kind, 0));
            self.out.text(name.as_bytes());
        }
        for &(kind, name, _) in IMEMO_NAMES {
            self.out.number(kind_number(T_IMEMO, kind));
            self.out.text(format!("IMEMO {name}").as_bytes());
        }
    }

    /// Writes the roots; each run of roots of one category is a record.
    fn roots(&mut self) {
        let ruby = self.collector.heap.vm();
        let mut roots = Roots {
            base: self.base,
            category: None,
            out: &mut *self.out,
        };
        // SAFETY: the lock is held and no collection runs.
        unsafe {
            ruby.calls
                .each_root(|category, value| roots.add(category, value))
        };
        let finalizers = ruby.finalizers.borrow();
        finalizers.each_value(|value| roots.add(c"finalizers", value));
        roots.end();
    }

    fn blocks(&mut self) {
        let heap = &self.collector.heap;
        // How many empty blocks there are so far, and how many of them hold memory.
        let mut empty = (0, 0);
        heap.for_each_block_use(|used_for| {
            if let BlockUse::Empty { is_held } = used_for {
                empty = (empty.0 + 1, empty.1 + usize::from(is_held));
                return;
            }
            self.end_empty(&mut empty);
            match used_for {
                _ if self.out.has_failed() => {}
                BlockUse::Cells(block, width) => self.block_of_cells(block, width),
                BlockUse::Payloads {
                    piece_bytes,
                    used_pieces,
                } => self.record(Tag::Payloads, [piece_bytes, used_pieces]),
                BlockUse::Span { blocks, bytes } => self.record(Tag::Span, [blocks, bytes]),
                BlockUse::Empty { .. } => {}
            }
        });
        self.end_empty(&mut empty);
    }

    fn end_empty(&mut self, empty: &mut (usize, usize)) {
        let (blocks, held) = std::mem::take(empty);
        if blocks > 0 {
            self.record(Tag::Empty, [blocks, held]);
        }
    }

    fn record(&mut self, tag: Tag, numbers: [usize; 2]) {
        self.out.tag(tag);
        for number in numbers {
            self.out.number(number);
        }
    }

    fn block_of_cells(&mut self, block: BlockIndex, width: WidthIndex) {
        self.out.tag(Tag::Cells);
        self.out.number(width.bytes());
        let space = self.collector.heap.space();
        let mut free_cells = 0;
        space.for_each_range_of(block, width, &mut |range| match range {
            CellRange::Free { start, end, .. } => free_cells = (end - start) / width.bytes(),
            CellRange::Live(cell) => {
                self.out.number(std::mem::take(&mut free_cells) + 1);
                self.cell(cell, width);
            }
        });
        self.out.number(0);
    }

    fn cell(&mut self, cell: Cell, width: WidthIndex) {
        let heap = &self.collector.heap;
        let object = Object::new(cell);
        // When Ruby ends, it leaves cells in which nothing lives any more.
        let is_dead = matches!(object.kind(), 0 | T_ZOMBIE | T_MOVED);
        let internal_kind = match object.kind() {
            T_IMEMO => object.internal_kind(),
            _ => 0,
        };
        name_of(object, &mut self.name);
        let (class, payload_bytes) = match is_dead {
            true => (0, 0),
            false => (
                class_of(object).unwrap_or(0),
                self.payload_bytes(object, width),
            ),
        };
        self.out.number(kind_number(object.kind(), internal_kind));
        let flags = flags(heap.region().state(cell), !self.name.is_empty());
        self.out.byte(flags);
        self.out.number(units(self.base, class));
        self.out.number(payload_bytes);
        if !self.name.is_empty() {
            self.out.text(&self.name);
        }
        self.cells += 1;
        if !is_dead {
            self.references_of(cell, class);
        }
        self.out.number(0);
    }

    /// The bytes that an object owns outside its cell.
    fn payload_bytes(&self, object: Object, width: WidthIndex) -> usize {
        match freeing(object) {
            Freeing::Nothing | Freeing::Payload(0) => 0,
            Freeing::Payload(address) => {
                let ours = self.collector.heap.space().usable_bytes(address);
                // SAFETY: a payload that is not ours is libc's.
                ours.unwrap_or_else(|| unsafe { libc_malloc::usable_size(address as *mut c_void) })
            }
            Freeing::ByRuby => {
                let memory_of = self.collector.calls().memory_of;
                // SAFETY: the object is live, and no collection runs.
                let bytes = unsafe { memory_of(object.address()) };
                bytes.saturating_sub(width.bytes())
            }
        }
    }

    /// Writes what a cell refers to, except its class.
    fn references_of(&mut self, cell: Cell, class: Value) {
        let ruby = self.collector.heap.vm();
        let mut references = References {
            from: cell.address(),
            class,
            latest: 0,
            count: 0,
            out: &mut *self.out,
        };
        // SAFETY: the walk has found the object live, and no collection runs.
        unsafe {
            if !ruby.common().trace_cell(cell, &mut &mut references) {
                ruby.visit_cell(cell, &mut |to| references.write(to));
            }
        }
        self.references += references.count;
    }

    fn totals(&mut self) {
        let heap = &self.collector.heap;
        let elsewhere_bytes = heap.shared().payloads().elsewhere_bytes();
        self.out.tag(Tag::Totals);
        self.out.number(self.cells);
        self.out.number(self.references);
        self.out.number(elsewhere_bytes);
    }
}

/// An address as the number of units behind the region's start, plus one; 0 for none.
fn units(base: usize, address: usize) -> usize {
    match address {
        0 => 0,
        _ => (address - base) / UNIT_BYTES + 1,
    }
}

fn flags(state: CellState, is_named: bool) -> u8 {
    let flag = |flag, is_set| if is_set { flag } else { 0 };
    state.age()
        | flag(PINNED, state.is_pinned())
        | flag(UNPROTECTED, state.is_unprotected())
        | flag(REMEMBERED, state.is_remembered())
        | flag(NAMED, is_named)
}

/// Writes references as distances from the cell that they are in.
struct References<'a, 'out> {
    from: usize,
    /// The cell's class, which has been written already.
    class: usize,
    /// The latest reference: one that occurs several times in a row is written once.
    latest: usize,
    count: usize,
    out: &'a mut Out<'out>,
}

impl References<'_, '_> {
    #[inline]
    fn write(&mut self, cell: Cell) {
        let to = cell.address();
        // A distance of 0 would end the list, and a reference to itself keeps nothing
        // alive.
        if to == self.latest || to == self.class || to == self.from {
            return;
        }
        self.latest = to;
        self.count += 1;
        let distance = (to as isize - self.from as isize) / UNIT_BYTES as isize;
        self.out.signed(distance);
    }
}

/// Says that it is shared with other threads, so that Ruby traces what the collector
/// traces on one thread only: classes in Ruby 3.4, tables of call caches in Ruby 4.0.
impl Trace for &mut References<'_, '_> {
    fn lent(&mut self) -> impl Trace {
        &mut **self
    }

    #[inline]
    fn mark(&mut self, cell: Cell) {
        self.write(cell);
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn pin(&mut self, cell: Cell) {
        self.mark(cell);
    }

    fn finds_pins(&self) -> bool {
        false
    }
}

struct Roots<'a, 'out> {
    base: usize,
    /// The category whose record has begun.
    category: Option<&'a CStr>,
    out: &'a mut Out<'out>,
}

impl<'a> Roots<'a, '_> {
    fn add(&mut self, category: &'a CStr, value: Value) {
        if !is_object(value) {
            return;
        }
        if self.category != Some(category) {
            self.end();
            self.out.tag(Tag::Roots);
            self.out.text(category.to_bytes());
            self.category = Some(category);
        }
        self.out.number(units(self.base, value));
    }

    fn end(&mut self) {
        if self.category.take().is_some() {
            self.out.number(0);
        }
    }
}
