//! The dumps of `ObjectSpace.dump_all`: a line of JSON for each object.
//!
//! The lines are read with a scanner of our own: Ruby escapes neither paths nor every
//! control character, so not every line is JSON.

use std::io::BufRead;

use super::{Progress, Source, Wrong};
use crate::graph::{Builder, Object, AGE_OLD};

/// The number of lines read between two reports of progress.
const LINES_BETWEEN_NOTES: usize = 1 << 16;

pub(super) fn read(
    mut input: impl BufRead,
    builder: &mut Builder,
    progress: Progress<'_>,
) -> Result<Source, Wrong> {
    let mut line = Vec::new();
    let mut fields = Fields::default();
    let mut number = 0;
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        number += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if !fields.scan(&line) {
            return Err(match (line.ends_with(b"\n"), number) {
                (false, 2..) => Wrong::Truncated(format!("in line {number}")),
                (_, 1) => Wrong::NoDump,
                _ => Wrong::Broken(format!(
                    "line {number} is no object of ObjectSpace.dump_all"
                )),
            });
        }
        fields.add_to(builder, &line)?;
        if number % LINES_BETWEEN_NOTES == 0 {
            progress(builder.objects(), builder.references());
        }
    }
    if builder.objects() == 0 {
        return Err(Wrong::NoDump);
    }
    Ok(Source {
        format: "ObjectSpace.dump_all",
        ..Source::default()
    })
}

/// Where a text begins and ends in a line, without its quotes.
type Span = (usize, usize);

/// The fields of a line that the reader uses.
#[derive(Debug, Default)]
struct Fields {
    address: u64,
    class: u64,
    superclass: u64,
    slot_bytes: u64,
    memory_bytes: u64,
    kind: Option<Span>,
    internal_kind: Option<Span>,
    name: Option<Span>,
    root: Option<Span>,
    native_type: Option<Span>,
    is_old: bool,
    is_singleton: bool,
    references: Vec<u64>,
}

impl Fields {
    /// Reads a line; returns false when it is not a line of a dump.
    fn scan(&mut self, line: &[u8]) -> bool {
        *self = Self {
            references: std::mem::take(&mut self.references),
            ..Self::default()
        };
        self.references.clear();
        self.scan_members(line).is_some() && (self.root.is_some() || self.kind.is_some())
    }

    fn scan_members(&mut self, line: &[u8]) -> Option<()> {
        let mut at = skip_space(line, 0);
        if *line.get(at)? != b'{' {
            return None;
        }
        loop {
            let key = text(line, skip_space(line, at + 1))?;
            at = skip_space(line, key.1 + 1);
            if *line.get(at)? != b':' {
                return None;
            }
            at = skip_space(line, at + 1);
            at = skip_space(line, self.member(line, key, at)?);
            match line.get(at)? {
                b',' => {}
                b'}' => {
                    return line[at + 1..]
                        .iter()
                        .all(u8::is_ascii_whitespace)
                        .then_some(())
                }
                _ => return None,
            }
        }
    }

    /// Reads the value at `at`; returns where it ends.
    fn member(&mut self, line: &[u8], key: Span, at: usize) -> Option<usize> {
        let key = &line[key.0..key.1];
        if key == b"references" {
            return self.read_references(line, at);
        }
        let end = skip_value(line, at)?;
        let text = || text(line, at);
        let address = || address(line, text()?);
        match key {
            b"address" => self.address = address()?,
            b"class" => self.class = address()?,
            b"superclass" => self.superclass = address()?,
            b"type" => self.kind = Some(text()?),
            b"imemo_type" => self.internal_kind = Some(text()?),
            b"name" => self.name = Some(text()?),
            b"root" => self.root = Some(text()?),
            b"struct" => self.native_type = Some(text()?),
            b"slot_size" => self.slot_bytes = number(&line[at..end])?,
            b"memsize" => self.memory_bytes = number(&line[at..end])?,
            b"singleton" => self.is_singleton = line[at..end].starts_with(b"true"),
            b"flags" => self.is_old = line[at..end].windows(5).any(|word| word == b"\"old\""),
            _ => {}
        }
        Some(end)
    }

    fn read_references(&mut self, line: &[u8], at: usize) -> Option<usize> {
        if *line.get(at)? != b'[' {
            return None;
        }
        let mut at = skip_space(line, at + 1);
        while *line.get(at)? != b']' {
            let span = text(line, at)?;
            self.references.push(address(line, span)?);
            at = skip_space(line, span.1 + 1);
            if *line.get(at)? == b',' {
                at = skip_space(line, at + 1);
            }
        }
        Some(at + 1)
    }

    fn add_to(&self, builder: &mut Builder, line: &[u8]) -> Result<(), Wrong> {
        let text = |span: Option<Span>| {
            span.map_or(String::new(), |(start, end)| unescaped(&line[start..end]))
        };
        if self.root.is_some() {
            let category = text(self.root);
            for &to in &self.references {
                builder.root(&category, to)?;
            }
            return Ok(());
        }
        let mut kind = text(self.kind);
        // A shape is not an object, and a free cell has no type.
        if self.address == 0 || matches!(kind.as_str(), "SHAPE" | "NONE" | "ZOMBIE") {
            return Ok(());
        }
        if let Some(span) = self.internal_kind {
            kind = format!("IMEMO {}", text(Some(span)));
        }
        let mut name = text(self.name);
        if self.class == 0 && self.native_type.is_some() {
            kind = format!("DATA {}", text(self.native_type));
        }
        if name.is_empty() && self.is_singleton {
            name = "#<Class:...>".to_owned();
        }
        // An include class refers to its module where other objects refer to their
        // class.
        let is_inclusion = kind == "ICLASS";
        builder.object(&Object {
            address: self.address,
            kind: &kind,
            cell_bytes: self.slot_bytes as usize,
            payload_bytes: self.memory_bytes.saturating_sub(self.slot_bytes) as usize,
            age: if self.is_old { AGE_OLD } else { 0 },
            class: if is_inclusion { 0 } else { self.class },
            name: &name,
            superclass: self.superclass,
            is_hidden_class: self.is_singleton || is_inclusion,
        })?;
        if is_inclusion && self.class != 0 {
            builder.reference(self.class)?;
        }
        for &to in &self.references {
            builder.reference(to)?;
        }
        Ok(())
    }
}

fn skip_space(line: &[u8], mut at: usize) -> usize {
    while line.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// The text whose opening quote is at `at`; `None` when there is none.
fn text(line: &[u8], at: usize) -> Option<Span> {
    if *line.get(at)? != b'"' {
        return None;
    }
    let mut end = at + 1;
    loop {
        match line.get(end)? {
            b'"' => return Some((at + 1, end)),
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
}

/// Where the value at `at` ends.
fn skip_value(line: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match line.get(at)? {
            b'"' => {
                at = text(line, at)?.1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return Some(at),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Reads an address, `0x...`, between quotes.
fn address(line: &[u8], (start, end): Span) -> Option<u64> {
    let digits = line[start..end].strip_prefix(b"0x")?;
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |address, &digit| {
        let value = (digit as char).to_digit(16)?;
        Some(address << 4 | u64::from(value))
    })
}

/// Reads a whole number.
fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// A text without its escapes; bytes that are not UTF-8 become replacement characters.
fn unescaped(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    if !text.contains('\\') {
        return text.into_owned();
    }
    serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| text.into_owned())
}
