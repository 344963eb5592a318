//! Names of classes, code and native types, read from where Ruby keeps them, because
//! Ruby's own functions for names make objects.

use std::ffi::{c_char, CStr};
use std::slice;

use crate::layout::*;
use crate::object_model::Object;
use crate::ruby_calls::{cell, is_object, Value};

/// How deep singleton classes of singleton classes are named.
const NESTING_MAX: usize = 4;
/// The most bytes of a name; a longer name is cut.
const NAME_BYTES_MAX: usize = 500;

/// The object that a word of a live object refers to.
fn object(value: Value) -> Option<Object> {
    // SAFETY: what an object refers to is an object of this heap.
    is_object(value).then(|| Object::new(unsafe { cell(value) }))
}

/// The bytes of a string.
fn bytes<'a>(string: Object) -> &'a [u8] {
    let start = match string.has(STR_NOEMBED) {
        true => string.word(STR_PTR),
        false => string.address() + STR_EMBEDDED,
    };
    // SAFETY: a live string has this many bytes there, and the program is stopped.
    unsafe { slice::from_raw_parts(start as *const u8, string.word(STR_LEN)) }
}

fn add_string(name: &mut Vec<u8>, value: Value) -> bool {
    let Some(string) = object(value).filter(|found| found.kind() == T_STRING) else {
        return false;
    };
    let bytes = bytes(string);
    name.extend_from_slice(&bytes[..bytes.len().min(NAME_BYTES_MAX)]);
    true
}

/// The class that the program sees as the object's: no singleton class, and no include
/// class. `None` for Ruby's internal objects and for include classes themselves.
pub(super) fn class_of(found: Object) -> Option<Value> {
    if matches!(found.kind(), T_IMEMO | T_ICLASS) {
        return None;
    }
    let mut class = found.word(KLASS);
    while let Some(found) = object(class) {
        let is_seen = found.kind() != T_ICLASS && !found.has(FL_SINGLETON);
        if is_seen {
            return Some(class);
        }
        class = found.word(CLASS_SUPER);
    }
    None
}

/// Sets `name` to the name of an object; empties it for an object without a name.
pub(super) fn name_of(found: Object, name: &mut Vec<u8>) {
    name.clear();
    match found.kind() {
        T_CLASS | T_MODULE => add_class(name, found, 0),
        T_ICLASS => {
            if let Some(module) = object(found.word(KLASS)) {
                add_class(name, module, 0);
            }
        }
        T_IMEMO if found.internal_kind() == IMEMO_ISEQ => add_code(name, found),
        T_DATA if found.word(KLASS) == 0 => add_data_type(name, found),
        _ => {}
    }
}

/// Adds a class's name; nothing when it has none.
fn add_class(name: &mut Vec<u8>, class: Object, nesting: usize) {
    if !matches!(class.kind(), T_CLASS | T_MODULE) || nesting > NESTING_MAX {
        return;
    }
    if class.kind() == T_MODULE || !class.has(FL_SINGLETON) {
        add_string(name, class.word(CLASS_PATH));
        return;
    }
    name.extend_from_slice(b"#<Class:");
    if let Some(attached) = object(class.word(CLASS_ATTACHED)) {
        if matches!(attached.kind(), T_CLASS | T_MODULE) {
            add_class(name, attached, nesting + 1);
        } else if let Some(of) = class_of(attached).and_then(object) {
            name.extend_from_slice(b"#<");
            add_class(name, of, nesting + 1);
            name.push(b'>');
        }
    }
    name.push(b'>');
}

/// Adds the name of compiled code: `label path:line`. Code that has not been loaded yet
/// has no name.
fn add_code(name: &mut Vec<u8>, code: Object) {
    let body = code.word(ISEQ_BODY);
    if body == 0 || code.is_unfinished_code() {
        return;
    }
    // SAFETY: the body of compiled code has these fields, which are 0 before it is
    // loaded.
    let (label, path, line) = unsafe {
        (
            ((body + ISEQ_LABEL) as *const Value).read(),
            ((body + ISEQ_PATH) as *const Value).read(),
            ((body + ISEQ_LINE) as *const i32).read(),
        )
    };
    if add_string(name, label) {
        name.push(b' ');
    }
    let path = match object(path) {
        // The path and the real path.
        Some(pair) if pair.kind() == T_ARRAY && pair.has(RARRAY_EMBED_FLAG) => {
            pair.word(ARRAY_EMBEDDED)
        }
        _ => path,
    };
    if add_string(name, path) {
        name.extend_from_slice(format!(":{line}").as_bytes());
    }
}

/// Adds the name of the native type of an object that has no class.
fn add_data_type(name: &mut Vec<u8>, data: Object) {
    let Some([data_type, _]) = data.typed_data() else {
        return;
    };
    // SAFETY: an object of a native type refers to the type, which has a name that ends
    // with 0 or none.
    unsafe {
        let text = ((data_type + DATA_TYPE_NAME) as *const *const c_char).read();
        if !text.is_null() {
            let text = CStr::from_ptr(text).to_bytes();
            name.extend_from_slice(&text[..text.len().min(NAME_BYTES_MAX)]);
        }
    }
}
