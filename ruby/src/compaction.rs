//! Moving Ruby's objects: which may move and to which width, how their references are
//! rewritten, and what Ruby learns of a move.
//!
//! Ruby's own functions rewrite the references of an object, and put what it owns into
//! its cell when that fits there. Common objects whose form stays the same are
//! rewritten here, which saves the calls. A pinned object always keeps its form:
//! somebody may hold the address of what it owns.

use std::mem::MaybeUninit;

use ashlar_heap::{Cell, Evacuation, Forwarding, Request, WidthIndex};
use ashlar_wordmap::OutOfMemory;

use crate::collect::Reason;
use crate::heap_profile::samples;
use crate::knobs::KNOBS;
use crate::layout::*;
use crate::lock::{Gvl, Objspace};
use crate::move_counts::MoveCounts;
use crate::object_model::{each_value, plain_object_bytes, Object, Ruby, Values};
use crate::objects::width_for;
use crate::ruby_calls::{is_object, Value};
use crate::statics;

impl Ruby {
    /// The width that suits an object; `None` when it must not move.
    pub(crate) fn suitable_width(&self, cell: Cell, width: WidthIndex) -> Option<WidthIndex> {
        let object = Object::new(cell);
        if matches!(object.kind(), 0 | T_SYMBOL | T_ZOMBIE) {
            return None;
        }
        self.move_counts.note_considered(object.kind());
        let wanted = match object.kind() {
            T_OBJECT => return Some(self.width_of_variables(object, width)),
            _ => self.suitable_bytes(object),
        };
        let wanted = wanted.map(|bytes| width_for(object.flags(), bytes));
        Some(match wanted {
            None => width,
            // An object too large for any cell needs only its header in its cell.
            Some(None) => width_for(object.flags(), HEADER_BYTES).unwrap_or(width),
            Some(Some(wanted)) => wanted,
        })
    }

    /// The width that suits a plain object. If its variables are elsewhere, that is the
    /// width that its class gives to new objects, provided some have been made: it
    /// shares its shapes with them.
    fn width_of_variables(&self, object: Object, width: WidthIndex) -> WidthIndex {
        if object.keeps_variables() || object.is_too_complex() {
            return width;
        }
        let count = self.variables(object).count();
        if count == 0 {
            // An object that was moved to another Ractor leaves an object whose shape
            // belongs to no width.
            return width;
        }
        let counts = [count.max(object.variables_of_class()), count];
        let wanted = counts
            .into_iter()
            .filter_map(|count| plain_object_bytes(OBJECT_EMBEDDED + 8 * count))
            .filter_map(|bytes| width_for(object.flags(), bytes));
        let exists = |wanted: &WidthIndex| self.shape_in(object, *wanted) != 0;
        wanted.into_iter().find(exists).unwrap_or(width)
    }

    /// The bytes that an object would take with all it owns; `None` when its cell is
    /// right as it is.
    fn suitable_bytes(&self, object: Object) -> Option<usize> {
        match object.kind() {
            T_STRING if keeps_buffer(object) => None,
            T_STRING | T_ARRAY | T_HASH => {
                // SAFETY: the object is live; Ruby only computes.
                Some(unsafe { (self.calls.optimal_size)(object.address()) })
            }
            T_STRUCT => {
                let members = object.embedded_members();
                (members > 0).then(|| object.struct_bytes(members))
            }
            _ => None,
        }
    }

    /// The shape that an object has in cells of another width; 0 when there is none
    /// yet.
    fn shape_in(&self, object: Object, width: WidthIndex) -> u32 {
        // SAFETY: the object is live, and Ruby has a root shape for every width.
        unsafe { (self.calls.shape_in_width)(object.address(), width.index()) }
    }

    /// Moves the object's entries in tables by address to the new address. When there
    /// is no memory, nothing changes.
    fn move_entries(&self, from: Value, to: Value) -> Result<(), OutOfMemory> {
        let mut ids = self.object_ids.borrow_mut();
        ids.begin_move(from, to)?;
        let moved = self.finalizers.borrow_mut().moved(from, to);
        match moved {
            Ok(()) => ids.finish_move(from, to),
            Err(_) => ids.undo_move(to),
        }
        moved
    }

    /// Called when an object has been copied to another cell. Returns false when there
    /// is no memory for its entries in tables by address.
    pub(crate) fn object_moved(
        &self,
        from: Cell,
        to: Cell,
        width: WidthIndex,
        new_width: WidthIndex,
    ) -> bool {
        let object = Object::new(from);
        let is_known = object.has(FL_SEEN_OBJ_ID | FL_FINALIZE) || object.has_left();
        if is_known && self.move_entries(from.address(), to.address()).is_err() {
            return false;
        }
        if KNOBS.has_heap_profile.is_on() {
            samples::moved(from.address(), to.address());
        }
        if object.has_generic_variables() {
            // SAFETY: both addresses are of this object; only a table changes.
            unsafe { (self.calls.move_generic_variables)(from.address(), to.address()) };
        }
        if object.kind() == T_OBJECT && width != new_width {
            let shape = self.shape_in(object, new_width);
            // SAFETY: the copy is an object; the shape exists (`suitable_width`).
            unsafe { (self.calls.set_shape)(to.address(), shape) };
        }
        let counts = &self.move_counts;
        counts.note_moved(object.kind(), width, new_width);
        true
    }

