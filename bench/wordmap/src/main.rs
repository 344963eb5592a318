//! `ashlar-bench-wordmap`: the word map beside its peers.
mod cells;
mod peers;

use peers::*;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: usize = args[4].parse().unwrap();
    if let Some(path) = args.get(5) { load_judy(path); }
    let w = args[3].as_str();
    macro_rules! go { ($m:ty) => { if w == "tiny" { cells::tiny::<$m>(n, if args[2]=="congee"||args[2]=="expanse" {20_000} else {500_000}) } else { cells::large::<$m>(w, n) } } }
    macro_rules! gos { ($m:ty) => { cells::large_set::<$m>(w, n) } }
    let m = match args[2].as_str() {
        "ashlar" => go!(ashlar_wordmap::WordMap),
        "fx" => go!(FxMap),
        "btree" => go!(std::collections::BTreeMap<u64,u64>),
        "vec" => go!(SortedVec),
        "expanse" => go!(Expanse),
        "congee" => go!(CongeeMap),
        "blart" => go!(Blart),
        "judy" => go!(JudyMap),
        "ashlar-set" => gos!(ashlar_wordmap::WordSet),
        "judy-set" => gos!(JudySet),
        "expanse-set" => gos!(ExpanseSet),
        "btree-set" => gos!(std::collections::BTreeSet<u64>),
        _ => panic!(),
    };
    print!("{:10} {} {:8}", args[2], w, n);
    for (k, v) in m { print!(" {}={:.2}", k.replace("_per_entry","/e").replace("_per_map","/m"), v); }
    println!();
}
