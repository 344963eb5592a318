//! How many cases the tests with random input run.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// Runs `cases` cases, or as many as `ASHLAR_TEST_CASES` says, and keeps the seeds of failures in
/// the file `regressions`.
pub fn config(cases: u32, regressions: &'static str) -> ProptestConfig {
    let asked = std::env::var("ASHLAR_TEST_CASES").ok().map(|cases| {
        cases
            .parse()
            .unwrap_or_else(|_| panic!("ASHLAR_TEST_CASES={cases}: give a number of cases"))
    });
    ProptestConfig {
        cases: if cfg!(miri) {
            2
        } else {
            asked.unwrap_or(cases)
        },
        failure_persistence: (!cfg!(miri))
            .then(|| Box::new(FileFailurePersistence::Direct(regressions)) as _),
        ..ProptestConfig::default()
    }
}
