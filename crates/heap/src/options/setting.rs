//! One option, and how it is read and shown.

use std::borrow::Cow;
use std::fmt;

/// An option that is kept in an `O`.
#[derive(Debug)]
pub struct Setting<O: 'static> {
    /// What it is called everywhere.
    pub name: &'static str,
    /// What it may be, and where it is.
    pub kept: Kept<O>,
    /// It cannot change once the heap is in use.
    pub at_start_only: bool,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// The document that says more, or nothing.
    pub more: &'static str,
}

impl<O> Setting<O> {
    /// An option that can change at any time.
    pub const fn new(name: &'static str, kept: Kept<O>, about: &'static str) -> Self {
        Self {
            name,
            kept,
            at_start_only: false,
            about,
            more: "",
        }
    }

    /// The same option, with `more` as the document that says more.
    pub const fn more(mut self, more: &'static str) -> Self {
        self.more = more;
        self
    }

    /// The same option, but it cannot change once the heap is in use.
    pub const fn at_start_only(mut self) -> Self {
        self.at_start_only = true;
        self
    }
}

/// A word that can stand in the place of a number, and what it means.
pub type Word = (&'static str, fn() -> Option<usize>);

/// Finds the `T` in an `O`.
type At<O, T> = fn(&mut O) -> &mut T;

/// What an option may be, and where it is.
#[derive(Debug)]
pub enum Kept<O: 'static> {
    /// 0 or 1.
    Switch(At<O, bool>),
    /// A number.
    Number(Range, At<O, usize>),
    /// A number or a word; the first word stands for none.
    NumberOr(&'static [Word], Range, At<O, Option<usize>>),
    /// Any text.
    Text {
        /// What is wanted, as a message says it.
        wanted: &'static str,
        /// Sets the option to a text, or returns what is wanted.
        read: fn(&mut O, &str) -> Result<(), Cow<'static, str>>,
        /// The option as a text that `read` takes.
        show: fn(&O) -> String,
    },
}

/// What numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The number itself.
    One,
    /// Thousandths, written with a decimal point.
    Thousandth,
    /// Bytes, written such as `512MiB`.
    Byte,
}

/// Numbers that an option may be, in its unit.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    unit: Unit,
    min: usize,
    max: usize,
}

impl Range {
    /// Whole numbers.
    pub const fn whole(min: usize, max: usize) -> Self {
        let unit = Unit::One;
        Self { unit, min, max }
    }

    /// Numbers with a decimal point, in thousandths.
    pub const fn thousandths(min: usize, max: usize) -> Self {
        let unit = Unit::Thousandth;
        Self { unit, min, max }
    }

    /// Sizes in bytes.
    pub const fn bytes(min: usize, max: usize) -> Self {
        let unit = Unit::Byte;
        Self { unit, min, max }
    }

    fn parse(&self, text: &str) -> Option<usize> {
        let number = match self.unit {
            Unit::One => text.parse().ok()?,
            Unit::Byte => parse_bytes(text)?,
            Unit::Thousandth => {
                let number = text
                    .parse::<f64>()
                    .ok()
                    .filter(|number| number.is_finite())?;
                (number * 1e3).round() as usize
            }
        };
        (self.min..=self.max).contains(&number).then_some(number)
    }

    /// What is wanted, as a message says it.
    pub fn wanted(&self) -> String {
        let what = match self.unit {
            Unit::One => "a whole number",
            Unit::Thousandth => "a number",
            Unit::Byte => "a size",
        };
        let [min, max] = [self.min, self.max].map(|bound| Value::Number(self.unit, bound));
        match self.max {
            usize::MAX if self.min == 0 && self.unit == Unit::Byte => {
                "a size such as 512MiB".into()
            }
            usize::MAX => format!("{what} of at least {min}"),
            _ => format!("{what} from {min} to {max}"),
        }
    }
}

