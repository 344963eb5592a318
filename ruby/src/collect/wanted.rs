//! The scope of a collection, as far as Ruby chooses it.

use ashlar_heap::driver::{Cause, Wanted};
use ashlar_heap::{Request, Scope};

use super::record::Reason;
use crate::collector::Collector;
use crate::knobs::KNOBS;
use crate::ruby_calls::Value;

impl Collector {
    /// What Ruby wants of a collection that pacing asks for.
    pub(crate) fn wanted(&self, reason: Reason) -> Wanted {
        Wanted {
            cause: match reason {
                Reason::Malloc => Cause::Payloads,
                _ => Cause::Cells,
            },
            scope: match (KNOBS.full_marking_allowed.is_on(), reason) {
                (false, _) => Some(Scope::Minor),
                (true, Reason::Stress) => stress_scope(KNOBS.stress_flag()),
                (true, _) => None,
            },
            compact: self.auto_compaction(),
        }
    }

    /// The request of `GC.start` and of methods like it.
    pub(super) fn asked_for(&self, full: bool, sweep_now: bool) -> Request {
        Request {
            // A minor one is upgraded when a major or full one is due anyway. Ruby allows it, whatever
            // `rgengc_allow_full_mark` says: the program has asked for a collection.
            scope: full.then_some(Scope::Full),
            sweep_now,
            compact: self.auto_compaction(),
            settle_all: false,
        }
    }
}

/// `GC.stress=` takes a number; if its lowest bit is set, collections are minor.
fn stress_scope(flag: Value) -> Option<Scope> {
    let is_number = flag & 1 == 1;
    let no_full = is_number && (flag >> 1) & 1 == 1;
    match flag {
        0 => None,
        _ if no_full => Some(Scope::Minor),
        _ => Some(Scope::Full),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_of_gc_stress_chooses_the_scope() {
        // `true`, and the numbers 1 and 4.
        assert_eq!(stress_scope(0x14), Some(Scope::Full));
        assert_eq!(stress_scope(1 << 1 | 1), Some(Scope::Minor));
        assert_eq!(stress_scope(4 << 1 | 1), Some(Scope::Full));
        assert_eq!(stress_scope(0), None);
    }
}