    /// Rewrites the references of an object.
    #[inline]
    pub(crate) fn update_object(&self, cell: Cell, now: Forwarding<'_>) {
        let object = Object::new(cell);
        let keeps_form = now.is_pinned(cell) || keeps_buffer(object);
        if !object.has_generic_variables() {
            if object.is_small_hash() {
                return update_small_hash(object, now);
            }
            if let Some(values) = self.values_in(object, keeps_form) {
                update_values(now, values);
                update_value(now, object.address() + KLASS);
                return;
            }
        }
        if keeps_form && matches!(object.kind(), T_STRING | T_ARRAY) {
            return self.update_in_form(object);
        }
        self.update_by_ruby(object);
    }

    /// The references of an object that keeps its form, except its class; `None` when
    /// Ruby has to find them.
    #[inline(always)]
    fn values_in(&self, object: Object, keeps_form: bool) -> Option<[Values; 2]> {
        let none = Values::default();
        match object.kind() {
            T_STRING if !object.has(STR_NOEMBED) => Some([none, none]),
            T_ARRAY if object.has(RARRAY_EMBED_FLAG) => Some([object.embedded_values(), none]),
            T_OBJECT if object.is_too_complex() => None,
            T_OBJECT if object.keeps_variables() || keeps_form => {
                Some([self.variables(object), none])
            }
            T_STRUCT => Some([object.members(), none]),
            T_RATIONAL | T_COMPLEX => Some([object.two_parts(), none]),
            T_FLOAT | T_BIGNUM => Some([none, none]),
            _ => None,
        }
    }

    /// Makes Ruby rewrite the references of a string or an array whose buffer stays
    /// where it is. During the call a flag is set that forbids embedding the buffer.
    fn update_in_form(&self, object: Object) {
        let forbids = match object.kind() {
            T_STRING => STR_NOFREE,
            _ => FL_FREEZE,
        };
        let flags = object.address() as *mut usize;
        // SAFETY: the object is live and begins with its flags.
        unsafe {
            flags.write(flags.read() | forbids);
            self.update_by_ruby(object);
            flags.write(flags.read() & !forbids | object.flags() & forbids);
        }
    }

    #[inline(never)]
    fn update_by_ruby(&self, object: Object) {
        // SAFETY: the object is live; Ruby asks where the objects that it refers to are
        // now.
        unsafe { (self.calls.update_object)(statics::objspace(), object.address()) };
    }

    /// Rewrites the references that are outside objects.
    pub(crate) fn update_tables(&self, now: Forwarding<'_>) {
        self.finalizers.borrow_mut().update(|value| {
            if is_object(value) {
                now.location(value)
            } else {
                value
            }
        });
        // SAFETY: the lock is held and all objects have been rewritten.
        unsafe { (self.calls.update_vm)(statics::objspace()) };
    }
}

/// The bytes that an object needs at least, when all it owns is elsewhere.
const HEADER_BYTES: usize = 40;

/// Whether a string's buffer stays where it is: if C code has locked the string,
/// because that code has the buffer's address; if the string is empty, because Ruby
/// would lose the buffer.
#[inline(always)]
fn keeps_buffer(object: Object) -> bool {
    object.kind() == T_STRING
        && object.has(STR_NOEMBED)
        && (object.has(STR_TMPLOCK) || object.word(STR_LEN) == 0)
}

#[inline(always)]
fn update_values(now: Forwarding<'_>, values: [Values; 2]) {
    for values in values {
        each_value(values, |place| update_value(now, place));
    }
}

#[inline(always)]
fn update_small_hash(hash: Object, now: Forwarding<'_>) {
    for pair in hash.small_hash_pairs() {
        each_value(pair, |place| update_value(now, place));
    }
    update_value(now, hash.hash_default());
    update_value(now, hash.address() + KLASS);
}

/// Rewrites the value at `place`, and touches its page only when it changes.
#[inline(always)]
fn update_value(now: Forwarding<'_>, place: usize) {
    let place = place as *mut Value;
    // SAFETY: the caller passes the place of a value of a live object.
    unsafe {
        let value = place.read();
        if is_object(value) {
            let location = now.location(value);
            if location != value {
                place.write(location);
            }
        }
    }
}

/// Compacts, for a program that asks for it.
#[no_mangle]
extern "C" fn ashlar_compact(gvl: Gvl, everything: bool) {
    let evacuation = if everything {
        Evacuation::Everything
    } else {
        Evacuation::Sparse
    };
    let request = Request {
        compact: Some(evacuation),
        ..Request::EVERYTHING
    };
    gvl.with_vm_lock(|collector| {
        collector.driver(Reason::Method).collect(request);
        // A program that asks for it can wait until the pages are given back.
        collector.heap.release_empty_blocks();
    });
}

#[no_mangle]
extern "C" fn ashlar_latest_compaction(gvl: Gvl, counts: &mut MaybeUninit<MoveCounts>) {
    gvl.with_vm_lock(|collector| counts.write(collector.heap.vm().move_counts.clone()));
}

/// The address at which an object is now; any word may be passed.
#[no_mangle]
extern "C" fn ashlar_location(objspace: &Objspace, value: Value) -> Value {
    objspace.location(value)
}

/// Whether an object has moved away from `value`; any word may be passed.
#[no_mangle]
extern "C" fn ashlar_has_moved(objspace: &Objspace, value: Value) -> bool {
    objspace.has_moved(value)
}
