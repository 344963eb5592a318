//! Options in documents: made from the tables, and compared with what stands there.

use std::path::Path;

use super::Setting;

/// An option as a document shows it.
#[derive(Debug)]
pub struct Row {
    /// What it is called.
    pub name: &'static str,
    /// What it is when nobody says anything.
    pub default: String,
    /// What it may be.
    pub wanted: String,
    /// It cannot change once the heap is in use.
    pub at_start_only: bool,
    /// What it does.
    pub about: &'static str,
    /// The document that says more, or nothing.
    pub more: &'static str,
}

/// The rows of a table.
pub fn rows<O: Copy>(table: &[Setting<O>], defaults: &O) -> Vec<Row> {
    let row = |setting: &Setting<O>| Row {
        name: setting.name,
        default: setting.value(defaults).to_string(),
        wanted: setting.wanted().into_owned(),
        at_start_only: setting.at_start_only,
        about: setting.about,
        more: setting.more,
    };
    table.iter().map(row).collect()
}

/// Compares what stands between `begin` and `end` in `document`, a file of the repository, with
/// `text`. If `ASHLAR_WRITE_DOCUMENTS` is set, it writes that there.
///
/// # Panics
/// When they differ.
pub fn compare(document: &str, begin: &str, end: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(document);
    let old = std::fs::read_to_string(&path).expect(document);
    let (before, rest) = old.split_once(begin).expect(begin);
    let (there, after) = rest.split_once(end).expect(end);
    if there == text {
        return;
    }
    assert!(
        std::env::var_os("ASHLAR_WRITE_DOCUMENTS").is_some(),
        "{document} does not say of options what the code says; `make documents` writes this \
         there:\n{text}"
    );
    let new = [before, begin, text, end, after].concat();
    std::fs::write(&path, new).expect(document);
}
