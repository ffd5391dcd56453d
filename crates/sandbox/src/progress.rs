//! Progress of a build: a bar on a terminal, a line every half minute elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time between two lines where there is no terminal.
const PLAIN_INTERVAL: Duration = Duration::from_secs(30);
/// Time before the first estimate: the first packages are small.
const FIRST_ESTIMATE: Duration = Duration::from_secs(20);
/// Linking one program takes about as long as compiling this many packages.
const PACKAGES_PER_LINK: usize = 25;

pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    announced: Instant,
    started: Instant,
    last_line: Instant,
    work: Work,
}

/// Compiled packages, and what is left.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    compiled: usize,
    /// Packages to compile and programs to link, once known.
    expected: Option<(usize, usize)>,
}

impl Work {
    /// The share of the work that is done, 0 to 1: linking follows compiling, and is not reported.
    fn share(self) -> Option<f64> {
        let (packages, programs) = self.expected?;
        let total = packages + programs * PACKAGES_PER_LINK;
        (total > 0).then(|| self.compiled.min(packages) as f64 / total as f64)
    }

    /// Time that is left, if the rest goes as fast as the part that is done.
    fn remaining(self, elapsed: Duration) -> Option<Duration> {
        let share = self.share().filter(|share| *share > 0.0)?;
        (elapsed >= FIRST_ESTIMATE).then(|| elapsed.mul_f64((1.0 - share) / share))
    }

    fn describe(self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs();
        let Some((packages, programs)) = self.expected else {
            return format!("{seconds} s");
        };
        let left = match self.remaining(elapsed) {
            _ if self.compiled >= packages => format!("linking {programs} programs"),
            Some(left) if left < Duration::from_mins(1) => "less than a minute left".to_owned(),
            Some(left) => format!("about {} min left", left.as_secs().div_ceil(60)),
            None => "estimating".to_owned(),
        };
        let compiled = self.compiled.min(packages);
        format!("{compiled} of {packages} packages, {seconds} s, {left}")
    }
}

impl Progress {
    pub(crate) fn start(what: &str) -> Self {
        eprintln!("{what}");
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_style(style("{spinner} {wide_msg}"));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let now = Instant::now();
        Self {
            bar,
            announced: now,
            started: now,
            last_line: now,
            work: Work::default(),
        }
    }

    /// Sets the number of packages to compile and of programs to link. Steps count from here.
    pub(crate) fn expect(&mut self, packages: usize, programs: usize) {
        self.started = Instant::now();
        self.work = Work {
            compiled: 0,
            expected: Some((packages, programs)),
        };
        if let Some(bar) = &self.bar {
            bar.set_length(1000);
            bar.set_style(style("{bar:30} {percent:>3}% {wide_msg}"));
        }
    }

    pub(crate) fn step(&mut self, package: &str) {
        self.work.compiled += 1;
        let status = self.work.describe(self.started.elapsed());
        if let (Some(bar), Some(share)) = (&self.bar, self.work.share()) {
            bar.set_position((share * 1000.0) as u64);
            bar.set_message(format!("{status} ({package})"));
        } else {
            self.show(&status);
        }
    }

    pub(crate) fn show(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None if self.last_line.elapsed() >= PLAIN_INTERVAL => {
                self.last_line = Instant::now();
                eprintln!("  {what}");
            }
            None => {}
        }
    }

    pub(crate) fn done(self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        eprintln!("{what} ({:.1} s)", self.announced.elapsed().as_secs_f64());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(compiled: usize, seconds: u64, expected: &str) {
        let work = Work {
            compiled,
            expected: Some((950, 2)),
        };
        assert_eq!(work.describe(Duration::from_secs(seconds)), expected);
    }

    #[test]
    fn the_estimate_grows_with_what_is_left() {
        check(10, 5, "10 of 950 packages, 5 s, estimating");
        check(100, 60, "100 of 950 packages, 60 s, about 9 min left");
        check(500, 300, "500 of 950 packages, 300 s, about 5 min left");
        check(
            940,
            564,
            "940 of 950 packages, 564 s, less than a minute left",
        );
    }

    #[test]
    fn linking_comes_last() {
        check(950, 600, "950 of 950 packages, 600 s, linking 2 programs");
        check(960, 600, "950 of 950 packages, 600 s, linking 2 programs");
    }

    #[test]
    fn without_a_number_of_packages_only_the_time_is_shown() {
        let work = Work::default();
        assert_eq!(work.describe(Duration::from_secs(40)), "40 s");
        assert_eq!(work.remaining(Duration::from_secs(40)), None);
    }
}
