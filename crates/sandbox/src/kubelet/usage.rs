//! Usage of a process, from `/proc/<pid>/stat`: CPU time (fields 14 and 15) and resident memory
//! (field 24).

use std::fs;

use jiff::Timestamp;

/// A reading of one or more processes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// CPU time since the start, in seconds.
    pub(super) cpu_seconds: f64,
    pub(super) memory_bytes: u64,
}

impl std::ops::Add for Reading {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            memory_bytes: self.memory_bytes + other.memory_bytes,
        }
    }
}

/// Reads one process; `None` when it has ended.
pub(super) fn read(pid: u32) -> Option<Reading> {
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    parse(
        &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?,
        ticks_per_second,
        rustix::param::page_size() as u64,
    )
}

/// The program's name in field 2 may hold spaces and brackets; the fields after it do not.
fn parse(stat: &str, ticks_per_second: u64, page_bytes: u64) -> Option<Reading> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = field(14)? + field(15)?;
    Some(Reading {
        cpu_seconds: ticks as f64 / ticks_per_second as f64,
        memory_bytes: field(24)? * page_bytes,
    })
}

/// Turns readings of one pod into the quantities of metrics.k8s.io.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    last: Option<(Timestamp, Reading)>,
}

/// Usage as text, in milli-cores and kibibytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// `12m`.
    pub(super) cpu: String,
    /// `3456Ki`.
    pub(super) memory: String,
}

impl Meter {
    /// Adds a reading; `None` for the first, or when a process was restarted in between.
    pub(super) fn measure(&mut self, now: Timestamp, reading: Reading) -> Option<Usage> {
        let (before, last) = self.last.replace((now, reading))?;
        let seconds = now.duration_since(before).as_secs_f64();
        let used = reading.cpu_seconds - last.cpu_seconds;
        (seconds > 0.0 && used >= 0.0).then(|| Usage {
            // Rounded up: a running process never uses nothing.
            cpu: format!("{}m", (used / seconds * 1000.0).ceil().max(1.0) as u64),
            memory: format!("{}Ki", reading.memory_bytes / 1024),
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn the_kernels_fields_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 1 2 3 4 150 50 7 8 20 0 1 0 4711 1000000 25 9";
        assert_eq!(
            parse(stat, 100, 4096),
            Some(Reading {
                cpu_seconds: 2.0,
                memory_bytes: 25 * 4096
            })
        );
        assert_eq!(parse("7 (a) S 1", 100, 4096), None);
        assert!(read(std::process::id()).unwrap().memory_bytes > 0);
    }

    #[test]
    fn usage_is_the_difference_of_two_readings() {
        let mut meter = Meter::default();
        let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let mut check = |seconds, cpu_seconds, expected: Option<&str>| {
            let usage = meter.measure(
                at(seconds),
                Reading {
                    cpu_seconds,
                    memory_bytes: 2048,
                },
            );
            assert_eq!(
                usage,
                expected.map(|cpu| Usage {
                    cpu: cpu.to_owned(),
                    memory: "2Ki".to_owned()
                })
            );
        };
        check(0, 1.0, None);
        check(10, 3.5, Some("250m"));
        check(20, 3.5, Some("1m"));
        check(30, 0.1, None);
        check(40, 0.2, Some("10m"));
    }
}
