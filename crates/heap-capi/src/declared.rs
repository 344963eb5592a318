//! What cells of each kind refer to, as the program has declared it: the heap then traces
//! them without a call.

use std::cell::Cell as StdCell;

use ashlar_heap::{Cell, Space, Trace, WIDTH_MAX_BYTES, WIDTH_MIN_BYTES};

use crate::tracer::{Inside, TraceWords};

/// `ashlar_number`: where a number lies in a cell.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Number {
    at: u16,
    bytes: u8,
    shift: u8,
    bits: u8,
}

/// `ashlar_layout`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Declared {
    refers: u8,
    owns: u8,
    row_at: u16,
    row_count: Number,
    words: [u64; 2],
}

const _: () = assert!(size_of::<Number>() == 6 && size_of::<Declared>() == 32);

/// The most kinds that a program may declare.
const KINDS_MAX: usize = 1 << 16;

/// How a number is read: from the word that it lies in.
#[derive(Clone, Copy, Debug, Default)]
struct Field {
    /// Offset of the word in bytes.
    word_at: u16,
    shift: u8,
    mask: u64,
}

impl Field {
    /// The number that a program has declared; it must lie in the first `bytes_max` bytes of a
    /// cell.
    fn new(number: Number, bytes_max: usize) -> Result<Self, String> {
        let Number {
            at,
            bytes,
            shift,
            bits,
        } = number;
        if !matches!(bytes, 1 | 2 | 4 | 8) {
            return Err(format!("bytes={bytes}: must be 1, 2, 4 or 8"));
        }
        let end = usize::from(at) + usize::from(bytes);
        if at % u16::from(bytes) != 0 || end > bytes_max {
            return Err(format!(
                "at={at}: must be a multiple of bytes={bytes} within the first {bytes_max} bytes of \
                 the cell"
            ));
        }
        let width = 8 * bytes;
        let kept = match bits {
            0 => width.saturating_sub(shift),
            bits => bits,
        };
        if kept == 0 || u16::from(shift) + u16::from(kept) > u16::from(width) {
            return Err(format!(
                "shift={shift} bits={bits}: must be bits of the {width} that the number has"
            ));
        }
        Ok(Self {
            word_at: at & !7,
            shift: 8 * (at % 8) as u8 + shift,
            mask: u64::MAX >> (64 - kept),
        })
    }

    /// # Safety
    /// `cell` is a cell, and has the word.
    #[inline(always)]
    unsafe fn read(self, cell: Cell) -> usize {
        // SAFETY: the caller's contract; a cell is aligned to words.
        let word = unsafe { place(cell, self.word_at).read() };
        (word as u64 >> self.shift & self.mask) as usize
    }
}

// Shifting finds a number that begins at a byte of its word.
const _: () = assert!(cfg!(target_endian = "little"));

/// A word of a cell.
#[inline(always)]
fn place(cell: Cell, at: u16) -> *mut usize {
    std::ptr::with_exposed_provenance_mut(cell.address() + usize::from(at))
}

/// How the references of a cell are found. Marking does the first ways inline, because most cells
/// need one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Found {
    /// By asking the callbacks.
    #[default]
    ByAsking,
    /// In some of the first 64 words.
    InWords,
    /// In a row in the cell, and nowhere else.
    InRow,
    /// In any words, and in a row, which may lie in a payload.
    Everywhere,
}

/// Where a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Row {
    #[default]
    None,
    InCell,
    /// In a payload, whose address is in the cell.
    InPayload,
}

/// What is known of a kind of cells.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    /// One bit for each word of the cell: whether it is one of those declared.
    words: [u64; 2],
    row_count: Field,
    row_at: u16,
    row: Row,
    found: Found,
    owns_nothing: bool,
}

