//! The distance to the next sample: exponentially distributed, so that every byte is a
//! mark with the same probability, whatever came before.

/// Random numbers, and the mean distance between two marks.
pub(super) struct Intervals {
    state: u64,
    pub(super) period_bytes: u64,
}

impl Intervals {
    pub(super) fn new(period_bytes: u64, seed: u64) -> Self {
        Self {
            state: seed | 1,
            period_bytes,
        }
    }

    /// A random number of 64 bits (xorshift64*; Vigna, 2016).
    fn random(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns the bytes up to the next mark.
    pub(super) fn bytes(&mut self) -> u64 {
        // Never 0, which has no logarithm.
        let uniform = ((self.random() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * self.period_bytes as f64).ceil() as u64
    }

    /// Returns the cells of `width_bytes` up to and including the one that contains the
    /// next mark.
    pub(super) fn cells(&mut self, width_bytes: usize) -> u64 {
        self.bytes().div_ceil(width_bytes as u64).max(1)
    }

    /// The probability that something of `bytes` becomes a sample.
    pub(super) fn probability(&self, bytes: u64) -> f64 {
        -(-(bytes as f64) / self.period_bytes as f64).exp_m1()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_BYTES: u64 = 512 << 10;

    /// Asserts that the mean of many draws lies within five standard errors of the
    /// expected one.
    fn assert_mean(expected: f64, deviation: f64, draws: u32, mut draw: impl FnMut() -> f64) {
        let mean = (0..draws).map(|_| draw()).sum::<f64>() / f64::from(draws);
        let error = deviation / f64::from(draws).sqrt();
        assert!(
            (mean - expected).abs() < 5.0 * error,
            "{mean} instead of {expected} ± {error}"
        );
    }

    #[test]
    fn marks_are_a_period_apart_on_average() {
        let mut intervals = Intervals::new(PERIOD_BYTES, 7);
        let period = PERIOD_BYTES as f64;
        assert_mean(period, period, 100_000, || intervals.bytes() as f64);
    }

    #[test]
    fn a_cell_is_a_sample_as_often_as_its_weight_says() {
        for width_bytes in [32, 1024] {
            let mut intervals = Intervals::new(4096, 11);
            let expected = 1.0 / intervals.probability(width_bytes as u64);
            assert_mean(expected, expected, 100_000, || {
                intervals.cells(width_bytes) as f64
            });
        }
    }

    #[test]
    fn what_is_much_larger_than_the_period_is_always_a_sample() {
        let intervals = Intervals::new(4096, 3);
        assert!(intervals.probability(1 << 20) > 0.999_999);
        assert!((intervals.probability(40) - 40.0 / 4096.0).abs() < 1e-4);
    }
}
