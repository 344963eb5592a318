//! Cursors for C: a position in a JudyL array that moves without a new search.

use crate::array::{map_of, Map};
use ashlar_wordmap::Cursor;
use std::ffi::c_void;
use std::ptr::{from_ref, null_mut};

/// A cursor over an array, in a block of its own.
pub struct ArrayCursor {
    cursor: Cursor<'static>,
}

/// Makes a cursor over the array, at no entry; returns null when there is no memory.
///
/// # Safety
/// `root` must be a JudyL array or null; it must not change while the cursor is used.
#[no_mangle]
pub unsafe extern "C" fn ashlar_cursor_open(root: *const c_void) -> *mut ArrayCursor {
    // SAFETY: the caller's contract: the nodes live and do not change as long as the cursor
    // is used, so their borrow may be made static. The cursor itself holds the root, not the
    // address that the root was read from.
    unsafe {
        let map: &Map = map_of(&root);
        let cursor: Cursor<'static> = std::mem::transmute(map.cursor());
        let block: *mut ArrayCursor = libc::malloc(size_of::<ArrayCursor>()).cast();
        if !block.is_null() {
            block.write(ArrayCursor { cursor });
        }
        block
    }
}

/// Frees a cursor.
///
/// # Safety
/// `cursor` must come from [`ashlar_cursor_open`] and not be used again; null is ignored.
#[no_mangle]
pub unsafe extern "C" fn ashlar_cursor_close(cursor: *mut ArrayCursor) {
    // SAFETY: the caller's contract; a cursor owns nothing else.
    unsafe { libc::free(cursor.cast()) };
}

/// # Safety
/// `index` must lead to a word.
unsafe fn here(cursor: &ArrayCursor, index: *mut u64) -> *mut u64 {
    match cursor.cursor.entry() {
        Some((key, value)) => {
            // SAFETY: `index` leads to a word.
            unsafe { *index = key };
            from_ref(value).cast_mut()
        }
        None => null_mut(),
    }
}

macro_rules! moves {
    ($(#[$doc:meta])* $name:ident, $cursor:ident, $at:ident => $go:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// `cursor` must be open, `index` lead to a word.
        #[no_mangle]
        pub unsafe extern "C" fn $name(cursor: *mut ArrayCursor, index: *mut u64) -> *mut u64 {
            // SAFETY: the cursor is open, `index` leads to a word.
            unsafe {
                let $cursor = &mut (*cursor).cursor;
                let $at = *index;
                let _ = $at;
                $go;
                here(&*cursor, index)
            }
        }
    };
}

moves!(
    /// Goes to the first entry at or above `*index`.
    ashlar_cursor_seek, cursor, at => cursor.seek(at)
);
moves!(
    /// Goes to the last entry at or below `*index`.
    ashlar_cursor_seek_back, cursor, at => cursor.seek_back(at)
);
moves!(
    /// Goes to the entry with `*index` entries before it.
    ashlar_cursor_seek_nth, cursor, at => cursor.seek_nth(at)
);
moves!(
    /// Goes to the next entry.
    ashlar_cursor_next, cursor, at => cursor.move_next()
);
moves!(
    /// Goes to the previous entry.
    ashlar_cursor_previous, cursor, at => cursor.move_previous()
);

/// Calls `visit` with each index in order and the address of its value.
///
/// # Safety
/// `root` must be a JudyL array or null; `visit` may write the value, but change nothing
/// else in the array.
#[no_mangle]
pub unsafe extern "C" fn ashlar_wordmap_each(
    root: *const c_void,
    visit: unsafe extern "C" fn(index: u64, value: *mut u64, argument: *mut c_void),
    argument: *mut c_void,
) {
    // SAFETY: `root` is an array or null; `visit` leaves the array as it is.
    unsafe {
        for (index, value) in map_of(&root) {
            visit(index, from_ref(value).cast_mut(), argument);
        }
    }
}
