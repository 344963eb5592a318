//! What the environment and `GC.config` say about the profile.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

use super::image::Written;
use super::{begin_numbers, begin_sampling, end_sampling, file, is_sampling};
use crate::collector::Collector;
use crate::options::parse_bytes;

/// Mean bytes between two samples, as it was set last.
static PERIOD_BYTES: AtomicU64 = AtomicU64::new(PERIOD_BYTES_DEFAULT);
const PERIOD_BYTES_DEFAULT: u64 = 512 << 10;
const PERIOD_BYTES_RANGE: RangeInclusive<u64> = 1 << 10..=1 << 30;

/// The image has the command line in it, which may name secrets.
static HAS_COMMAND_LINE: AtomicBool = AtomicBool::new(false);

/// What the environment asks for, before there is a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Numbers,
    Samples,
}

static WANTED: OnceLock<Wanted> = OnceLock::new();

/// Reads the environment, before Ruby has started.
pub(crate) fn read_environment() -> Result<(), String> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
    if let Some(period) = text("ASHLAR_PROFILE_BYTES") {
        set_period(&period, "ASHLAR_PROFILE_BYTES")?;
    }
    let switch = |name| match text(name) {
        Some(value) => parse_switch(&value, name),
        None => Ok(false),
    };
    HAS_COMMAND_LINE.store(switch("ASHLAR_PROFILE_COMMAND_LINE")?, Relaxed);
    let mut wanted = match switch("ASHLAR_LIVE")? {
        true => Wanted::Numbers,
        false => Wanted::Nothing,
    };
    if let Some(file) = variable("ASHLAR_PROFILE") {
        file::write_at_the_end(&file)?;
        wanted = Wanted::Samples;
    }
    WANTED.get_or_init(|| wanted);
    Ok(())
}

fn parse_switch(value: &str, name: &str) -> Result<bool, String> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(format!("{name}={other}: 0 or 1 is wanted")),
    }
}

/// Begins what the environment asks for, once Ruby has started.
pub(super) fn begin(collector: &Collector) -> Result<(), String> {
    match WANTED.get() {
        Some(Wanted::Samples) => begin_sampling(collector, period_bytes()),
        Some(Wanted::Numbers) => begin_numbers(collector),
        _ => Ok(()),
    }
}

fn set_period(text: &str, name: &str) -> Result<(), String> {
    let bytes = parse_bytes(text).map(|bytes| bytes as u64);
    match bytes.filter(|bytes| PERIOD_BYTES_RANGE.contains(bytes)) {
        Some(bytes) => {
            PERIOD_BYTES.store(bytes, Relaxed);
            Ok(())
        }
        None => Err(format!(
            "{name}={text}: a size from 1KiB to 1GiB, such as 512KiB, is wanted"
        )),
    }
}

pub(crate) fn period_bytes() -> u64 {
    PERIOD_BYTES.load(Relaxed)
}

pub(crate) fn has_command_line() -> bool {
    HAS_COMMAND_LINE.load(Relaxed)
}

/// The command line if it belongs into the image, else nothing.
pub(super) fn command_line() -> String {
    match has_command_line() {
        true => file::command_line(),
        false => String::new(),
    }
}

fn show_command_line(shown: bool) {
    HAS_COMMAND_LINE.store(shown, Relaxed);
    let text = command_line();
    if let Some(recorder) = &mut *super::recorder() {
        recorder
            .mapped
            .change(|image| image.set_command_line(&text));
    }
}

/// `on` or `off`.
pub(crate) fn state() -> &'static std::ffi::CStr {
    if is_sampling() {
        c"on"
    } else {
        c"off"
    }
}

/// Does what `GC.config` asks for; keys of others pass.
pub(crate) fn configure(
    collector: &Collector,
    value: impl Fn(&str) -> Option<String>,
) -> Result<(), String> {
    let shown = value("profile_command_line")
        .map(|shown| parse_switch(&shown, "profile_command_line"))
        .transpose()?;
    if let Some(period) = value("profile_bytes") {
        set_period(&period, "profile_bytes")?;
    }
    if let Some(shown) = shown {
        show_command_line(shown);
    }
    match value("profile").as_deref() {
        None => Ok(()),
        Some("on" | "1") => begin_sampling(collector, period_bytes()),
        Some("off" | "0") => {
            end_sampling(collector);
            Ok(())
        }
        Some("" | "none") => Err("profile=: on, off or the name of a file is wanted".to_owned()),
        Some(path) => {
            if super::recorder().is_none() {
                return Err(format!("profile={path}: nothing has been sampled; begin with GC.config(profile: \"on\")"));
            }
            super::note_numbers_now(collector);
            file::write(Path::new(path), Written::OnRequest)
        }
    }
}