impl Layout {
    fn new(declared: &Declared) -> Result<Self, String> {
        let Declared {
            row_at,
            row_count,
            words,
            ..
        } = *declared;
        let (asks, row) = match declared.refers {
            0 => (true, Row::None),
            1 => (false, Row::None),
            2 => (false, Row::InCell),
            3 => (false, Row::InPayload),
            other => {
                return Err(format!(
                    "refers={other}: must be ASHLAR_ASK, ASHLAR_WORDS, ASHLAR_ROW or \
                     ASHLAR_PAYLOAD_ROW"
                ))
            }
        };
        let owns_nothing = match declared.owns {
            0 => false,
            1 => true,
            other => {
                return Err(format!(
                    "owns={other}: must be ASHLAR_RELEASED or ASHLAR_OWNS_NOTHING"
                ))
            }
        };
        if row == Row::None && (row_at != 0 || row_count.bytes != 0) {
            return Err(
                "a row is declared: refers must be ASHLAR_ROW or ASHLAR_PAYLOAD_ROW".into(),
            );
        }
        if asks && words != [0; 2] {
            return Err("words are declared: refers must be ASHLAR_WORDS or one with a row".into());
        }
        let row_count = match row {
            Row::None => Field::default(),
            _ => Field::new(row_count, WIDTH_MAX_BYTES)
                .map_err(|wrong| format!("row_count: {wrong}"))?,
        };
        if row_at % 8 != 0 || usize::from(row_at) + 8 > WIDTH_MAX_BYTES {
            return Err(format!(
                "row_at={row_at}: must be a multiple of 8 below {WIDTH_MAX_BYTES}"
            ));
        }
        let found = match (row, words) {
            _ if asks => Found::ByAsking,
            (Row::None, [_, 0]) => Found::InWords,
            (Row::InCell, [0, 0]) => Found::InRow,
            _ => Found::Everywhere,
        };
        Ok(Self {
            words,
            row_count,
            row_at,
            row,
            found,
            owns_nothing,
        })
    }

    /// Calls `visit` with the place of each word outside the row.
    fn each_word(&self, cell: Cell, mut visit: impl FnMut(*mut usize)) {
        let [low, high] = self.words;
        each_bit(low, |bit| visit(place(cell, 8 * bit)));
        each_bit(high, |bit| visit(place(cell, 512 + 8 * bit)));
    }

    /// Where the row begins, and how many words it has.
    fn row(&self, cell: Cell) -> (*mut usize, usize) {
        let begin = place(cell, self.row_at);
        if self.row == Row::None {
            return (begin, 0);
        }
        // SAFETY: cells of this kind have the number, as the program has declared.
        let count = unsafe { self.row_count.read(cell) };
        if self.row == Row::InCell {
            return (begin, count);
        }
        // SAFETY: cells of this kind have the address of the payload, too.
        match unsafe { begin.cast::<*mut usize>().read() } {
            payload if payload.is_null() => (begin, 0),
            payload => (payload, count),
        }
    }

    /// Bytes that a cell must have, without the words of a row that lies in the cell.
    fn bytes_min(&self) -> usize {
        let [low, high] = self.words;
        let words = match high {
            0 => 64 - low.leading_zeros(),
            _ => 128 - high.leading_zeros(),
        };
        let count_end = usize::from(self.row_count.word_at) + 8;
        let row_end = match self.row {
            Row::None => 0,
            Row::InCell => count_end,
            Row::InPayload => count_end.max(usize::from(self.row_at) + 8),
        };
        row_end.max(8 * words as usize)
    }

    /// Marks all that a cell of any layout refers to.
    #[inline(never)]
    fn trace_everywhere(&self, inside: Inside, cell: Cell, tracer: &mut impl Trace) {
        // SAFETY: cells of this kind have the word, as the program has declared.
        self.each_word(cell, |word| unsafe { mark_word(inside, word, tracer) });
        let (row, count) = self.row(cell);
        // SAFETY: the words of the row can be read, as the program has declared, and nobody
        // writes while the program is stopped.
        let words = unsafe { std::slice::from_raw_parts(row, count) };
        tracer.mark_words(inside, words);
    }
}

/// All that a program has declared.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    kind: Field,
    of_kinds: Box<[StdCell<Layout>]>,
    /// One bit for each of the [`LOW_KINDS`]: cells of this kind own nothing.
    owning_nothing: StdCell<u64>,
}

/// How many kinds have a bit in `owning_nothing`: the lowest ones.
const LOW_KINDS: usize = u64::BITS as usize;

