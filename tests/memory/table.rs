//! The table of worst shapes.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// Largest accepted ratio of the time of other work to its usual time.
const MOST_RATIO: f64 = 2.0;
/// Usual times of a request below this one count as this long: a machine that is busy otherwise adds
/// more.
pub(crate) const SHORTEST_REQUEST: Duration = Duration::from_millis(20);
/// The same of a start, which includes lists of all objects.
pub(crate) const SHORTEST_START: Duration = Duration::from_secs(5);
/// Runs of a measurement of which the best one counts: something else may hold up the machine.
const RUNS: usize = 3;

/// Serializes measurements.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Times of the work of others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) median: Duration,
    pub(crate) longest: Duration,
}

impl Times {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self {
            median: times[times.len() / 2],
            longest: times.last().copied().unwrap_or_default(),
        }
    }
}

/// The effect of one shape on one program.
pub(crate) struct Row {
    pub(crate) program: &'static str,
    pub(crate) shape: String,
    /// Resident memory at its peak, above that before.
    pub(crate) grown_bytes: usize,
    pub(crate) most_bytes: usize,
    /// Times of the work of others before and meanwhile, if there is any.
    pub(crate) times: Option<[Times; 2]>,
    /// Usual times below this one count as this long.
    pub(crate) shortest: Duration,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.times.map_or(1.0, |[usual, times]| {
            let usual = usual.median.max(self.shortest);
            times.median.as_secs_f64() / usual.as_secs_f64()
        })
    }

    fn is_bounded(&self) -> bool {
        self.grown_bytes <= self.most_bytes && self.ratio() <= MOST_RATIO
    }

    fn print(&self) {
        static HEADER: Once = Once::new();
        HEADER.call_once(|| {
            println!(
                "{:<12} {:<48} {:>18} {:>11} {:>11} {:>11}",
                "program", "shape", "peak memory", "usual time", "time", "longest"
            );
        });
        let [usual, times] = self.times.map_or_else(Default::default, |[usual, times]| {
            [usual.median, times.median].map(|time| format!("{:.1} ms", time.as_secs_f64() * 1e3))
        });
        let longest = self.times.map_or_else(String::new, |[_, times]| {
            format!("{:.1} ms", times.longest.as_secs_f64() * 1e3)
        });
        println!(
            "{:<12} {:<48} {:>6} of {:>4} MiB {usual:>11} {times:>11} {longest:>11}",
            self.program,
            self.shape,
            self.grown_bytes >> 20,
            self.most_bytes >> 20,
        );
    }
}

/// Measures up to three times, prints the first row within its bounds, and fails without one.
pub(crate) fn check(mut measure: impl FnMut() -> Row) {
    for run in 1..=RUNS {
        let row = measure();
        if row.is_bounded() || run == RUNS {
            row.print();
            assert!(
                row.is_bounded(),
                "{}, {}: {} of {} bytes, {:.1} times as long",
                row.program,
                row.shape,
                row.grown_bytes,
                row.most_bytes,
                row.ratio()
            );
            return;
        }
    }
}
