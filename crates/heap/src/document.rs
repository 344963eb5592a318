//! Tables in documents: made from the tables in the code, and compared with what is there.

use std::path::Path;

/// Compares the text between `begin` and `end` in `document`, a file of the repository, with
/// `text`. If they differ and `ASHLAR_WRITE_DOCUMENTS` is set, writes `text` there.
///
/// # Panics
/// When they differ and the variable is not set.
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
        "{document} does not say what the code says; `make documents` writes this \
         there:\n{text}"
    );
    let new = [before, begin, text, end, after].concat();
    std::fs::write(&path, new).expect(document);
}
