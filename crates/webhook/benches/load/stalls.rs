//! Stalls of the machine: two threads on a core each do nothing but read the clock. A virtual
//! machine whose host is busy loses milliseconds, which its kernel does not see.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::client::ROUND;
use crate::cores::{Thread, stay_on};

/// Length and number of the measurements. All together are shorter than the time after which the
/// kernel takes the core from a thread of real-time priority.
const MEASUREMENT: Duration = ROUND;
const MEASUREMENTS: usize = 9;
/// Minimum length of a stall. Shorter gaps are interrupts.
const MIN_STALL: Duration = Duration::from_micros(200);

/// The stalls of the worse core.
#[derive(Default)]
pub(crate) struct Stalls {
    /// Stalled share of the time, the median of the measurements.
    pub(crate) stalled: f64,
    /// The longest stall of all measurements.
    pub(crate) longest: Duration,
}

/// Measures the cores of server and client, with real-time priority if that is permitted.
pub(crate) fn watch() -> Result<Stalls> {
    let watched: Vec<Result<Stalls>> = std::thread::scope(|scope| {
        let watchers = [0, 1].map(|core| scope.spawn(move || watch_core(core)));
        watchers
            .into_iter()
            .filter_map(|watcher| watcher.join().ok())
            .collect()
    });
    let mut worst = Stalls::default();
    for stalls in watched {
        let stalls = stalls?;
        worst.stalled = worst.stalled.max(stalls.stalled);
        worst.longest = worst.longest.max(stalls.longest);
    }
    Ok(worst)
}

fn watch_core(number: usize) -> Result<Stalls> {
    stay_on(number)?;
    // `main` reports whether it is permitted.
    let _ = Thread::current()?.raise();
    let (mut stalled, longest): (Vec<Duration>, Vec<Duration>) =
        (0..MEASUREMENTS).map(|_| measure()).unzip();
    stalled.sort();
    let middle = stalled.get(MEASUREMENTS / 2).copied().unwrap_or_default();
    Ok(Stalls {
        stalled: middle.div_duration_f64(MEASUREMENT),
        longest: longest.into_iter().max().unwrap_or_default(),
    })
}

/// The total and the longest stall of one measurement.
fn measure() -> (Duration, Duration) {
    let begin = Instant::now();
    let (mut last, mut stalled, mut longest) = (begin, Duration::ZERO, Duration::ZERO);
    while last.duration_since(begin) < MEASUREMENT {
        let now = Instant::now();
        let gap = now.duration_since(last);
        if gap > MIN_STALL {
            stalled += gap;
            longest = longest.max(gap);
        }
        last = now;
    }
    (stalled, longest)
}
