//! A declared difference from upstream: memory windows that begin with a sample of exactly 0.
//!
//! Upstream takes a peak of 0 for "no peak yet" and ignores every later sample and OOM kill of that
//! window, so the peak of a whole day is lost (`container.go`, `addMemorySample`:
//! `oldMaxMem != 0`). Here the higher peak counts. The recordings keep upstream's answers: in such
//! a window, and nowhere else, the cluster state is given what upstream makes of its input.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use model::{ContainerRef, Sample};

/// The open memory window of each container.
#[derive(Default)]
pub(crate) struct ZeroWindows(HashMap<ContainerRef, Window>);

struct Window {
    end: Timestamp,
    last: Timestamp,
    begins_with_zero: bool,
}

impl ZeroWindows {
    /// Whether upstream accepts the memory of a sample that it adds nothing for: one in the rest of
    /// a window that begins with 0. None for all other samples.
    pub(crate) fn upstream_ignores(
        &mut self,
        container: &ContainerRef,
        sample: &Sample,
        interval_ns: i64,
    ) -> Option<bool> {
        let bytes = sample.memory?.bytes();
        let open = self.0.get(container);
        if bytes < 0 || open.is_some_and(|window| sample.at < window.last) {
            return open.filter(|window| window.begins_with_zero).map(|_| false);
        }
        let is_first = open.is_none_or(|window| sample.at >= window.end);
        let window = self.window(container, sample.at, interval_ns, bytes == 0);
        (window.begins_with_zero && !is_first).then_some(true)
    }

    /// Whether upstream takes notice of an OOM kill and adds no peak for it.
    pub(crate) fn upstream_ignores_kill(
        &mut self,
        container: &ContainerRef,
        at: Timestamp,
        interval_ns: i64,
    ) -> bool {
        let interval = SignedDuration::from_nanos(interval_ns);
        if self
            .0
            .get(container)
            .is_some_and(|window| at < window.last - interval)
        {
            return false;
        }
        self.window(container, at, interval_ns, false)
            .begins_with_zero
    }

    pub(crate) fn forget_pod(&mut self, pod: &str) {
        self.0.retain(|container, _| container.pod != pod);
    }

    /// The window of a sample, opened if the one before is over.
    fn window(
        &mut self,
        container: &ContainerRef,
        at: Timestamp,
        interval_ns: i64,
        is_zero: bool,
    ) -> &Window {
        let first = Window {
            end: at,
            last: at,
            begins_with_zero: false,
        };
        let window = self.0.entry(container.clone()).or_insert(first);
        window.last = at;
        if at >= window.end {
            let whole = at.duration_since(window.end).as_nanos() / i128::from(interval_ns) + 1;
            window.end += SignedDuration::from_nanos_i128(whole * i128::from(interval_ns));
            window.begins_with_zero = is_zero;
        }
        window
    }
}
