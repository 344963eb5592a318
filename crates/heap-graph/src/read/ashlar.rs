//! The dumps of `GC.config(dump: "file")`: `docs/reference/heap-dump.md` describes the format,
//! `ruby/src/dump` writes it.

use std::collections::HashMap;
use std::io::BufRead;

use super::input::Input;
use super::{Progress, Source, Wrong};
use crate::blocks::{Block, Use};
use crate::graph::{Builder, Object};

const MAGIC: &[u8] = b"ashlar-heap-dump\n";
const VERSION: u64 = 1;
const UNIT_BYTES: u64 = 8;
/// No heap reserves more.
const HEAP_BYTES_MAX: u64 = 1 << 42;
/// No dump is of a later second of Unix time.
const SECONDS_MAX: u64 = 1 << 40;

const AGE: u8 = 3;
const NAMED: u8 = 1 << 5;

/// The number of objects read between two reports of progress.
const OBJECTS_BETWEEN_NOTES: usize = 1 << 16;

pub(super) fn read(
    input: impl BufRead,
    builder: &mut Builder,
    progress: Progress<'_>,
) -> Result<Source, Wrong> {
    let mut input = Input::new(input);
    if !input.begins_with(MAGIC)? {
        return Err(Wrong::NoDump);
    }
    let version = input.number()?;
    if version != VERSION {
        return Err(Wrong::Broken(format!(
            "the dump has format {version}, and this program reads {VERSION}"
        )));
    }
    let mut source = Source {
        format: "GC.config(dump:)",
        ruby_version: Some(input.text()?),
        pid: Some(input.number()?),
        unix_seconds: Some(input.number()?),
        tells_blocks: true,
        ..Source::default()
    };
    if source.unix_seconds > Some(SECONDS_MAX) {
        return Err(Wrong::Broken("the time of the dump cannot be".to_owned()));
    }
    let base = input.number()?;
    let block_bytes = input.number()?;
    if block_bytes == 0 {
        return Err(Wrong::Broken("its blocks have 0 bytes".to_owned()));
    }
    let mut kinds = HashMap::new();
    for _ in 0..input.number()? {
        let number = input.number()?;
        kinds.insert(number, input.text()?);
    }
    let mut reader = Reader {
        input,
        builder,
        base,
        block_bytes,
        kinds,
        hidden: String::new(),
        next_block: 0,
        references: 0,
    };
    while let Some(elsewhere_bytes) = reader.record(progress)? {
        if let Some(bytes) = elsewhere_bytes {
            source.elsewhere_bytes = Some(bytes);
            break;
        }
    }
    Ok(source)
}

struct Reader<'a, R> {
    input: Input<R>,
    builder: &'a mut Builder,
    /// The first address of the heap.
    base: u64,
    block_bytes: u64,
    kinds: HashMap<u64, String>,
    /// The name of the kind for a native type without a class; a buffer.
    hidden: String,
    /// The number of the block that the next record describes.
    next_block: u64,
    /// The number of references read so far, as the dump counts them.
    references: u64,
}

