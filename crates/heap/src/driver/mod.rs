//! What leads from "memory is wanted" to a collection, the same for every VM. A VM supplies how
//! the program is stopped, and may take note of what happens ([`World`]).
//!
//! * [`plan`] decides whether a collection is done at once or in slices.
//! * [`run`] runs it.
//! * [`pauses`]: how long the program waits, and how long it may.

mod pauses;
mod plan;
mod run;

pub use pauses::{PauseSummary, Pauses};
pub use plan::{Cause, Wanted};
pub use run::{Driver, World, LARGE_PAYLOAD_BYTES};
