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
use std::process::{exit, Command, Stdio};

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

usage: ashlar-bench-wordmap run [--quick] [--rounds N] [--ours FILE.so] [--stock FILE.so] --out FILE.jsonl
       ashlar-bench-wordmap report FILE.jsonl [--svg FILE.svg]
       ashlar-bench-wordmap cell PEER WORKLOAD N [FILE.so]

  --quick        1 M entries at most, one round
  --rounds N     rounds of everything (3)
  --ours FILE    our libJudy.so.1 (measured through C)
  --stock FILE   the stock libJudy.so.1 (libJudy.so.1 of the system)

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

/// All workloads in all rounds: (workload, n, peers, rounds at most).
fn plan(quick: bool) -> Vec<(&'static str, usize, Vec<&'static str>, usize)> {
    let mut plan = Vec::new();
    for n in [1, 2, 4, 8, 16, 32] {
        plan.push(("tiny", n, MAPS.to_vec(), usize::MAX));
    }
    for workload in ["dense", "clustered", "random"] {
        let mut peers = MAPS.to_vec();
        // Inserting into a sorted vector of this size takes minutes.
        peers.retain(|p| *p != "vec");
        plan.push((workload, 1_000_000, peers.clone(), usize::MAX));
        if !quick {
            plan.push((workload, 10_000_000, peers, 1));
        }
    }
    for workload in ["set-dense", "set-clustered", "set-random"] {
        plan.push((workload, 1_000_000, SETS.to_vec(), usize::MAX));
    }
    plan
}

fn run(options: &[&str]) {
    let quick = options.contains(&"--quick");
    let rounds = option(options, "--rounds").map_or(if quick { 1 } else { 3 }, number);
    let stock = option(options, "--stock").unwrap_or("libJudy.so.1");
    let ours = option(options, "--ours");
    let Some(out) = option(options, "--out") else {
        refuse("--out names the file for the results");
    };
    let plan = plan(quick);
    let mut lines = String::new();
    let total: usize = plan.iter().map(|p| p.2.len() * rounds.min(p.3)).sum();
    let mut done = 0;
    for round in 0..rounds {
        for (workload, n, peers, rounds_max) in &plan {
            if round >= *rounds_max {
                continue;
            }
            for peer in peers {
                done += 1;
                eprint!("\r\x1b[K{done}/{total} {workload} {n} {peer}");
                let library = match *peer {
                    "judy" => Some(stock),
                    "ashlar.so" if ours.is_none() => continue,
                    "ashlar.so" => ours,
                    _ => None,
                };
                lines.push_str(&measure_apart(peer, workload, *n, library));
            }
        }
    }
    eprintln!("\r\x1b[K{done} cells measured");
    if let Err(e) = std::fs::write(out, &lines) {
        eprintln!("cannot write {out}: {e}");
        exit(2);
    }
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
