use super::*;
use crate::document::compare;
use crate::options::document::rows;

fn read(pairs: &[(&str, &str)], is_running: bool) -> Result<Options, String> {
    Options::default().changed(&Reader {
        text: &|name| {
            let pair = pairs.iter().find(|(key, _)| *key == name);
            pair.map(|(_, text)| (*text).to_owned())
        },
        shown_name: |name| format!("ITS_{name}"),
        is_running,
    })
}

/// What an option is shown as.
fn shown(options: &Options, name: &str) -> Option<String> {
    let setting = TABLE.iter().find(|setting| setting.name == name);
    setting.map(|setting| setting.value(options).to_string())
}

#[test]
fn nothing_said_changes_nothing() {
    assert_eq!(read(&[], false), Ok(Options::default()));
}

#[test]
fn numbers_have_units() {
    let options = read(
        &[
            ("memory_limit", "512MiB"),
            ("heap_min", "4k"),
            ("exchange_rate", "0.25"),
            ("slice_us", "0"),
            ("space_overhead", "auto"),
        ],
        true,
    );
    let Options { pace, slice_us, .. } = options.unwrap();
    assert_eq!(pace.memory_limit_bytes, Some(512 << 20));
    assert_eq!(pace.heap_min_bytes, 4096);
    assert_eq!(pace.exchange_rate_thousandths, 250);
    assert_eq!((slice_us, pace.space_overhead_percent), (None, None));
    assert_eq!(parse_bytes("2TiB"), Some(2 << 40));
    assert_eq!(parse_bytes("12QiB").or(parse_bytes("")), None);
}

/// Law: an option can be set to what it is shown as.
#[test]
fn what_is_shown_can_be_read() {
    let options = read(
        &[
            ("exchange_rate", "1.75"),
            ("heap_init", "12345"),
            ("nursery_min", "3MiB"),
            ("memory_limit", "17000000"),
            ("slice_us", "700"),
            ("policy", "best-fit"),
            ("huge_pages", "1"),
            ("stress", "refuse:mprotect:5+,verify,collect-every:7"),
        ],
        false,
    );
    let options = options.unwrap();
    for options in [options, Options::default()] {
        let again = Options {
            huge_pages: HugePages::All,
            ..Options::default()
        }
        .changed(&Reader {
            text: &|name| shown(&options, name),
            shown_name: str::to_owned,
            is_running: true,
        });
        assert_eq!(again, Ok(options));
    }
    assert_eq!(shown(&options, "nursery_min").as_deref(), Some("3MiB"));
    let stress = shown(&options, "stress");
    assert_eq!(
        stress.as_deref(),
        Some("collect-every:7,verify,refuse:mprotect:5+")
    );
}

#[test]
fn an_impossible_value_is_named_with_what_is_wanted() {
    for wrong in [
        "space_overhead=banana: auto or a whole number from 10 to 1000",
        "space_overhead=5: auto or a whole number from 10 to 1000",
        "exchange_rate=0: a number from 0.1 to 100",
        "exchange_rate=NaN: a number from 0.1 to 100",
        "exchange_rate=inf: a number from 0.1 to 100",
        "memory_limit=3XB: none, auto or a size of at least 16MiB",
        "nursery_min=1: a size of at least 64KiB",
        "nursery_max=64KiB: a size of at least 1MiB",
        "slice_us=5: 0 or a whole number from 100 to 1000000",
        "threads=0: a whole number from 1 to 64",
        "policy=worst-fit: first-fit, next-fit, best-fit or segregated-fit",
        "huge_pages=yes: auto, 0 or 1",
        "stress=collect-every:-1: collect-every: a whole number of at least 0",
        "stress=verify,poison:often: poison: 0 or 1",
        "stress=verify:: verify: 0 or 1",
        "stress=slice-cells: slice-cells: a whole number of at least 0",
        "stress=verify,,poison: \"\" is no switch; none, or some of collect-every, slice-cells, \
         verify, poison, no-minor, no-settling, look-ahead, move-everything, parallel-cells, \
         refuse,",
    ] {
        let (option, _) = wrong.split_once(": ").unwrap();
        let line = format!("ITS_{wrong} is wanted");
        let pair = option.split_once('=').unwrap();
        assert_eq!(read(&[pair], false), Err(line));
    }
    let refused = read(&[("stress", "refuse:mmap:0")], false).unwrap_err();
    assert!(
        refused.starts_with("ITS_stress=refuse:mmap:0: refuse: none, or"),
        "{refused}"
    );
}

