//! Results → tables and a drawing.

use crate::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::exit;

type Key = (String, usize, String);

/// (workload, n, metric) → peer → half the range over the rounds, as a part of the median.
fn spreads(cells: &[Cell]) -> BTreeMap<Key, BTreeMap<String, f64>> {
    by_peer(cells, |values| {
        let half = (values[values.len() - 1] - values[0]) / 2.0;
        half / median(values).max(f64::MIN_POSITIVE)
    })
}

fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

/// (workload, n, metric) → peer → what `of` makes of the rounds' values, which rise.
fn by_peer(cells: &[Cell], of: impl Fn(&[f64]) -> f64) -> BTreeMap<Key, BTreeMap<String, f64>> {
    let mut all: BTreeMap<Key, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for cell in cells {
        for (metric, value) in &cell.metrics {
            let key = (cell.workload.clone(), cell.n, metric.clone());
            let peers = all.entry(key).or_default();
            peers.entry(cell.peer.clone()).or_default().push(*value);
        }
    }
    let sorted = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values
    };
    all.into_iter()
        .map(|(key, peers)| {
            let peers = peers.into_iter();
            (key, peers.map(|(p, v)| (p, of(&sorted(v)))).collect())
        })
        .collect()
}

const ORDER: [&str; 9] = [
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

/// The cells of a result file; ends the program when it has none.
pub fn read(file: &str) -> Vec<Cell> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) => {
            eprintln!("cannot read {file}: {e}");
            exit(2);
        }
    };
    let mut cells = Vec::new();
    for (i, line) in text.lines().enumerate() {
        match serde_json::from_str::<Cell>(line) {
            Ok(cell) => cells.push(cell),
            Err(e) => {
                eprintln!("{file}, line {}: not a result: {e}", i + 1);
                exit(2);
            }
        }
    }
    cells
}

pub fn print(file: &str, svg: Option<&str>) {
    let cells = read(file);
    let table = by_peer(&cells, median);
    println!("{}", markdown(&table, &spreads(&cells)));
    if let Some(path) = svg {
        if let Err(e) = std::fs::write(path, draw(&table)) {
            eprintln!("cannot write {path}: {e}");
            exit(2);
        }
    }
}

/// One table a workload: a row a metric, a column a peer; each cell is the
/// median and, in brackets, how much it is over the best of the row.
fn markdown(
    table: &BTreeMap<Key, BTreeMap<String, f64>>,
    spreads: &BTreeMap<Key, BTreeMap<String, f64>>,
) -> String {
    let mut out = String::from(
        "Medians of the rounds; ± is half their range where that is 5 % or more; in brackets, \
         how much the result is over the best of its row.\n",
    );
    let mut last = None;
    let mut columns = Vec::new();
    for ((workload, n, metric), peers) in table {
        if last != Some((workload, n)) {
            columns = measured(table, workload, *n);
            let _ = write!(out, "\n### {workload}, {n} entries\n\n| |");
            for peer in &columns {
                let _ = write!(out, " {peer} |");
            }
            out.push_str("\n|---|");
            out.push_str(&"---:|".repeat(columns.len()));
            out.push('\n');
            last = Some((workload, n));
        }
        let best = peers.values().copied().fold(f64::INFINITY, f64::min);
        let _ = write!(out, "| {metric} |");
        for peer in columns.iter().copied() {
            let Some(v) = peers.get(peer) else {
                out.push_str(" |");
                continue;
            };
            let key = (workload.clone(), *n, metric.clone());
            let spread = spreads.get(&key).and_then(|p| p.get(peer));
            let around = match spread {
                Some(s) if *s >= 0.05 => format!(" ±{:.0} %", s * 100.0),
                _ => String::new(),
            };
            let v_text = short(*v);
            let _ = if *v <= best {
                write!(out, " **{v_text}**{around} |")
            } else if best > 0.0 {
                let over = (v / best - 1.0) * 100.0;
                write!(out, " {v_text}{around} (+{over:.0} %) |")
            } else {
                write!(out, " {v_text}{around} |")
            };
        }
        out.push('\n');
    }
    out
}

/// The peers that have a result of this workload, in the order of the columns.
fn measured(
    table: &BTreeMap<Key, BTreeMap<String, f64>>,
    workload: &str,
    n: usize,
) -> Vec<&'static str> {
    let is_own = |key: &Key| key.0 == workload && key.1 == n;
    let has = |peer: &&str| {
        table
            .iter()
            .any(|(key, peers)| is_own(key) && peers.contains_key(*peer))
    };
    ORDER.into_iter().filter(has).collect()
}

