//! CPU time, used in a part of each period of 100 ms.

use std::hint::black_box;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::parameters::MAX_CPU_MILLICORES;
use crate::state::State;

const PERIOD: Duration = Duration::from_millis(100);

/// Starts as many threads as the largest wanted CPU needs. A thread that is not needed waits.
pub(crate) fn start_threads(state: &'static State) -> io::Result<()> {
    for thread in 0..MAX_CPU_MILLICORES.div_ceil(1000) {
        let builder = thread::Builder::new().name(format!("cpu-{thread}"));
        builder.spawn(move || use_cpu(thread, state))?;
    }
    Ok(())
}

/// Uses CPU time, not time on the clock: it is as much as wanted also when other processes or a
/// limit make this thread wait, as long as the period lasts.
fn use_cpu(thread: u64, state: &State) {
    let mut end = Instant::now();
    // The work of one period, which a limit may spread over several.
    let mut work = None;
    loop {
        let millicores = state.wait_for_millicores(thread);
        let now = Instant::now();
        // Time that a limit took is not made up for.
        end = (end + PERIOD).max(now);
        let until = thread_time() + PERIOD.mul_f64(millicores as f64 / 1000.0);
        while thread_time() < until && Instant::now() < end {
            (0..1000_u32).for_each(|number| _ = black_box(number));
        }
        let (began, done_at) = *work.get_or_insert((now, until));
        if thread == 0 && thread_time() >= done_at {
            state.set_work_time(began.elapsed());
            work = None;
        }
        thread::sleep(end.saturating_duration_since(Instant::now()));
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