#[test]
fn the_nursery_keeps_its_bounds_in_order() {
    let pace = read(&[("nursery_min", "64MiB")], true).unwrap().pace;
    assert_eq!(
        (pace.nursery_min_bytes, pace.nursery_max_bytes),
        (64 << 20, 64 << 20)
    );
    let both = [("nursery_max", "64K"), ("nursery_min", "64K")];
    assert_eq!(read(&both, true).unwrap().pace.nursery_max_bytes, 64 << 10);
}

#[test]
fn a_text_of_switches_names_all_that_are_on() {
    let options = read(
        &[("stress", "parallel-cells:0,slice-cells:3,refuse:any:1")],
        true,
    )
    .unwrap();
    assert_eq!(
        (options.parallel.cells_min, options.stress.slice_cells),
        (0, 3)
    );
    let text = |name: &str| (name == "stress").then(|| "verify,poison,poison:0".to_owned());
    let changed = options.changed(&Reader {
        text: &text,
        shown_name: str::to_owned,
        is_running: true,
    });
    let verify = Stress {
        verify: true,
        ..Stress::default()
    };
    let expected = Options {
        stress: verify,
        ..Options::default()
    };
    assert_eq!(changed, Ok(expected));
}

#[test]
fn the_refusal_is_found_in_a_text_of_switches() {
    for text in [
        "refuse:statm:3+",
        "verify,refuse:any:1,refuse:statm:3+,poison",
    ] {
        let refuse = read(&[("stress", text)], false).unwrap().refuse;
        assert!(refuse.is_some());
        assert_eq!(refusal_in(text), refuse);
    }
    for text in ["none", "refuse:none", "verify", "refuse"] {
        assert_eq!(refusal_in(text), None);
    }
}

#[test]
fn a_switch_named_as_an_option_is_refused_with_what_to_write() {
    for (pairs, line) in [
        (
            &[("verify", "1")][..],
            "ITS_verify=1: switches are words of ITS_stress; write ITS_stress=verify",
        ),
        (
            &[("poison", "0"), ("collect_every", "3000"), ("refuse", "mmap:1"), ("stress", "none")],
            "ITS_collect_every=3000 ITS_poison=0 ITS_refuse=mmap:1: switches are words of ITS_stress; \
             write ITS_stress=collect-every:3000,poison:0,refuse:mmap:1",
        ),
    ] {
        assert_eq!(read(pairs, true).unwrap_err(), line);
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads a file")]
fn the_document_about_tests_has_every_switch() {
    let names_and_abouts = rows(&SWITCHES, &Options::default()).into_iter().map(|row| {
        let value = match row.wanted.as_str() {
            "0 or 1" => "",
            Refusal::ALLOWED => ":CALL",
            _ => ":N",
        };
        (format!("{}{value}", row.name), row.about)
    });
    let (names, abouts): (Vec<_>, Vec<_>) = names_and_abouts.unzip();
    let rows = names.iter().zip(abouts);
    let table: String = rows
        .map(|(name, about)| format!("| `{name}` | {about} |\n"))
        .collect();
    compare(
        "docs/reference/stress-switches.md",
        "| switch | |\n| --- | --- |\n",
        "\nWhile poisoning is on",
        &table,
    );
    let about = TABLE[TABLE.len() - 1].about;
    assert!(
        about.ends_with(&format!(": {}", names.join(", "))),
        "{about}"
    );
}