fn short(v: f64) -> String {
    if v >= 100.0 {
        format!("{v:.0}")
    } else if v >= 10.0 {
        format!("{v:.1}")
    } else {
        format!("{v:.2}")
    }
}

/// What is drawn, a panel each: (workload, n, metric, title).
const PANELS: [(&str, usize, &str, &str); 12] = [
    ("tiny", 2, "bytes_per_map", "2 entries: bytes a map"),
    ("tiny", 32, "bytes_per_map", "32 entries: bytes a map"),
    ("tiny", 4, "hot_hit_ns", "4 entries: hit, ns"),
    ("tiny", 32, "hot_hit_ns", "32 entries: hit, ns"),
    (
        "dense",
        1_000_000,
        "bytes_per_entry",
        "dense 1 M: bytes an entry",
    ),
    (
        "clustered",
        1_000_000,
        "bytes_per_entry",
        "clustered 1 M: bytes an entry",
    ),
    (
        "random",
        1_000_000,
        "bytes_per_entry",
        "random 1 M: bytes an entry",
    ),
    (
        "dense",
        1_000_000,
        "dependent_hit_ns",
        "dense 1 M: dependent hit, ns",
    ),
    (
        "clustered",
        1_000_000,
        "dependent_hit_ns",
        "clustered 1 M: dependent hit, ns",
    ),
    (
        "random",
        1_000_000,
        "dependent_hit_ns",
        "random 1 M: dependent hit, ns",
    ),
    (
        "clustered",
        1_000_000,
        "insert_ns",
        "clustered 1 M: insert, ns",
    ),
    (
        "clustered",
        1_000_000,
        "walk_ns",
        "clustered 1 M: ordered walk, ns",
    ),
];

/// Bars, shortest first in each panel; ours in another colour. Linear from 0,
/// cut (and marked so) at eight times the best.
fn draw(table: &BTreeMap<Key, BTreeMap<String, f64>>) -> String {
    const WIDTH: f64 = 300.0;
    const HEIGHT: f64 = 190.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        WIDTH * 3.0,
        HEIGHT * 4.0
    );
    for (i, (workload, n, metric, title)) in PANELS.iter().enumerate() {
        let (x, y) = (
            (i % 3) as f64 * WIDTH + 10.0,
            (i / 3) as f64 * HEIGHT + 20.0,
        );
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" font-weight=\"bold\">{title}</text>"
        );
        let key = ((*workload).to_string(), *n, (*metric).to_string());
        let Some(peers) = table.get(&key) else {
            continue;
        };
        let mut rows: Vec<_> = peers.iter().collect();
        rows.sort_by(|a, b| a.1.total_cmp(b.1));
        let best = rows[0].1.max(f64::MIN_POSITIVE);
        let scale = 150.0
            / rows
                .iter()
                .map(|r| (r.1 / best).min(8.0))
                .fold(0.0, f64::max);
        for (row, (peer, value)) in rows.into_iter().enumerate() {
            let top = y + 8.0 + row as f64 * 16.0;
            let ratio = (value / best).min(8.0);
            let colour = if peer.starts_with("ashlar") {
                "#b5482f"
            } else {
                "#9aa5b1"
            };
            let cut = if value / best > 8.0 { " …" } else { "" };
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"{}\">{peer}</text><rect x=\"{}\" y=\"{top}\" width=\"{:.1}\" height=\"12\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{}\">{}{cut}</text>",
                top + 10.0,
                x + 60.0,
                ratio * scale,
                x + 64.0 + ratio * scale,
                top + 10.0,
                short(*value)
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_was_not_measured_has_no_column() {
        let cell = |workload: &str, peers: &[&str]| {
            let values = peers.iter().map(|p| (p.to_string(), 2.0)).collect();
            ((workload.to_string(), 4, "hit_ns".to_string()), values)
        };
        let table = BTreeMap::from([
            cell("set-dense", &["btree"]),
            cell("tiny", &["ashlar", "judy"]),
        ]);
        let text = markdown(&table, &BTreeMap::new());
        assert!(text.contains(
            "### set-dense, 4 entries\n\n| | btree |\n|---|---:|\n| hit_ns | **2.00** |\n"
        ));
        assert!(text.contains("### tiny, 4 entries\n\n| | ashlar | judy |\n|---|---:|---:|\n"));
    }
}
