//! A range of p, timed for a given time: as many p as it is enough for, but one at least.
//!
//! ```text
//! the next p: first the middle of the range, then each further by about 0.618 of the range, round
//!             and round in it, so that those that are timed are spread evenly, however many
//! mean:  the average over the p that were timed, as in the paper's Table 4
//! total: what the p that were timed took, times (sum of all p) / (sum of those timed)
//! ```

use std::io;
use std::time::{Duration, Instant};

use super::timing::Times;

/// All p from `from` to `to`.
#[derive(Clone, Copy)]
pub struct Sweep {
    pub from: usize,
    pub to: usize,
}

impl Sweep {
    /// How many p there are.
    pub fn len(self) -> usize {
        self.to - self.from + 1
    }

    pub fn first(self) -> usize {
        self.from + self.len() / 2
    }

    /// From one p to the next: without a divisor in common with their number, so that each has its
    /// turn.
    pub fn step(self) -> usize {
        let golden = (self.len() as f64 * 0.618) as usize;
        (golden..self.len())
            .find(|&step| common_divisor(step, self.len()) == 1)
            .unwrap_or(1)
    }

    fn order(self) -> impl Iterator<Item = usize> {
        let (offset, step) = (self.first() - self.from, self.step());
        (0..self.len()).map(move |i| self.from + (offset + i * step) % self.len())
    }

    /// Times one p after the other; `progress` is told which part of `time` is over.
    pub fn run(self, time: Duration, progress: impl Fn(f64)) -> io::Result<Swept> {
        let start = Instant::now();
        let mut times = Vec::new();
        for p in self.order() {
            times.push(Times::measure(p)?);
            if start.elapsed() >= time {
                break;
            }
            progress(start.elapsed().as_secs_f64() / time.as_secs_f64());
        }
        Ok(Swept { sweep: self, times })
    }
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// A range of p with the times of some of them.
pub struct Swept {
    pub sweep: Sweep,
    pub times: Vec<Times>,
}

impl Swept {
    fn sum(&self, of: impl Fn(&Times) -> f64) -> f64 {
        self.times.iter().map(of).sum()
    }

    pub fn mean(&self, each: fn(&Times) -> f64) -> f64 {
        self.sum(each) / self.times.len() as f64
    }

    /// Seconds for all processes of all p in the range.
    pub fn total(&self, each: fn(&Times) -> f64) -> f64 {
        let all = (self.sweep.from + self.sweep.to) as f64 / 2.0 * self.sweep.len() as f64;
        self.sum(|times| times.p as f64 * each(times)) * all / self.sum(|times| times.p as f64)
    }

    /// Processes that were timed.
    pub fn processes(&self) -> usize {
        self.times.iter().map(|times| times.processes).sum()
    }

    /// Seconds for the processes that were timed.
    pub fn seconds(&self, each: fn(&Times) -> f64) -> f64 {
        self.sum(|times| times.processes as f64 * each(times))
    }

    /// The least and the greatest of our times as parts of the paper's, but for the twentieth of
    /// the p at either end.
    pub fn ratios(&self) -> [f64; 2] {
        let ratios = self.times.iter().map(|times| times.both / times.paper);
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        let cut = ratios.len() / 20;
        [ratios[cut], ratios[ratios.len() - 1 - cut]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_p_has_its_turn_and_the_first_are_spread() {
        for (from, to) in [(1, 17_000), (64_000, 73_000), (2_097_000, 2_099_000)] {
            let sweep = Sweep { from, to };
            let mut order: Vec<usize> = sweep.order().collect();
            let mut early = order[..8].to_vec();
            early.sort_unstable();
            let gaps = early.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.max() < Some(sweep.len() / 4), "{early:?}");
            order.sort_unstable();
            assert!(order.into_iter().eq(from..=to));
        }
    }

    #[test]
    fn a_total_is_of_every_process_and_a_mean_of_every_p() {
        let times = |p, paper| Times {
            p,
            processes: p,
            paper,
            both: 1.0,
            receive: 0.0,
            table: 0.0,
        };
        let swept = Swept {
            sweep: Sweep { from: 3, to: 5 },
            times: vec![times(3, 2.0), times(4, 4.0)],
        };
        assert_eq!(swept.mean(|times| times.paper), 3.0);
        assert_eq!(swept.seconds(|times| times.paper), 22.0);
        assert_eq!(swept.total(|times| times.both), 12.0);
        assert_eq!(swept.ratios(), [0.25, 0.5]);
    }
}