/// The value of an option. Its text can be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// On or off.
    Switch(bool),
    /// A number of units.
    Number(Unit, usize),
    /// A text.
    Text(Cow<'static, str>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Switch(is_on) => u8::from(is_on).fmt(f),
            Self::Number(Unit::One, number) => number.fmt(f),
            Self::Number(Unit::Thousandth, number) => (number as f64 / 1e3).fmt(f),
            Self::Number(Unit::Byte, bytes) => {
                let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
                let fits = |&(shift, _): &(u32, _)| bytes != 0 && bytes % (1 << shift) == 0;
                match units.into_iter().find(fits) {
                    Some((shift, unit)) => write!(f, "{}{unit}", bytes >> shift),
                    None => bytes.fmt(f),
                }
            }
            Self::Text(ref text) => text.fmt(f),
        }
    }
}

impl<O: Copy> Setting<O> {
    /// Sets the option in `options` to `text`, or returns what is wanted.
    pub(super) fn read(&self, options: &mut O, text: &str) -> Result<(), Cow<'static, str>> {
        match self.kept {
            Kept::Switch(at) => {
                *at(options) = match text {
                    "0" => false,
                    "1" => true,
                    _ => return Err(self.wanted()),
                }
            }
            Kept::Number(range, at) => {
                *at(options) = range.parse(text).ok_or_else(|| self.wanted())?;
            }
            Kept::NumberOr(words, range, at) => {
                let word = words.iter().find(|(word, _)| *word == text);
                *at(options) = match word {
                    Some((_, number)) => number(),
                    None => Some(range.parse(text).ok_or_else(|| self.wanted())?),
                };
            }
            Kept::Text { read, .. } => read(options, text)?,
        }
        Ok(())
    }

    /// Its value in `options`.
    pub fn value(&self, options: &O) -> Value {
        let mut options = *options;
        match self.kept {
            Kept::Switch(at) => Value::Switch(*at(&mut options)),
            Kept::Number(range, at) => Value::Number(range.unit, *at(&mut options)),
            Kept::NumberOr(words, range, at) => {
                let none = words[0].0;
                match at(&mut options).or_else(|| none.parse().ok()) {
                    Some(number) => Value::Number(range.unit, number),
                    None => Value::Text(none.into()),
                }
            }
            Kept::Text { show, .. } => Value::Text(show(&options).into()),
        }
    }

    /// What is wanted, as a message says it.
    pub fn wanted(&self) -> Cow<'static, str> {
        match self.kept {
            Kept::Switch(_) => "0 or 1".into(),
            Kept::Number(range, _) => range.wanted().into(),
            Kept::NumberOr(words, range, _) => {
                let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                format!("{} or {}", words.join(", "), range.wanted()).into()
            }
            Kept::Text { wanted, .. } => wanted.into(),
        }
    }
}

/// Where texts of options come from.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The text of an option, by its name; `None` leaves it as it is.
    pub text: &'a dyn Fn(&str) -> Option<String>,
    /// What messages call an option.
    pub shown_name: fn(&str) -> String,
    /// The heap is in use.
    pub is_running: bool,
}

impl Reader<'_> {
    /// `options`, changed where there is a text for an option in `table`.
    ///
    /// # Errors
    /// A line that names the option, its value, and what is wanted.
    pub fn changed<O: Copy>(&self, table: &[Setting<O>], options: &O) -> Result<O, String> {
        let mut changed = *options;
        for setting in table {
            let Some(text) = (self.text)(setting.name) else {
                continue;
            };
            let problem = match setting.read(&mut changed, &text) {
                Err(wanted) => format!("{wanted} is wanted"),
                Ok(())
                    if self.is_running
                        && setting.at_start_only
                        && setting.value(&changed) != setting.value(options) =>
                {
                    "choose it at the start; it cannot change later".to_owned()
                }
                Ok(()) => continue,
            };
            return Err(self.refusal(setting.name, &text, &problem));
        }
        Ok(changed)
    }

    /// An error if there is a text for this option.
    pub(super) fn refuse_if_named(&self, name: &str, wanted: &str) -> Result<(), String> {
        match (self.text)(name) {
            Some(text) => Err(self.refusal(name, &text, &format!("{wanted} is wanted"))),
            None => Ok(()),
        }
    }

    fn refusal(&self, name: &str, text: &str, problem: &str) -> String {
        format!("{}={text}: {problem}", (self.shown_name)(name))
    }
}

/// Reads a size in bytes, such as `512MiB`, `2G` or `65536`.
pub fn parse_bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}
