//! The bytes of a dump. `docs/reference/heap-dump.md` describes them.

use std::io::{self, Write};

/// The text that a dump begins with; the number of the format follows.
pub(super) const MAGIC: &[u8] = b"ashlar-heap-dump\n";
pub(super) const VERSION: usize = 1;

/// The first byte of a record.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Tag {
    /// One category of roots.
    Roots = b'R',
    /// A block of cells.
    Cells = b'C',
    /// A block of payloads.
    Payloads = b'P',
    /// Blocks that one payload takes.
    Span = b'S',
    /// Empty blocks.
    Empty = b'E',
    /// Totals: the end.
    Totals = b'T',
}

/// The unit of addresses in a dump: all cells begin at multiples of this many bytes.
pub(super) const UNIT_BYTES: usize = 8;

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// Writes numbers and texts. After an error everything is dropped, and [`Out::finish`]
/// returns the first error.
pub(super) struct Out<'a> {
    sink: &'a mut dyn Write,
    buffer: Vec<u8>,
    error: Option<io::Error>,
}

impl<'a> Out<'a> {
    pub(super) fn new(sink: &'a mut dyn Write) -> Self {
        Self {
            sink,
            buffer: Vec::with_capacity(BUFFER_BYTES + 16),
            error: None,
        }
    }

    /// Whether writing has failed, so that the caller can stop.
    pub(super) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.buffer.push(byte);
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_out();
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(BUFFER_BYTES) {
            if self.buffer.len() + part.len() > BUFFER_BYTES {
                self.write_out();
            }
            self.buffer.extend_from_slice(part);
        }
    }

    pub(super) fn tag(&mut self, tag: Tag) {
        self.byte(tag as u8);
    }

    /// Writes seven bits per byte, the lowest first; all bytes but the last have the
    /// eighth bit set.
    #[inline]
    pub(super) fn number(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.buffer.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    /// Writes a number that may be negative: twice the number, or twice its magnitude
    /// less one if it is negative.
    #[inline]
    pub(super) fn signed(&mut self, number: isize) {
        self.number(((number << 1) ^ (number >> (isize::BITS - 1))) as usize);
    }

    /// Writes a length and the bytes.
    pub(super) fn text(&mut self, text: &[u8]) {
        self.number(text.len());
        self.bytes(text);
    }

    fn write_out(&mut self) {
        if self.error.is_none() {
            self.error = self.sink.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    /// Writes what is left.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.write_out();
        self.error.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Out<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Out::new(&mut bytes);
        write(&mut out);
        out.finish().unwrap();
        bytes
    }

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        assert_eq!(written(|out| out.number(0)), [0]);
        assert_eq!(written(|out| out.number(127)), [0x7f]);
        assert_eq!(written(|out| out.number(300)), [0xac, 0x02]);
        assert_eq!(written(|out| out.number(usize::MAX)).len(), 10);
        assert_eq!(written(|out| out.signed(-1)), [1]);
        assert_eq!(written(|out| out.signed(1)), [2]);
        assert_eq!(written(|out| out.signed(-64)), [0x7f]);
    }

    #[test]
    fn texts_longer_than_the_buffer_are_whole() {
        let text: Vec<u8> = (0..3 * BUFFER_BYTES + 5).map(|i| i as u8).collect();
        let bytes = written(|out| out.bytes(&text));
        assert_eq!(bytes, text);
    }

    #[test]
    fn the_first_error_is_returned_and_the_rest_is_dropped() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                self.0 += 1;
                Err(io::Error::from_raw_os_error(28 + self.0 as i32 - 1))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut full = Full(0);
        let mut out = Out::new(&mut full);
        for _ in 0..3 {
            out.bytes(&[0; BUFFER_BYTES]);
        }
        assert!(out.has_failed());
        assert_eq!(out.finish().unwrap_err().raw_os_error(), Some(28));
        assert_eq!(full.0, 1);
    }
}
