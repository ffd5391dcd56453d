//! How long the machine itself stands still: two threads, each on a core of its own, do nothing but
//! look at the clock. What they miss is no program's fault. A virtual machine whose host has other
//! work misses milliseconds, of which its own kernel knows nothing.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::asking::ROUND;
use crate::cores::{Thread, stay_on};

/// Together shorter than the kernel lets a thread of real-time priority have its core without a
/// pause.
const LOOK: Duration = ROUND;
const LOOKS: usize = 9;
/// A shorter look away is an interrupt.
const STALL: Duration = Duration::from_micros(200);

/// Of the core that missed more.
#[derive(Default)]
pub(crate) struct Stalls {
    /// As a share of the time, in the middle one of all looks. As with the rounds of asking, one
    /// long stall says little.
    pub(crate) missed: f64,
    /// Of all looks.
    pub(crate) longest: Duration,
}

/// Watches the two cores that the server and who asks are to have, with the priority that they are
/// to have where that is permitted.
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
        worst.missed = worst.missed.max(stalls.missed);
        worst.longest = worst.longest.max(stalls.longest);
    }
    Ok(worst)
}

fn watch_core(number: usize) -> Result<Stalls> {
    stay_on(number)?;
    // Where it is not permitted, the run says so.
    let _ = Thread::current()?.raise();
    let (mut missed, longest): (Vec<Duration>, Vec<Duration>) = (0..LOOKS).map(|_| look()).unzip();
    missed.sort();
    let middle = missed.get(LOOKS / 2).copied().unwrap_or_default();
    Ok(Stalls {
        missed: middle.div_duration_f64(LOOK),
        longest: longest.into_iter().max().unwrap_or_default(),
    })
}

/// What was missed in all, and at once at most.
fn look() -> (Duration, Duration) {
    let begin = Instant::now();
    let (mut last, mut missed, mut longest) = (begin, Duration::ZERO, Duration::ZERO);
    while last.duration_since(begin) < LOOK {
        let now = Instant::now();
        let gap = now.duration_since(last);
        if gap > STALL {
            missed += gap;
            longest = longest.max(gap);
        }
        last = now;
    }
    (missed, longest)
}
