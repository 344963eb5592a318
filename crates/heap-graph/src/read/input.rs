//! Numbers and texts of Ashlar's dumps.

use std::io::{self, BufRead};

use super::Wrong;

/// Reads what `ruby/src/dump/format.rs` writes.
pub(super) struct Input<R> {
    input: R,
    /// Bytes read so far.
    pub(super) position: u64,
}

/// The longest text that a dump contains, in bytes.
const TEXT_BYTES_MAX: u64 = 1 << 16;

impl<R: BufRead> Input<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, position: 0 }
    }

    fn ends(&self) -> Wrong {
        Wrong::Truncated(format!("after {} bytes", self.position))
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Wrong> {
        let buffer = self.input.fill_buf()?;
        let Some(&byte) = buffer.first() else {
            return Err(self.ends());
        };
        self.input.consume(1);
        self.position += 1;
        Ok(byte)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Result<u64, Wrong> {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift > 63 || (shift == 63 && bits > 1) {
                return Err(Wrong::Broken(format!(
                    "byte {} ends a number of more than 64 bits",
                    self.position
                )));
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    #[inline]
    pub(super) fn signed(&mut self) -> Result<i64, Wrong> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(super) fn text(&mut self) -> Result<String, Wrong> {
        let length = self.number()?;
        if length > TEXT_BYTES_MAX {
            return Err(Wrong::Broken(format!(
                "byte {} begins a text of {length} bytes",
                self.position
            )));
        }
        let mut text = vec![0; length as usize];
        match self.input.read_exact(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(self.ends()),
            result => result?,
        }
        self.position += length;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Reads as many bytes as `expected` has; returns whether they are the same.
    pub(super) fn begins_with(&mut self, expected: &[u8]) -> Result<bool, Wrong> {
        for &byte in expected {
            match self.byte() {
                Ok(found) if found == byte => {}
                Ok(_) | Err(Wrong::Truncated(_)) => return Ok(false),
                Err(wrong) => return Err(wrong),
            }
        }
        Ok(true)
    }

    /// Whether the input is at its end.
    pub(super) fn is_over(&mut self) -> Result<bool, Wrong> {
        Ok(self.input.fill_buf()?.is_empty())
    }
}
