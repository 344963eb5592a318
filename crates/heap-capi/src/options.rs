//! Options as text: `name=value`, with spaces between.

use ashlar_heap::options::{self as heap_options, Kept, Range, Reader, Setting, TABLE};

/// Everything that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) heap: heap_options::Options,
    /// The program calls the write barrier.
    pub(crate) has_barriers: bool,
    /// There are minor collections.
    pub(crate) generational: bool,
    /// Bytes of address space; `None` to go by the machine.
    pub(crate) reserve_bytes: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            heap: heap_options::Options::default(),
            has_barriers: true,
            generational: true,
            reserve_bytes: None,
        }
    }
}

type Own = Setting<Options>;

/// What programs in C have besides [`TABLE`].
static OWN: [Own; 3] = [
    Own::new(
        "generational",
        Kept::Switch(|o| &mut o.generational),
        "0: a major collection is made of each minor one",
    ),
    Own::new(
        "barriers",
        Kept::Switch(|o| &mut o.has_barriers),
        "0: the program calls no write barrier. Every collection is then a full one, in one stop",
    )
    .at_start_only(),
    Own::new(
        "reserve",
        Kept::NumberOr(
            &[("auto", || None)],
            Range::bytes(16 << 20, usize::MAX),
            |o| &mut o.reserve_bytes,
        ),
        "address space, and so the most the heap can hold; auto: four times the machine's memory, \
         at least 64 GiB, or a quarter of what ulimit -v allows",
    )
    .at_start_only(),
];

impl Options {
    /// These options with those of `text` changed. `is_new` is for a heap that is being
    /// made.
    pub(crate) fn changed(&self, text: &str, is_new: bool) -> Result<Self, String> {
        let mut pairs = Vec::new();
        for word in text.split_whitespace() {
            let pair = word.split_once('=');
            pairs.push(
                pair.ok_or_else(|| format!("option {word:?}: give it a value, as in {word}=1"))?,
            );
        }
        let reader = Reader {
            text: &|asked| {
                let pair = pairs.iter().rfind(|(name, _)| *name == asked);
                pair.map(|(_, value)| (*value).to_owned())
            },
            shown_name: str::to_owned,
            is_running: !is_new,
        };
        let heap = self.heap.changed(&reader)?;
        let changed = reader.changed(&OWN, &Self { heap, ..*self })?;
        let mut names = TABLE.iter().map(|setting| setting.name).collect::<Vec<_>>();
        names.extend(OWN.iter().map(|setting| setting.name));
        match pairs.iter().find(|(name, _)| !names.contains(name)) {
            Some((name, value)) => Err(format!(
                "{name}={value}: there is no such option; ashlar.h lists them"
            )),
            None => changed.checked(),
        }
    }

    fn checked(mut self) -> Result<Self, String> {
        if !self.has_barriers {
            if self.heap.slice_us.is_some() || self.heap.stress.slice_cells > 0 {
                return Err("barriers=0: collections in slices need the write barrier".into());
            }
            // Every collection is a full one.
            self.heap.pace.growth_max_bytes = 0;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use ashlar_heap::document::compare;
    use ashlar_heap::options::document::{rows, Row};

    use super::*;

    /// The row as lines of a comment, none longer than 100 characters.
    fn row_of_the_header(row: Row) -> String {
        let mut lines = vec![format!(
            " *   {:<19}",
            format!("{}={}", row.name, row.default)
        )];
        let sentence = format!("{} ({})", row.about, row.wanted);
        for word in sentence.split(' ') {
            let line = lines.last().expect("a line");
            if line.chars().count() + 1 + word.len() > 100 {
                lines.push(format!(" * {:21}", ""));
            }
            let line = lines.last_mut().expect("a line");
            line.push(' ');
            line.push_str(word);
        }
        lines.join("\n") + "\n"
    }

    fn row_of_the_manual(row: Row) -> String {
        let Row { name, default, .. } = &row;
        format!(
            ".TP\n.BR {name} ={default}\n{}\n({}).\n",
            row.about, row.wanted
        )
    }

    #[test]
    fn the_header_and_the_manual_have_every_option() {
        let defaults = Options::default();
        let all = || {
            let own = rows(&OWN, &defaults);
            rows(&TABLE, &defaults.heap).into_iter().chain(own)
        };
        let header: String = all().map(row_of_the_header).collect();
        let manual: String = all().map(row_of_the_manual).collect();
        let begin = "Sizes take K, M, G (or KiB, MiB, GiB).\n *\n";
        compare("crates/heap-capi/include/ashlar.h", begin, " *\n", &header);
        let begin = ".BR ashlar_heap_new ():\n";
        compare(
            "crates/heap-capi/man/ashlar.3",
            begin,
            ".SH RETURN",
            &manual,
        );
    }
}
