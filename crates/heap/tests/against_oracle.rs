//! Random programs on the toy VM, compared with a plain map at each step.
//!
//! A failure prints the shortest program found and keeps its seed in
//! `tests/regressions/against_oracle.txt`; the next run begins with it.
//! `ASHLAR_TEST_CASES` sets how many programs are run.

#[allow(missing_docs, unreachable_pub)]
mod cases;
#[allow(missing_docs, unreachable_pub)]
mod model;
#[allow(unreachable_pub)]
#[path = "../examples/toy_vm.rs"]
mod toy_vm;

use ashlar_heap::ParallelMarking;
use model::op::Op;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    ProptestConfig {
        max_shrink_iters: 1_500,
        ..cases::config(100, "tests/regressions/against_oracle.txt")
    }
}

/// A program that is shown as one operation a line.
#[derive(Clone)]
struct Program(Vec<Op>);

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for op in &self.0 {
            write!(f, "\n    {op:?}")?;
        }
        Ok(())
    }
}

fn program() -> impl Strategy<Value = Program> {
    prop::collection::vec(op(), 1..LENGTH).prop_map(Program)
}

fn op() -> impl Strategy<Value = Op> {
    any::<(u8, u8, u16, u16)>().prop_map(|(code, a, b, c)| Op::decode(code, a, b, c))
}

const LENGTH: usize = if cfg!(miri) { 40 } else { 300 };

proptest! {
    #![proptest_config(config())]

    /// Whatever a program does, the heap holds what the oracle says.
    #[test]
    fn a_heap_and_a_map_agree(program in program()) {
        model::run(&program.0);
    }

    /// It does not matter how many threads mark.
    #[test]
    fn a_heap_that_several_threads_mark_and_a_map_agree(
        program in program(),
        threads in 2..5_usize,
    ) {
        model::run_with(ParallelMarking { threads, cells_min: 0 }, &program.0);
    }
}
