//! Reads a dump of a Ruby heap and prints a report about it, as JSON.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ashlar_heap_graph::read;
use ashlar_heap_graph::report::{self, Wanted};

const USAGE: &str = "usage: ashlar-heap-graph FILE [--why CLASS|0xADDRESS]... [--map]

FILE is what GC.config(dump: \"file\") or ObjectSpace.dump_all wrote, plain or with gzip;
- is the standard input. What there is to tell is printed as JSON; `ashlar retained`
shows it as tables and as a page.";

struct Arguments {
    file: OsString,
    wanted: Wanted,
}

fn arguments() -> Result<Arguments, String> {
    let mut given = std::env::args_os().skip(1);
    let mut file = None;
    let mut wanted = Wanted::default();
    while let Some(argument) = given.next() {
        let shown = argument.to_string_lossy();
        match &*shown {
            "--map" => wanted.map = true,
            "--why" => {
                let subject = given.next().ok_or("--why wants a class or an address")?;
                wanted.subjects.push(subject.to_string_lossy().into_owned());
            }
            _ if shown.starts_with("--") => {
                return Err(format!("{shown}: no such option\n{USAGE}"))
            }
            _ if file.is_none() => file = Some(argument),
            _ => return Err(format!("{shown}: one file is wanted")),
        }
    }
    let file = file.ok_or(USAGE)?;
    Ok(Arguments { file, wanted })
}

/// Shows progress on a terminal, when reading takes more than two seconds.
struct Notes {
    began: Instant,
    latest: Option<Instant>,
    is_wanted: bool,
}

impl Notes {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            latest: None,
            is_wanted: io::stderr().is_terminal(),
        }
    }

    fn say(&mut self, what: &str) {
        let is_due = self
            .latest
            .is_none_or(|latest| latest.elapsed() > Duration::from_millis(200));
        if self.is_wanted && is_due && self.began.elapsed() > Duration::from_secs(2) {
            eprint!("\r\x1b[K{what}");
            self.latest = Some(Instant::now());
        }
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        if self.latest.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}

fn run() -> Result<(), String> {
    let Arguments { file, wanted } = arguments()?;
    let mut notes = Notes::new();
    let told = {
        let mut progress = |objects: usize, references: usize| {
            notes.say(&format!(
                "reading: {:.1} million objects, {:.1} million references",
                objects as f64 / 1e6,
                references as f64 / 1e6
            ));
        };
        let dump = if file == "-" {
            read::stream(io::stdin().lock(), "standard input", &mut progress)
        } else {
            read::file(Path::new(&file), &mut progress)
        };
        let dump = dump.map_err(|unreadable| unreadable.to_string())?;
        report::tell(&dump, &wanted, &mut |what| notes.say(what))
            .map_err(|missing| missing.to_string())?
    };
    drop(notes);
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = serde_json::to_writer(&mut out, &told).map_err(io::Error::from);
    written
        .and_then(|()| writeln!(out))
        .and_then(|()| out.flush())
        .map_err(|error| format!("standard output: {error}"))
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
