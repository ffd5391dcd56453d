//! Tells the person who waits what is going on: a spinner on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a plain log hears that something still goes on.
const PLAIN_INTERVAL: Duration = Duration::from_secs(30);

/// One piece of work that takes a while.
pub(crate) struct Progress {
    spinner: Option<ProgressBar>,
    started: Instant,
    last_line: Instant,
}

impl Progress {
    /// Announces the work.
    pub(crate) fn start(what: &str) -> Self {
        let now = Instant::now();
        let spinner = stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{spinner} {prefix} {wide_msg:.dim} {elapsed}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner());
            let spinner = ProgressBar::new_spinner()
                .with_style(style)
                .with_prefix(what.to_owned());
            spinner.enable_steady_tick(Duration::from_millis(120));
            spinner
        });
        if spinner.is_none() {
            eprintln!("{what}");
        }
        Self {
            spinner,
            started: now,
            last_line: now,
        }
    }

    /// Something small happened.
    pub(crate) fn step(&mut self, what: &str) {
        match &self.spinner {
            Some(spinner) => spinner.set_message(what.to_owned()),
            None if self.last_line.elapsed() >= PLAIN_INTERVAL => {
                self.last_line = Instant::now();
                eprintln!("  {what} ({} s so far)", self.started.elapsed().as_secs());
            }
            None => {}
        }
    }

    /// The work is done.
    pub(crate) fn done(self, what: &str) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
        eprintln!("{what} ({:.1} s)", self.started.elapsed().as_secs_f64());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}
