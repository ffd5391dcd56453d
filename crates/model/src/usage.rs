//! Measured usage: of one container at one time, and series of values.

use jiff::Timestamp;

use crate::{ContainerRef, Cpu, Memory};

/// Usage of one container at one time. A resource that was not measured is `None`, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time of the measurement (end of its window).
    pub at: Timestamp,
    pub cpu: Option<Cpu>,
    pub memory: Option<Memory>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerUsage {
    pub container: ContainerRef,
    pub sample: Sample,
}

/// Values over time, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    points: Vec<(Timestamp, f64)>,
}

impl Series {
    /// Sorts the points by time; of points at the same time the last one is kept.
    pub fn new(mut points: Vec<(Timestamp, f64)>) -> Self {
        points.sort_by_key(|(at, _)| *at);
        points.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = later.1;
            }
            same
        });
        Self { points }
    }

    /// The points, oldest first.
    pub fn points(&self) -> &[(Timestamp, f64)] {
        &self.points
    }

    /// The times, oldest first.
    pub fn timestamps(&self) -> impl ExactSizeIterator<Item = Timestamp> + '_ {
        self.points.iter().map(|(at, _)| *at)
    }

    /// The values, oldest first.
    pub fn values(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.points.iter().map(|(_, value)| *value)
    }

    pub fn len(&self) -> usize {
        self.points.len()
    }

    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_in_the_order_of_time_and_keeps_the_last_value_of_a_time() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let series = Series::new(vec![(at(3), 3.0), (at(1), 1.0), (at(3), 4.0)]);
        assert_eq!(series.points(), [(at(1), 1.0), (at(3), 4.0)]);
    }
}