impl Layouts {
    /// # Safety
    /// `declared` has `count` layouts, or is null and has none.
    pub(crate) unsafe fn read(
        kind: Number,
        declared: *const Declared,
        count: usize,
    ) -> Result<Self, String> {
        if count == 0 || declared.is_null() {
            if count == 0 && declared.is_null() && kind.bytes == 0 {
                return Ok(Self::default());
            }
            return Err(format!(
                "ashlar_vm.layouts: is {}, and layout_count is {count}; for no layouts leave both, and \
                 kind, as ASHLAR_VM_INIT sets them",
                if declared.is_null() { "NULL" } else { "set" }
            ));
        }
        if count > KINDS_MAX {
            return Err(format!(
                "ashlar_vm.layout_count={count}: must be at most {KINDS_MAX}"
            ));
        }
        let kind = Field::new(kind, WIDTH_MIN_BYTES)
            .map_err(|wrong| format!("ashlar_vm.kind: {wrong}"))?;
        // SAFETY: there are `count` layouts; an empty list is not read.
        let declared = unsafe { std::slice::from_raw_parts(declared, count) };
        let read = |(kind, declared): (usize, &Declared)| {
            let layout = Layout::new(declared);
            layout
                .map(StdCell::new)
                .map_err(|wrong| format!("ashlar_vm.layouts[{kind}]: {wrong}"))
        };
        let of_kinds: Result<_, String> = declared.iter().enumerate().map(read).collect();
        let layouts = Self {
            kind,
            of_kinds: of_kinds?,
            owning_nothing: StdCell::default(),
        };
        layouts.note_owning_nothing();
        Ok(layouts)
    }

    fn note_owning_nothing(&self) {
        let low_kinds = self.of_kinds.iter().take(LOW_KINDS).enumerate();
        let bits = low_kinds.map(|(kind, layout)| u64::from(layout.get().owns_nothing) << kind);
        self.owning_nothing.set(bits.fold(0, |all, bit| all | bit));
    }

    /// Declares the layout of a kind from now on.
    pub(crate) fn set(&self, kind: usize, declared: &Declared) -> Result<(), String> {
        let count = self.of_kinds.len();
        let layout = self.of_kinds.get(kind).ok_or_else(|| {
            format!(
                "ashlar_layout_set: kind {kind}: ashlar_vm.layout_count was {count}; give it one \
                 more than the highest kind, with zeroes for kinds that are declared later"
            )
        })?;
        let wrong = |wrong| format!("ashlar_layout_set: kind {kind}: {wrong}");
        layout.set(Layout::new(declared).map_err(wrong)?);
        self.note_owning_nothing();
        Ok(())
    }

