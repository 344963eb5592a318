//! Options as documents show them.

use super::Setting;

/// An option as a document shows it.
#[derive(Debug)]
pub struct Row {
    /// What it is called.
    pub name: &'static str,
    /// Its value when nobody chooses one.
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
