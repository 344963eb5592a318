//! What the blocks of a heap are used for: its map, and how much of it is holes.

use std::collections::BTreeMap;

use crate::graph::{Graph, Node, AGE_OLD};

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Cells of one width.
    Cells,
    /// Payloads of one size.
    Payloads,
    /// One large payload, or a part of it.
    Span,
    /// Nothing, but it holds memory.
    Spare,
    /// Nothing, and its memory has gone back to the system.
    Released,
}

impl Use {
    /// What a report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cells => "cells",
            Self::Payloads => "payloads",
            Self::Span => "span",
            Self::Spare => "spare",
            Self::Released => "released",
        }
    }
}

/// One block, or several neighbouring blocks that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// What it is used for.
    pub used_for: Use,
    /// How many neighbouring blocks are described here.
    pub count: u32,
    /// Bytes of each cell or piece; 0 for other uses.
    pub width_bytes: u32,
    /// Cells or pieces that fit; for a span the bytes of its blocks.
    pub room: u64,
    /// Cells or pieces in use; for a span the bytes that were asked for.
    pub used: u64,
    /// The sum of the ages of its cells.
    pub age_sum: u64,
}

impl Block {
    /// How full it is, from 0 to 1.
    pub fn fill(&self) -> f64 {
        match self.room {
            0 => 0.0,
            room => self.used as f64 / room as f64,
        }
    }

    /// The mean age of its cells, from 0 to 1, which means old; `None` for other uses.
    pub fn age(&self) -> Option<f64> {
        let is_aged = self.used_for == Use::Cells && self.used > 0;
        is_aged.then(|| self.age_sum as f64 / (self.used * u64::from(AGE_OLD)) as f64)
    }
}

/// All blocks with one use and width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WidthUsage {
    /// The number of blocks.
    pub blocks: u64,
    /// Cells or pieces that fit.
    pub room: u64,
    /// Cells or pieces in use.
    pub used: u64,
}

/// Blocks by width, for cells or for payloads.
pub fn by_width(blocks: &[Block], used_for: Use) -> BTreeMap<u32, WidthUsage> {
    let mut widths: BTreeMap<u32, WidthUsage> = BTreeMap::new();
    for block in blocks.iter().filter(|block| block.used_for == used_for) {
        let usage = widths.entry(block.width_bytes).or_default();
        usage.blocks += u64::from(block.count);
        usage.room += block.room;
        usage.used += block.used;
    }
    widths
}

/// The bytes of a page of Ruby's default collector, and of a page's header (3.4).
const PAGE_BYTES: u64 = 64 << 10;
const PAGE_HEADER_BYTES: u64 = 8;

/// The blocks of a dump that does not describe them, found from the addresses of its
/// objects: the pages of the default collector, or Ashlar's blocks. Both have 64 KiB,
/// begin at multiples of 64 KiB, and have cells of one width. A block without objects
/// cannot be found.
pub fn from_addresses(graph: &Graph) -> Vec<Block> {
    let mut pages: BTreeMap<u64, Block> = BTreeMap::new();
    for node in 0..graph.objects() as Node {
        let (address, width) = (graph.address(node).unwrap_or(0), graph.cell_bytes(node));
        if width == 0 {
            continue;
        }
        let page = pages.entry(address / PAGE_BYTES).or_insert(Block {
            used_for: Use::Cells,
            count: 1,
            width_bytes: width as u32,
            room: (PAGE_BYTES - PAGE_HEADER_BYTES) / width,
            used: 0,
            age_sum: 0,
        });
        page.used += 1;
        page.age_sum += u64::from(graph.age(node));
    }
    pages
        .into_values()
        .map(|page| Block {
            room: page.room.max(page.used),
            ..page
        })
        .collect()
}