    /// Whether nothing is declared.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.of_kinds.is_empty()
    }

    /// Whether the callbacks need never be asked what a cell refers to.
    pub(crate) fn ask_for_none(&self) -> bool {
        let asks = |layout: &StdCell<Layout>| layout.get().found == Found::ByAsking;
        !self.is_empty() && !self.of_kinds.iter().any(asks)
    }

    /// Ends a program that has declared all kinds of cells but that of `cell`.
    #[cold]
    pub(crate) fn panic_without_layout(&self, cell: Cell) -> ! {
        // SAFETY: every cell has the word that the kind lies in.
        let kind = unsafe { self.kind.read(cell) };
        panic!(
            "the cell at {cell:?} is of kind {kind}, ashlar_vm.layout_count is {}, and \
             ashlar_vm.trace is NULL",
            self.of_kinds.len()
        )
    }

    /// The layout of a cell; `None` when the callbacks have to be asked.
    #[inline(always)]
    fn of(&self, cell: Cell) -> Option<&Layout> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: every cell has the word that the kind lies in.
        let kind = unsafe { self.kind.read(cell) };
        // SAFETY: no layout is changed while the program is stopped.
        let layout = unsafe { &*self.of_kinds.get(kind)?.as_ptr() };
        (layout.found != Found::ByAsking).then_some(layout)
    }

    /// Returns a function that says whether a dead cell needs no release; no cell needs one
    /// unless `is_released`. For sweeping: what the function reads is in the closure, and for a
    /// heap without layouts the function is a single test.
    #[inline(always)]
    pub(crate) fn tell_owning_nothing(&self, is_released: bool) -> impl Fn(Cell) -> bool + '_ {
        let asks = !is_released || !self.is_empty();
        let (field, of_low_kinds) = match is_released {
            true => (self.kind, self.owning_nothing.get()),
            // Every cell counts as one of kind 0, whatever its kind is.
            false => (Field::default(), 1),
        };
        move |cell| {
            if !asks {
                return false;
            }
            // SAFETY: every cell has the word that the kind lies in.
            let kind = unsafe { field.read(cell) };
            match kind < LOW_KINDS {
                true => of_low_kinds >> kind & 1 != 0,
                false => self.high_kind_owns_nothing(kind),
            }
        }
    }

    #[inline(never)]
    fn high_kind_owns_nothing(&self, kind: usize) -> bool {
        let layout = self.of_kinds.get(kind);
        layout.is_some_and(|layout| layout.get().owns_nothing)
    }

    /// Marks what a cell refers to. Returns false, with nothing marked, when the callbacks have
    /// to be asked.
    #[inline(always)]
    pub(crate) fn trace(&self, inside: Inside, cell: Cell, tracer: &mut impl Trace) -> bool {
        let Some(layout) = self.of(cell) else {
            return false;
        };
        match layout.found {
            Found::InWords => {
                // SAFETY: cells of this kind have the word, as the program has declared.
                let mark = |bit| unsafe { mark_word(inside, place(cell, 8 * bit), tracer) };
                each_bit(layout.words[0], mark);
            }
            Found::InRow => {
                let row = place(cell, layout.row_at);
                // SAFETY: cells of this kind have the number, as the program has declared.
                let count = unsafe { layout.row_count.read(cell) };
                for index in 0..count {
                    // SAFETY: the row has `count` words, as the program has declared.
                    unsafe { mark_word(inside, row.wrapping_add(index), tracer) };
                }
            }
            _ => layout.trace_everywhere(inside, cell, &mut tracer.lent()),
        }
        true
    }

    /// Calls `follow` with the place of each word that may be a reference. Returns false when the
    /// callbacks have to be asked.
    pub(crate) fn each_place(&self, cell: Cell, mut follow: impl FnMut(*mut usize)) -> bool {
        let Some(layout) = self.of(cell) else {
            return false;
        };
        layout.each_word(cell, &mut follow);
        let (row, count) = layout.row(cell);
        (0..count).for_each(|index| follow(row.wrapping_add(index)));
        true
    }

    /// Checks that all that is declared of a cell lies in the cell, or in its payload. The error
    /// is one line.
    pub(crate) fn check(&self, space: &Space, cell: Cell) -> Result<(), String> {
        let Some(layout) = self.of(cell) else {
            return Ok(());
        };
        let cell_bytes = space.region().width_of(cell).bytes();
        let about = || {
            // SAFETY: every cell has the word that the kind lies in.
            let kind = unsafe { self.kind.read(cell) };
            format!("the cell at {cell:?}, of kind {kind} and {cell_bytes} bytes")
        };
        let bytes_min = layout.bytes_min();
        if bytes_min > cell_bytes {
            return Err(format!("{}: its layout needs {bytes_min} bytes", about()));
        }
        let (row, count) = layout.row(cell);
        if !row.is_aligned() {
            return Err(format!(
                "{}: its row at {row:?} is not aligned to 8",
                about()
            ));
        }
        let row_bytes = count.saturating_mul(8);
        let room_bytes = match layout.row {
            Row::None => None,
            Row::InCell => Some(cell_bytes.saturating_sub(layout.row_at.into())),
            // Memory outside the heap may be of any size.
            Row::InPayload => space.usable_bytes(row as usize),
        };
        match room_bytes {
            Some(room_bytes) if row_bytes > room_bytes => Err(format!(
                "{}: its row of {count} words does not fit into {room_bytes} bytes",
                about()
            )),
            _ => Ok(()),
        }
    }
}

/// Marks what a word refers to.
///
/// # Safety
/// `word` can be read.
#[inline(always)]
unsafe fn mark_word(inside: Inside, word: *mut usize, tracer: &mut impl Trace) {
    // SAFETY: the word can be read.
    if let Some(child) = inside.reference(unsafe { word.read() }) {
        tracer.mark(child);
    }
}

/// Calls `visit` with the number of each bit that is set.
#[inline(always)]
fn each_bit(mut bits: u64, mut visit: impl FnMut(u16)) {
    while bits != 0 {
        visit(bits.trailing_zeros() as u16);
        bits &= bits - 1;
    }
}
