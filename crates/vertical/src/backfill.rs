//! Backfill of usage from before the start of the recommender, from Prometheus.
//!
//! * `progress`: which history is missing, and the order in which it is fetched.
//! * `rebuild`: what the recommender would know had it run all the time.

mod progress;
mod rebuild;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use jiff::Timestamp;
use model::{ContainerRef, Series};

pub(crate) use progress::BackfillProgress;
pub use progress::{FetchFailures, FetchRound, HistoryGap};
pub use rebuild::{PodLabels, Rebuild, RebuildStats, Resource};

/// Maximum number of points of one resource: 16 bytes each, 32 MB in total, or the history of 860
/// containers in steps of five minutes.
const MAX_POINTS: usize = 2_000_000;

/// Collected series.
#[derive(Debug, Default)]
pub(crate) struct OrderedSamples {
    series: Vec<CollectedSeries>,
    cpu_points: usize,
    memory_points: usize,
    pub(crate) omitted: usize,
}

#[derive(Debug)]
struct CollectedSeries {
    resource: Resource,
    container: ContainerRef,
    /// Nanoseconds since 1970, and values.
    points: Vec<(i64, f64)>,
}

impl OrderedSamples {
    /// Adds a series. One with which its resource would have too many points is left out.
    pub(crate) fn push(&mut self, resource: Resource, container: &ContainerRef, usage: &Series) {
        let count = match resource {
            Resource::Cpu => &mut self.cpu_points,
            Resource::Memory => &mut self.memory_points,
        };
        if *count + usage.points().len() > MAX_POINTS {
            self.omitted += 1;
            return;
        }
        *count += usage.points().len();
        let point = |(at, value): &(Timestamp, f64)| {
            let nanoseconds = i64::try_from(at.as_nanosecond()).ok()?;
            Some((nanoseconds, *value))
        };
        let mut points: Vec<_> = usage.points().iter().filter_map(point).collect();
        points.sort_by_key(|(at, _)| *at);
        self.series.push(CollectedSeries {
            resource,
            container: container.clone(),
            points,
        });
    }

    /// Passes all points in order of time; those of one time in the order of their series.
    pub(crate) fn for_each(&self, mut take: impl FnMut(Resource, &ContainerRef, Timestamp, f64)) {
        let time = |series: usize, index: usize| {
            let (at, _) = self.series.get(series)?.points.get(index)?;
            Some(Reverse((*at, series, index)))
        };
        let firsts = (0..self.series.len()).filter_map(|series| time(series, 0));
        let mut next: BinaryHeap<_> = firsts.collect();
        while let Some(Reverse((at, series, index))) = next.pop() {
            next.extend(time(series, index + 1));
            let found = &self.series[series];
            if let Ok(at) = Timestamp::from_nanosecond(i128::from(at)) {
                take(found.resource, &found.container, at, found.points[index].1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, container};

    fn push(samples: &mut OrderedSamples, resource: Resource, name: &str, seconds: &[i64]) {
        let points = seconds.iter().map(|second| (at(*second), *second as f64));
        samples.push(
            resource,
            &container("web-1", name),
            &Series::new(points.collect()),
        );
    }

    #[test]
    fn points_of_all_series_come_in_order_of_time() {
        let mut samples = OrderedSamples::default();
        push(&mut samples, Resource::Cpu, "a", &[1, 4, 5]);
        push(&mut samples, Resource::Cpu, "b", &[]);
        push(&mut samples, Resource::Memory, "a", &[1, 2, 6]);
        push(&mut samples, Resource::Memory, "b", &[3]);
        let mut found = Vec::new();
        samples.for_each(|resource, container, time, value| {
            assert_eq!(time, at(value as i64));
            found.push((value as i64, container.container.clone(), resource));
        });
        let expected = [
            (1, "a", Resource::Cpu),
            (1, "a", Resource::Memory),
            (2, "a", Resource::Memory),
            (3, "b", Resource::Memory),
            (4, "a", Resource::Cpu),
            (5, "a", Resource::Cpu),
            (6, "a", Resource::Memory),
        ];
        let expected = expected.map(|(second, name, resource)| (second, name.to_owned(), resource));
        assert_eq!(found, expected);
    }

    #[test]
    fn series_above_the_maximum_are_left_out() {
        let mut samples = OrderedSamples::default();
        let seconds: Vec<i64> = (0..500_000).collect();
        for name in ["a", "b", "c", "d", "e"] {
            push(&mut samples, Resource::Cpu, name, &seconds);
        }
        push(&mut samples, Resource::Memory, "e", &[1]);
        assert_eq!((samples.omitted, samples.series.len()), (1, 5));
    }
}