impl<R: BufRead> Reader<'_, R> {
    /// Reads a record. Returns `Some(None)`, or the result of [`Self::totals`] for the
    /// last record.
    fn record(&mut self, progress: Progress<'_>) -> Result<Option<Option<u64>>, Wrong> {
        match self.input.byte()? {
            b'R' => self.roots()?,
            b'C' => self.cells(progress)?,
            b'P' => {
                let (piece_bytes, used) = (self.input.number()?, self.input.number()?);
                if piece_bytes == 0 {
                    return Err(self.broken("pieces of 0 bytes"));
                }
                self.blocks(
                    Use::Payloads,
                    1,
                    piece_bytes,
                    self.block_bytes / piece_bytes,
                    used,
                )?;
            }
            b'S' => {
                let (blocks, bytes) = (self.input.number()?, self.input.number()?);
                self.blocks(
                    Use::Span,
                    blocks,
                    0,
                    blocks.saturating_mul(self.block_bytes),
                    bytes,
                )?;
            }
            b'E' => {
                let (blocks, held) = (self.input.number()?, self.input.number()?);
                let held = held.min(blocks);
                self.blocks(Use::Spare, held, 0, 0, 0)?;
                self.blocks(Use::Released, blocks - held, 0, 0, 0)?;
            }
            b'T' => return self.totals().map(|bytes| Some(Some(bytes))),
            other => return Err(self.broken(&format!("a record {other:#04x}"))),
        }
        Ok(Some(None))
    }

    fn broken(&self, what: &str) -> Wrong {
        Wrong::Broken(format!(
            "{what} before byte {} cannot be",
            self.input.position
        ))
    }

    fn blocks(
        &mut self,
        used_for: Use,
        count: u64,
        width_bytes: u64,
        room: u64,
        used: u64,
    ) -> Result<(), Wrong> {
        self.next_block = self.next_block.saturating_add(count);
        if self.next_block > HEAP_BYTES_MAX / self.block_bytes {
            return Err(self.broken(&format!("a heap of {} blocks", self.next_block)));
        }
        if count > 0 {
            self.builder.blocks.push(Block {
                used_for,
                count: u32::try_from(count).unwrap_or(u32::MAX),
                width_bytes: width_bytes as u32,
                room,
                used,
                age_sum: 0,
            });
        }
        Ok(())
    }

    /// The address that a number of units stands for; 0 for none.
    fn address(&self, units: u64) -> u64 {
        match units {
            0 => 0,
            _ => self.base.wrapping_add((units - 1).wrapping_mul(UNIT_BYTES)),
        }
    }

    fn roots(&mut self) -> Result<(), Wrong> {
        let category = self.input.text()?;
        loop {
            match self.input.number()? {
                0 => return Ok(()),
                units => self.builder.root(&category, self.address(units))?,
            }
        }
    }

    fn cells(&mut self, progress: Progress<'_>) -> Result<(), Wrong> {
        let width = self.input.number()?;
        if width == 0 || width > self.block_bytes {
            return Err(self.broken(&format!("cells of {width} bytes")));
        }
        let start = self
            .base
            .wrapping_add(self.next_block.wrapping_mul(self.block_bytes));
        let room = self.block_bytes / width;
        let (mut next, mut used, mut age_sum) = (0u64, 0, 0);
        loop {
            let step = self.input.number()?;
            if step == 0 {
                break;
            }
            next = next.saturating_add(step);
            if next > room {
                return Err(self.broken("a cell behind the end of its block"));
            }
            let age = self.cell(start.wrapping_add((next - 1) * width), width)?;
            used += 1;
            age_sum += u64::from(age);
            if self.builder.objects() % OBJECTS_BETWEEN_NOTES == 0 {
                progress(self.builder.objects(), self.builder.references());
            }
        }
        self.blocks(Use::Cells, 1, width, room, used)?;
        if let Some(block) = self.builder.blocks.last_mut() {
            block.age_sum = age_sum;
        }
        Ok(())
    }

    /// Reads a cell; returns its age.
    fn cell(&mut self, address: u64, width: u64) -> Result<u8, Wrong> {
        let kind = self.input.number()?;
        let flags = self.input.byte()?;
        let class = self.input.number()?;
        let payload_bytes = self.input.number()?;
        let mut name = match flags & NAMED {
            0 => String::new(),
            _ => self.input.text()?,
        };
        let mut kind = self.kinds.get(&kind).map_or("UNKNOWN", String::as_str);
        if kind == "DATA" && !name.is_empty() {
            self.hidden = format!("DATA {}", std::mem::take(&mut name));
            kind = &self.hidden;
        }
        self.builder.object(&Object {
            address,
            kind,
            cell_bytes: width as usize,
            payload_bytes: payload_bytes as usize,
            age: flags & AGE,
            class: self.address(class),
            name: &name,
            superclass: 0,
            is_hidden_class: false,
        })?;
        loop {
            match self.input.signed()? {
                0 => return Ok(flags & AGE),
                units => {
                    let to = address.wrapping_add((units as u64).wrapping_mul(UNIT_BYTES));
                    self.builder.reference(to)?;
                    self.references += 1;
                }
            }
        }
    }

    /// Reads the last record, checks it, and returns the bytes that objects own outside
    /// the heap.
    fn totals(&mut self) -> Result<u64, Wrong> {
        let (cells, references) = (self.input.number()?, self.input.number()?);
        let elsewhere_bytes = self.input.number()?;
        if cells != self.builder.objects() as u64 || references != self.references {
            return Err(Wrong::Broken(format!(
                "it has {} objects and {} references, and says that they are {cells} and {references}",
                self.builder.objects(),
                self.references
            )));
        }
        if !self.input.is_over()? {
            return Err(Wrong::Broken(format!(
                "something follows its end, byte {}",
                self.input.position
            )));
        }
        Ok(elsewhere_bytes)
    }
}
