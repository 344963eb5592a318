//! `ashlar-bench-wordmap`: the word map beside its peers, interleaved.
//!
//! ```text
//! run:    for each round, for each workload, for each peer: a fresh process
//! report: medians of the rounds → tables (each result also as overhead over
//!         the best) and a drawing
//! ```

mod cells;
mod peers;
mod report;

use peers::{CongeeMap, Expanse, ExpanseSet, FxMap, JudyMap, JudySet, SortedVec};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::process::{exit, Command, Stdio};
use std::time::Instant;

/// One measured cell, as a line of a result file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cell {
    pub peer: String,
    pub workload: String,
    /// Entries (of each map, for tiny maps).
    pub n: usize,
    pub metrics: cells::Metrics,
}

const USAGE: &str = "\
The word map beside its peers.

usage: ashlar-bench-wordmap run [--quick] [--huge] [--rounds N] [--minutes N] [--resume] [--ours FILE.so]
                                [--stock FILE.so] --out FILE.jsonl
       ashlar-bench-wordmap report FILE.jsonl [--svg FILE.svg]
       ashlar-bench-wordmap cell PEER WORKLOAD N [FILE.so]

  --quick        1 M entries at most, one round
  --huge         100 M entries too, once, beside libJudy
  --rounds N     rounds of everything up to 1 M entries (3); 10 M are measured once
  --minutes N    stop after so long, with exit code 3
  --resume       go on where the file's run was stopped
  --ours FILE    our libJudy.so.1 (measured through C)
  --stock FILE   the stock libJudy.so.1 (that of the system, left out where there is none)

example: ashlar-bench-wordmap run --quick --out /dev/stdout | tail -1";

const MAPS: [&str; 9] = [
    "ashlar",
    "ashlar.so",
    "judy",
    "fx",
    "btree",
    "expanse",
    "congee",
    "blart",
    "vec",
];
/// Those that ten million entries are put into: the best of the others.
const LARGE_MAPS: [&str; 6] = ["ashlar", "ashlar.so", "judy", "fx", "btree", "expanse"];
/// Those that a hundred million entries are put into.
const HUGE_MAPS: [&str; 3] = ["ashlar", "ashlar.so", "judy"];
/// Exit code of a run that was stopped by its time.
const UNFINISHED: i32 = 3;
const SETS: [&str; 5] = ["ashlar", "ashlar.so", "judy", "expanse", "btree"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["cell", peer, workload, n, library @ ..] => cell(peer, workload, number(n), library),
        ["run", options @ ..] => run(options),
        ["report", file, options @ ..] => report::print(file, option(options, "--svg")),
        ["--help" | "-h"] => println!("{USAGE}"),
        _ => refuse("no such command"),
    }
}

fn refuse(what: &str) -> ! {
    eprintln!("{what}\n\n{USAGE}");
    exit(2)
}

fn number(text: &str) -> usize {
    match text.parse() {
        Ok(n) => n,
        Err(_) => refuse(&format!("{text:?} is not a number")),
    }
}

fn option<'a>(options: &[&'a str], name: &str) -> Option<&'a str> {
    let at = options.iter().position(|o| *o == name)?;
    match options.get(at + 1) {
        Some(value) => Some(value),
        None => refuse(&format!("{name} needs a value")),
    }
}

/// Measures one cell in this process and prints it.
fn cell(peer: &str, workload: &str, n: usize, library: &[&str]) {
    if let Some(path) = library.first() {
        peers::load_judy(path);
    }
    let metrics = match workload.strip_prefix("set-") {
        Some(keys) => measure_set(peer, keys, n),
        None => measure_map(peer, workload, n),
    };
    let cell = Cell {
        peer: peer.into(),
        workload: workload.into(),
        n,
        metrics,
    };
    println!("{}", serde_json::to_string(&cell).expect("plain data"));
}

fn measure_map(peer: &str, workload: &str, n: usize) -> cells::Metrics {
    // Peers that take kilobytes for each map get fewer of them.
    let maps = match peer {
        "expanse" | "congee" => 20_000,
        _ => 400_000,
    };
    macro_rules! of {
        ($map:ty) => {
            match workload {
                "tiny" => cells::tiny::<$map>(n, maps),
                _ => cells::large::<$map>(workload, n),
            }
        };
    }
    match peer {
        "ashlar" => of!(ashlar_wordmap::WordMap),
        "ashlar.so" | "judy" => of!(JudyMap),
        "fx" => of!(FxMap),
        "btree" => of!(BTreeMap<u64, u64>),
        "expanse" => of!(Expanse),
        "congee" => of!(CongeeMap),
        "blart" => of!(peers::Blart),
        "vec" => of!(SortedVec),
        other => refuse(&format!("no such peer: {other:?}; one of {MAPS:?}")),
    }
}

fn measure_set(peer: &str, keys: &str, n: usize) -> cells::Metrics {
    match peer {
        "ashlar" => cells::large_set::<ashlar_wordmap::WordSet>(keys, n),
        "ashlar.so" | "judy" => cells::large_set::<JudySet>(keys, n),
        "expanse" => cells::large_set::<ExpanseSet>(keys, n),
        "btree" => cells::large_set::<BTreeSet<u64>>(keys, n),
        other => refuse(&format!("no such peer: {other:?}; one of {SETS:?}")),
    }
}

/// What is measured together: (workload, n, peers, rounds at most).
type Row = (&'static str, usize, Vec<&'static str>, usize);

