//! Dumps as files: planted structures are named, and what is no dump is refused in one line.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use ashlar_heap_graph::read;
use ashlar_heap_graph::report::{tell, Wanted};
use flate2::write::GzEncoder;
use flate2::Compression;
use serde_json::Value;

fn read_bytes(bytes: &[u8]) -> Result<read::Dump, String> {
    read::stream(bytes, "x.dump", &mut |_, _| {}).map_err(|unreadable| unreadable.to_string())
}

fn told(bytes: &[u8], subjects: &[&str]) -> Value {
    let wanted = Wanted {
        subjects: subjects.iter().map(|&subject| subject.to_owned()).collect(),
        map: true,
    };
    tell(&read_bytes(bytes).unwrap(), &wanted, &mut |_| {}).unwrap()
}

fn refusal(bytes: &[u8]) -> String {
    let message = read_bytes(bytes).map(|_| ()).unwrap_err();
    assert!(
        message.starts_with("x.dump: ") && !message.contains('\n'),
        "{message}"
    );
    message
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A dump of ObjectSpace.dump_all: a class Cache with a Hash of a hundred strings of a
/// thousand bytes, beside which one string is on the stack, too.
fn dump_all() -> String {
    let mut dump = String::new();
    dump.push_str(r#"{"type":"ROOT", "root":"vm", "references":["0x1000", "0x2000"]}"#);
    dump.push('\n');
    dump.push_str(r#"{"type":"ROOT", "root":"machine_context", "references":["0x90000"]}"#);
    dump.push('\n');
    let class = r#""type":"CLASS", "shape_id":0, "slot_size":160, "class":"0x1000", "variation_count":0, "superclass":"0x1010""#;
    for (address, name, references) in [
        ("0x1000", "Class", ""),
        ("0x1100", "String", ""),
        ("0x1200", "Hash", ""),
    ] {
        writeln!(dump, r#"{{"address":"{address}", {class}, "name":"{name}", "references":["0x1000"{references}], "memsize":200, "flags":{{"old":true}}}}"#).unwrap();
    }
    writeln!(dump, r#"{{"address":"0x2000", {class}, "name":"My::\"Cache\" é", "references":["0x3000", "0x1100", "0x1200"], "memsize":160}}"#).unwrap();
    let strings: Vec<String> = (0..100)
        .map(|index| format!("\"{:#x}\"", 0x90000 + index * 40))
        .collect();
    writeln!(dump, r#"{{"address":"0x3000", "type":"HASH", "shape_id":0, "slot_size":160, "class":"0x1200", "size":100, "references":[{}], "memsize":3160, "flags":{{"wb_protected":true, "old":true}}}}"#, strings.join(", ")).unwrap();
    for index in 0..100 {
        // Ruby does not escape every control character.
        writeln!(dump, r#"{{"address":"{:#x}", "type":"STRING", "shape_id":0, "slot_size":40, "class":"0x1100", "value":"a \"b\" {{ [ \\{}", "encoding":"UTF-8", "memsize":1040, "flags":{{"wb_protected":true}}}}"#, 0x90000 + index * 40, '\u{1}').unwrap();
    }
    dump.push_str(r#"{"address":"0x5550", "type":"SHAPE", "id":0, "depth":1, "shape_type":"ROOT", "edges":3, "memsize":160}"#);
    dump.push('\n');
    dump
}

#[test]
fn a_planted_cache_is_named_with_its_size_and_path() {
    for bytes in [dump_all().into_bytes(), gzip(dump_all().as_bytes())] {
        let told = told(&bytes, &["Hash", "0x3000", "String"]);
        assert_eq!(told["totals"]["objects"], 105);
        let largest = told["largest"].as_array().unwrap();
        let hash = largest
            .iter()
            .find(|object| object["label"] == "Hash")
            .unwrap();
        // A string that the stack holds is not kept by the hash alone.
        assert_eq!(hash["retained_bytes"], 3160 + 99 * 1040);
        assert_eq!(hash["address"], "0x3000");
        let path: Vec<&str> = hash["path"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["label"].as_str().unwrap())
            .collect();
        assert_eq!(path, ["root vm", "class My::\"Cache\" é", "Hash"]);
        let strings = &told["subjects"][2];
        assert_eq!(
            (&strings["objects"], &strings["payload_bytes"]),
            (&100.into(), &100_000.into())
        );
        assert_eq!(
            strings["ways"].as_array().unwrap().len(),
            1,
            "the stack explains nothing that the cache does"
        );
        assert_eq!(told["subjects"][1]["keepers"].as_array().unwrap().len(), 3);
        assert_eq!(told["source"]["format"], "ObjectSpace.dump_all");
        assert_eq!(
            told["memory"]["cells"][0]["used"], 100,
            "blocks are found from addresses"
        );
    }
}

/// Writes Ashlar's format by hand.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, mut number: u64) -> &mut Self {
        while number >= 128 {
            self.0.push(number as u8 | 128);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }

    fn signed(&mut self, number: i64) -> &mut Self {
        self.number(((number << 1) ^ (number >> 63)) as u64)
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
        self
    }

    fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }
}

const BASE: u64 = 0x7f00_0000_0000;

fn header(version: u64) -> Out {
    let mut out = Out(b"ashlar-heap-dump\n".to_vec());
    out.number(version)
        .text("3.4.5")
        .number(77)
        .number(1_700_000_000)
        .number(BASE)
        .number(1 << 16);
    out.number(2)
        .number(2)
        .text("CLASS")
        .number(5)
        .text("STRING");
    out
}

/// Two blocks of cells with a class and two strings, between empty ones, payloads and a span.
fn ashlar() -> Vec<u8> {
    let mut out = header(1);
    out.byte(b'R')
        .text("vm")
        .number(1 + (2 << 16) / 8)
        .number(0);
    out.byte(b'P').number(32).number(5);
    out.byte(b'E').number(1).number(1);
    // A class, and after a hole a string that it refers to.
    out.byte(b'C').number(160);
    out.number(1)
        .number(2)
        .byte(3 | 1 << 5)
        .number(0)
        .number(1000)
        .text("Thing")
        .signed(320 / 8)
        .signed((1 << 16) / 8)
        .signed(0);
    out.number(2)
        .number(5)
        .byte(1)
        .number(1 + (2 << 16) / 8)
        .number(0)
        .signed(0);
    out.number(0);
    out.byte(b'C').number(40);
    out.number(1)
        .number(5)
        .byte(0)
        .number(1 + (2 << 16) / 8)
        .number(5 << 32)
        .signed(0);
    out.number(0);
    out.byte(b'S').number(3).number(150_000);
    out.byte(b'E').number(10).number(4);
    out.byte(b'T').number(3).number(2).number(12_345);
    out.0
}

#[test]
fn an_ashlar_dump_tells_of_objects_and_blocks() {
    for bytes in [ashlar(), gzip(&ashlar())] {
        let told = told(&bytes, &["Thing"]);
        assert_eq!(told["source"]["ruby_version"], "3.4.5");
        assert_eq!(told["source"]["elsewhere_bytes"], 12_345);
        assert_eq!(told["totals"]["cell_bytes"], 160 + 160 + 40);
        assert_eq!(told["totals"]["unreached_objects"], 0);
        assert_eq!(told["largest"][0]["label"], "class Thing");
        assert_eq!(
            told["largest"][0]["retained_bytes"],
            160 + 1000 + 160 + 40 + (5u64 << 32)
        );
        assert_eq!(told["memory"]["spare_blocks"], 5);
        assert_eq!(told["memory"]["released_blocks"], 6);
        assert_eq!(told["memory"]["spans"]["used_bytes"], 150_000);
        assert_eq!(told["memory"]["cells"][1]["room"], 409);
        assert_eq!(
            told["blocks"][2],
            serde_json::json!(["cells", 1, 160, 0.005, 0.667])
        );
        assert_eq!(told["subjects"][0]["together_objects"], 2);
    }
}

#[test]
fn what_is_no_dump_is_refused() {
    for bytes in [
        &b""[..],
        b"\n",
        b"hello\n",
        b"[1]\n",
        b"{}\n",
        b"{\"a\":1}\n",
        b"\x89PNG\r\n",
        b"ashlar-heap",
        &gzip(b"hello"),
    ] {
        assert!(
            refusal(bytes).contains("not a dump of a Ruby heap"),
            "{:?}",
            String::from_utf8_lossy(bytes)
        );
    }
}

#[test]
fn a_dump_that_was_cut_off_is_refused_wherever_it_was_cut() {
    let whole = ashlar();
    for length in 17..whole.len() {
        assert!(
            refusal(&whole[..length]).contains("ends too early"),
            "{length}"
        );
    }
    let packed = gzip(&whole);
    for length in 3..packed.len() {
        let message = refusal(&packed[..length]);
        assert!(message.contains("ends too early"), "{length}: {message}");
    }
    let lines = dump_all();
    let message = refusal(&lines.as_bytes()[..lines.len() / 2]);
    assert!(
        message.contains("the dump ends too early, in line"),
        "{message}"
    );
}

#[test]
fn a_damaged_dump_is_refused_and_the_place_named() {
    let mut packed = gzip(dump_all().as_bytes());
    let middle = packed.len() / 2;
    for byte in &mut packed[middle..middle + 20] {
        *byte ^= 0x5a;
    }
    let message = refusal(&packed);
    assert!(
        message.contains("gzip file is damaged") || message.contains("line"),
        "{message}"
    );
    let mixed = dump_all().replacen("\"type\":\"HASH\"", "type:HASH", 1);
    assert!(refusal(mixed.as_bytes()).contains("line 7 is no object of ObjectSpace.dump_all"));
    let twice = dump_all() + &dump_all();
    assert!(refusal(twice.as_bytes()).contains("0x1000 is in it twice"));
    let after = [ashlar(), b"{".to_vec()].concat();
    assert!(refusal(&after).contains("something follows its end"));
    assert!(refusal(&header(2).0).contains("the dump has format 2, and this program reads 1"));
    let mut wide = header(1);
    wide.byte(b'C').number(0);
    assert!(refusal(&wide.0).contains("cells of 0 bytes"));
    for letter in [b'E', b'S'] {
        let mut large = header(1);
        large.byte(letter).number(0xffff_ffff).number(0);
        large.byte(b'T').number(0).number(0).number(0);
        assert!(refusal(&large.0).contains("a heap of 4294967295 blocks"));
    }
    let mut late = Out(b"ashlar-heap-dump\n".to_vec());
    late.number(1).text("3.4.5").number(77).number(1 << 62);
    assert!(refusal(&late.0).contains("the time of the dump cannot be"));
    let mut other = header(1);
    other.byte(b'?');
    assert!(refusal(&other.0).contains("a record 0x3f"));
    let mut totals = header(1);
    totals.byte(b'T').number(9).number(9).number(0);
    assert!(
        refusal(&totals.0).contains("0 objects and 0 references, and says that they are 9 and 9")
    );
}

#[test]
fn categories_may_be_as_many_as_roots() {
    const COUNT: u64 = 100_000;
    let mut out = header(1);
    for number in 0..COUNT {
        out.byte(b'R')
            .text(&format!("category {number}"))
            .number(1 + number % 2)
            .number(0);
    }
    out.byte(b'C').number(40);
    out.number(1)
        .number(5)
        .byte(0)
        .number(0)
        .number(0)
        .signed(0);
    out.number(0);
    out.byte(b'T').number(1).number(0).number(0);
    let began = Instant::now();
    let dump = read_bytes(&out.0).unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "a moment is enough"
    );
    assert_eq!(dump.graph.categories().count() as u64, COUNT);
    assert_eq!(dump.graph.dangling_references as u64, COUNT / 2);
}

#[test]
fn every_changed_byte_is_read_or_refused() {
    let whole = ashlar();
    for index in 0..whole.len() {
        for change in [0x01, 0x7f, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[index] ^= change;
            if let Ok(dump) = read_bytes(&changed) {
                let wanted = Wanted {
                    subjects: Vec::new(),
                    map: true,
                };
                tell(&dump, &wanted, &mut |_| {}).unwrap();
            }
        }
    }
}

#[test]
fn a_subject_that_is_not_there_is_named() {
    let dump = read_bytes(dump_all().as_bytes()).unwrap();
    let refused = |subject: &str| {
        let wanted = Wanted {
            subjects: vec![subject.to_owned()],
            map: false,
        };
        tell(&dump, &wanted, &mut |_| {}).unwrap_err().to_string()
    };
    assert_eq!(
        refused("Stri"),
        "Stri: no class of this name is in the dump; similar ones are String"
    );
    assert_eq!(
        refused("Nothing"),
        "Nothing: no class of this name is in the dump"
    );
    assert_eq!(
        refused("0x77"),
        "0x77: no object of the dump is at this address"
    );
    assert_eq!(
        refused("0xzz"),
        "0xzz: an address such as 0x7f12a4c01028 is wanted"
    );
}
