//! What the environment says: the folder, named by `ASHLAR_CODE_CACHE`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::OnceLock;

use crate::message;

/// The folder as it was named, and as an absolute path: the program may change its folder.
struct Chosen {
    named: String,
    folder: PathBuf,
}

static CHOSEN: OnceLock<Chosen> = OnceLock::new();
static HAS_STARTED: AtomicBool = AtomicBool::new(false);
static IS_VERBOSE: AtomicBool = AtomicBool::new(false);
static HAS_SPOKEN: AtomicBool = AtomicBool::new(false);
static LETS_CODE_WAIT: AtomicBool = AtomicBool::new(true);

/// Notes what the environment asks for, before Ruby has started.
pub(crate) fn read_environment(lazy_code: bool) -> Result<(), String> {
    HAS_STARTED.store(true, Relaxed);
    LETS_CODE_WAIT.store(lazy_code, Relaxed);
    let named = std::env::var_os("ASHLAR_CODE_CACHE").filter(|named| !named.is_empty());
    match named {
        // A program that runs for another user than the one who set its environment.
        // SAFETY: the call only reads.
        Some(_) if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 => Ok(()),
        Some(named) => choose(named),
        None => Ok(()),
    }
}

fn choose(named: OsString) -> Result<(), String> {
    let shown = named.to_string_lossy().into_owned();
    let folder = PathBuf::from(named);
    if std::fs::metadata(&folder).is_ok_and(|data| !data.is_dir()) {
        return Err(format!(
            "ASHLAR_CODE_CACHE={shown}: it is there and is no folder; name a folder"
        ));
    }
    // Without a slash at its end, which would follow a link.
    let folder: PathBuf = std::path::absolute(&folder)
        .unwrap_or(folder)
        .components()
        .collect();
    let _ = CHOSEN.set(Chosen {
        named: shown,
        folder,
    });
    Ok(())
}

/// The folder, if there is to be a cache.
pub(super) fn folder() -> Option<&'static PathBuf> {
    CHOSEN.get().map(|chosen| &chosen.folder)
}

/// The folder as it was named, or `none`.
pub(crate) fn shown() -> &'static str {
    CHOSEN.get().map_or("none", |chosen| &chosen.named)
}

/// Whether the option may be this: anything at the start, when [`read_environment`] looks at it,
/// and what it is later.
pub(crate) fn may_be(text: &str) -> bool {
    !HAS_STARTED.load(Relaxed) || text == shown()
}

/// Whether code from a binary form may wait until it runs.
pub(super) fn lets_code_wait() -> bool {
    LETS_CODE_WAIT.load(Relaxed)
}

/// Notes whether Ruby prints warnings now.
pub(super) fn set_verbose(is_verbose: bool) {
    IS_VERBOSE.store(is_verbose, Relaxed);
}

/// Prints a line under `-w`, once in a process.
pub(super) fn say(text: &str) {
    if IS_VERBOSE.load(Relaxed) && !HAS_SPOKEN.swap(true, Relaxed) {
        message::print(format_args!("ASHLAR_CODE_CACHE={}: {text}", shown()));
    }
}