/// All that is measured, in order.
fn plan(quick: bool, huge: bool) -> Vec<Row> {
    let mut plan = Vec::new();
    for n in [1, 2, 4, 8, 16, 32] {
        plan.push(("tiny", n, MAPS.to_vec(), usize::MAX));
    }
    for workload in ["dense", "clustered", "random"] {
        let mut peers = MAPS.to_vec();
        // Inserting into a sorted vector of this size takes minutes.
        peers.retain(|p| *p != "vec");
        plan.push((workload, 1_000_000, peers.clone(), usize::MAX));
    }
    for workload in ["set-dense", "set-clustered", "set-random"] {
        plan.push((workload, 1_000_000, SETS.to_vec(), usize::MAX));
    }
    if !quick {
        for workload in ["random", "dense", "clustered"] {
            plan.push((workload, 10_000_000, LARGE_MAPS.to_vec(), 1));
        }
    }
    if huge {
        // So many clusters of 45-bit keys would run into each other.
        for workload in ["random", "dense"] {
            plan.push((workload, 100_000_000, HUGE_MAPS.to_vec(), 1));
        }
    }
    plan
}

/// The libraries that are measured through C: the stock one, and ours. One that was named must be there.
fn libraries<'a>(
    stock: Option<&'a str>,
    ours: Option<&'a str>,
) -> (Option<&'a str>, Option<&'a str>) {
    for named in [stock, ours].into_iter().flatten() {
        if !peers::can_load(named) {
            stop(&format!("cannot load {named}; build or install it"));
        }
    }
    let stock = stock.or_else(|| Some("libJudy.so.1").filter(|path| peers::can_load(path)));
    if stock.is_none() {
        eprintln!("no libJudy.so.1 here, so judy is left out; install it (Debian: libjudydebian1) or name one with --stock");
    }
    (stock, ours)
}

/// Takes out the peers whose library is not there.
fn leave_out(plan: &mut [Row], stock: Option<&str>, ours: Option<&str>) {
    for (_, _, peers, _) in plan {
        peers.retain(|peer| match *peer {
            "judy" => stock.is_some(),
            "ashlar.so" => ours.is_some(),
            _ => true,
        });
    }
}

fn run(options: &[&str]) {
    let quick = options.contains(&"--quick");
    let rounds = option(options, "--rounds").map_or(if quick { 1 } else { 3 }, number);
    let minutes = option(options, "--minutes").map_or(u64::MAX, |m| number(m) as u64);
    let (stock, ours) = libraries(option(options, "--stock"), option(options, "--ours"));
    let Some(out) = option(options, "--out") else {
        refuse("--out names the file for the results");
    };
    let start = Instant::now();
    let measured = if options.contains(&"--resume") {
        report::read(out)
    } else {
        Vec::new()
    };
    let mut file = match File::options()
        .create(true)
        .append(true)
        .truncate(false)
        .open(out)
    {
        Ok(file) => file,
        Err(e) => stop(&format!("cannot write {out}: {e}")),
    };
    if measured.is_empty() && file.set_len(0).is_err() && !out.starts_with("/dev/") {
        stop(&format!("cannot empty {out}"));
    }
    let mut plan = plan(quick, options.contains(&"--huge"));
    leave_out(&mut plan, stock, ours);
    let total: usize = plan.iter().map(|p| p.2.len() * rounds.min(p.3)).sum();
    let mut done = 0;
    for round in 0..rounds {
        for (workload, n, peers, _) in plan.iter().filter(|p| round < p.3) {
            for peer in peers {
                done += 1;
                let library = match *peer {
                    "judy" => stock,
                    "ashlar.so" => ours,
                    _ => None,
                };
                let is_same = |c: &&Cell| c.peer == *peer && c.workload == *workload && c.n == *n;
                if measured.iter().filter(is_same).count() > round {
                    continue;
                }
                if start.elapsed().as_secs() >= minutes.saturating_mul(60) {
                    eprintln!("\r\x1b[K{done}/{total}: time is up; go on with --resume");
                    exit(UNFINISHED);
                }
                eprint!("\r\x1b[K{done}/{total} {workload} {n} {peer}");
                let line = measure_apart(peer, workload, *n, library);
                if let Err(e) = file.write_all(line.as_bytes()) {
                    stop(&format!("cannot write {out}: {e}"));
                }
            }
        }
    }
    eprintln!("\r\x1b[K{done} cells measured");
}

fn stop(what: &str) -> ! {
    eprintln!("{what}");
    exit(2)
}

/// Measures one cell in a fresh process; a peer that fails is named and left out.
fn measure_apart(peer: &str, workload: &str, n: usize, library: Option<&str>) -> String {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.args(["cell", peer, workload, &n.to_string()]);
    command.args(library).stderr(Stdio::inherit());
    match command.output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into(),
        Ok(output) => {
            eprintln!("\n{peer} failed under {workload} {n}: {}", output.status);
            String::new()
        }
        Err(e) => {
            eprintln!("\ncannot start a cell: {e}");
            exit(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_cannot_be_loaded_and_one_that_is_can() {
        assert!(!peers::can_load("libno-such-library.so.1"));
        assert!(!peers::can_load("a\0b"));
        assert!(peers::can_load("libc.so.6"));
    }

    #[test]
    fn peers_without_a_library_are_left_out_everywhere_and_no_others() {
        let measured = |stock, ours| {
            let mut left = plan(false, true);
            leave_out(&mut left, stock, ours);
            left
        };
        for (_, _, peers, _) in measured(None, Some("x")) {
            assert!(!peers.contains(&"judy") && peers.contains(&"ashlar.so"));
        }
        for (_, _, peers, _) in measured(Some("x"), None) {
            assert!(peers.contains(&"judy") && !peers.contains(&"ashlar.so"));
        }
        assert_eq!(measured(Some("x"), Some("x")), plan(false, true));
    }
}
