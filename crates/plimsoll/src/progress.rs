//! Progress of work that can take a while, on the standard error where it is a terminal.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// A line with the number of these `things` that are done, which goes away at the end.
pub(crate) fn progress(length: usize, things: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{pos} of {len} {msg} {wide_bar} {eta}");
    ProgressBar::new(length as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(things)
        .with_finish(ProgressFinish::AndClear)
}
