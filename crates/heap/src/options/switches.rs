//! The switches for tests: one option, `stress`, whose text has a word for each switch, with
//! commas between them. A word is a name and, after a colon, a value; a switch that is 0 or 1
//! needs no value. A switch that the text does not name is off.

use std::borrow::Cow;

use super::{Kept, Options, Range, Reader, Setting, Value};
use crate::mark::pile::ParallelMarking;
use crate::refusals::Refusal;
use crate::stress::Stress;

const NONE: &str = "none";

/// All switches.
pub static SWITCHES: [Setting<Options>; 10] = [
    Setting::new(
        "collect-every",
        Kept::Number(Range::whole(0, usize::MAX), |o| &mut o.stress.collect_every),
        "collect after every N allocations",
    ),
    Setting::new(
        "slice-cells",
        Kept::Number(Range::whole(0, usize::MAX), |o| &mut o.stress.slice_cells),
        "mark N cells at every allocation, so that a collection is always going on",
    ),
    Setting::new(
        "verify",
        Kept::Switch(|o| &mut o.stress.verify),
        "check the whole heap after each collection, and each slice of one",
    ),
    Setting::new(
        "poison",
        Kept::Switch(|o| &mut o.stress.poison),
        "fill free cells with a pattern",
    ),
    Setting::new(
        "no-minor",
        Kept::Switch(|o| &mut o.stress.no_minor),
        "do a major collection wherever a minor one is due, so that cells settle soon",
    ),
    Setting::new(
        "no-settling",
        Kept::Switch(|o| &mut o.stress.no_settling),
        "let no cell settle, so that major collections trace all old ones but those that settled before",
    ),
    Setting::new(
        "look-ahead",
        Kept::Switch(|o| &mut o.stress.look_ahead),
        "fetch cells ahead while marking, as is done in large heaps",
    ),
    Setting::new(
        "move-everything",
        Kept::Switch(|o| &mut o.stress.move_everything),
        "do full collections only, and move every cell that may move",
    ),
    Setting::new(
        "parallel-cells",
        Kept::Number(Range::whole(0, usize::MAX), |o| &mut o.parallel.cells_min),
        "let one thread mark N cells before it calls the others, unless the latest collection \
         found as many alive",
    ),
    Setting::new(
        "refuse",
        Kept::Text {
            wanted: Refusal::ALLOWED,
            read: |o, text| {
                o.refuse = match text {
                    NONE => None,
                    _ => Some(text.parse().map_err(|_| Refusal::ALLOWED)?),
                };
                Ok(())
            },
            show: |o| o.refuse.map_or(NONE.into(), |refusal| refusal.to_string()),
        },
        "have a call of the system fail, such as the fifth mprotect with mprotect:5, or all from \
         it on with mprotect:5+",
    ),
];

/// Turns the switches in `text` on, and all others off.
pub(super) fn read(options: &mut Options, text: &str) -> Result<(), Cow<'static, str>> {
    options.stress = Stress::default();
    options.parallel.cells_min = ParallelMarking::default().cells_min;
    options.refuse = None;
    if text == NONE {
        return Ok(());
    }
    for word in text.split(',') {
        let (name, value) = word.split_once(':').unwrap_or((word, ""));
        let Some(switch) = SWITCHES.iter().find(|switch| switch.name == name) else {
            let names = SWITCHES.each_ref().map(|switch| switch.name).join(", ");
            return Err(format!("{word:?} is no switch; none, or some of {names},").into());
        };
        let value = match switch.kept {
            Kept::Switch(_) if word == name => "1",
            _ => value,
        };
        switch
            .read(options, value)
            .map_err(|wanted| format!("{name}: {wanted}"))?;
    }
    Ok(())
}

/// The switches that are on, as a text that [`read`] takes.
pub(super) fn text(options: &Options) -> String {
    let off = Options::default();
    let words: Vec<_> = SWITCHES
        .iter()
        .map(|switch| (switch, switch.value(options)))
        .filter(|(switch, value)| *value != switch.value(&off))
        .map(|(switch, value)| match value {
            Value::Switch(_) => switch.name.to_owned(),
            _ => format!("{}:{value}", switch.name),
        })
        .collect();
    match words.is_empty() {
        true => NONE.to_owned(),
        false => words.join(","),
    }
}

/// The refusal that a text of the option names, found without allocating: for a process that
/// has read no options yet.
pub fn refusal_in(text: &str) -> Option<Refusal> {
    let mut words = text.rsplit(',');
    words
        .find_map(|word| word.strip_prefix("refuse:"))?
        .parse()
        .ok()
}

/// An error if a switch is named as an option of its own: the program would run without it, and
/// nobody would know.
pub(super) fn refuse_as_options(reader: &Reader<'_>) -> Result<(), String> {
    let named = SWITCHES.iter().filter_map(|switch| {
        let name = switch.name.replace('-', "_");
        let text = (reader.text)(&name)?;
        let word = match (&switch.kept, text.as_str()) {
            (Kept::Switch(_), "1") => switch.name.to_owned(),
            _ => format!("{}:{text}", switch.name),
        };
        Some((format!("{}={text}", (reader.shown_name)(&name)), word))
    });
    let (named, words): (Vec<_>, Vec<_>) = named.unzip();
    if named.is_empty() {
        return Ok(());
    }
    let stress = (reader.shown_name)("stress");
    Err(format!(
        "{}: switches are words of {stress}; write {stress}={}",
        named.join(" "),
        words.join(",")
    ))
}
