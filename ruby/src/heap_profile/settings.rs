//! What the environment and `GC.config` say about the profile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::image::Written;
use super::recorder::{change_image, recorder};
use super::{begin_numbers, begin_sampling, end_sampling, file};
use crate::collector::Collector;
use crate::options::Options;

/// Whether the image contains the command line, which may contain secrets.
static HAS_COMMAND_LINE: AtomicBool = AtomicBool::new(false);

/// Notes what the environment asks for, before there is a collector.
pub(crate) fn read_environment(options: &Options) -> Result<(), String> {
    HAS_COMMAND_LINE.store(options.profile_command_line, Relaxed);
    let file = std::env::var_os("ASHLAR_PROFILE").filter(|file| !file.is_empty());
    file.map_or(Ok(()), |file| file::write_at_the_end(&file))
}

/// Begins what the environment asks for, once Ruby has started.
pub(super) fn begin(collector: &Collector) -> Result<(), String> {
    let options = collector.options.get();
    if file::is_written_at_the_end() {
        begin_sampling(collector, options.profile_bytes as u64)
    } else if options.live {
        begin_numbers(collector)
    } else {
        Ok(())
    }
}

/// The arguments of the process, separated by blanks, if the image is to contain them; else nothing.
pub(super) fn command_line() -> String {
    if !HAS_COMMAND_LINE.load(Relaxed) {
        return String::new();
    }
    let arguments = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&arguments).replace('\0', " ");
    text.trim_end().to_owned()
}

fn show_command_line(shown: bool) {
    if HAS_COMMAND_LINE.swap(shown, Relaxed) == shown {
        return;
    }
    let text = command_line();
    change_image(|image| image.set_command_line(&text));
}

/// Does what `GC.config` asks for: `options`, and `order`, the value of `profile`.
pub(crate) fn configure(
    collector: &Collector,
    options: &Options,
    order: Option<String>,
) -> Result<(), String> {
    show_command_line(options.profile_command_line);
    let done = order.map_or(Ok(()), |order| obey(collector, options, &order));
    if done.is_err() {
        show_command_line(collector.options.get().profile_command_line);
    }
    done
}

fn obey(collector: &Collector, options: &Options, order: &str) -> Result<(), String> {
    match order {
        "on" | "1" => begin_sampling(collector, options.profile_bytes as u64),
        "off" | "0" => {
            end_sampling(collector);
            Ok(())
        }
        "" | "none" => Err("profile=: on, off or the name of a file is wanted".to_owned()),
        path => {
            if recorder().is_none() {
                return Err(format!("profile={path}: nothing has been sampled; begin with GC.config(profile: \"on\")"));
            }
            super::note_numbers_now(collector);
            file::write(Path::new(path), Written::OnRequest)
        }
    }
}
