//! The native HPA of one workload, with a measured and a predicted metric.
//!
//! Every 15 seconds: pods become ready, the HPA makes one pass with the newest values, and the
//! demand of the minute is compared with the capacity of the ready pods. Both metrics are external
//! with a target per pod, so unlike a measured CPU usage they show demand above the capacity.

use super::Demand;
use super::pods::Pods;
use crate::hpa::{Bounds, Hpa, proposal};
use crate::series::timestamp;

/// Time between two passes of the HPA in seconds.
const SYNC: i64 = 15;
/// Time from a value's measurement to its use by a prediction, beyond the lag of the metric, in
/// seconds.
const FORECAST: i64 = 15;
/// Two changes in opposite directions within this time are an oscillation, in seconds.
const OSCILLATION: i64 = 600;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Autoscaler {
    /// Time from a pod's creation until it is ready, in seconds.
    pub ready_seconds: i64,
    /// Time from the end of a minute until its demand can be read, in seconds.
    pub lag_seconds: i64,
    /// Target of both metrics as a share of a pod's capacity.
    pub target: f64,
    /// Whether the HPA has the measured metric.
    pub is_measured: bool,
    pub bounds: Bounds,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    pub minutes: f64,
    pub violations: f64,
    /// Demand above the capacity of the ready pods, in pod-minutes.
    pub shortage: f64,
    pub pod_minutes: f64,
    /// Changes of the number of replicas.
    pub scalings: f64,
    /// Changes within ten minutes after one in the opposite direction.
    pub oscillations: f64,
}

impl Score {
    pub fn pods(&self) -> f64 {
        self.pod_minutes / self.minutes
    }
}

impl Autoscaler {
    /// Replays the minutes of a range, which are scored, after a day that is not. `predicted` has
    /// the value of the predicted metric after each number of minutes.
    pub fn run(
        &self,
        demand: &Demand,
        predicted: Option<&[Option<f64>]>,
        scored: std::ops::Range<usize>,
    ) -> Score {
        let first = scored.start.saturating_sub(24 * 60);
        let start = demand.start + 60 * first as i64;
        let end = demand.start + 60 * scored.end as i64;
        let at_start = demand.minutes[first].unwrap_or(1.0) / self.target;
        let mut pods =
            Pods::ready((at_start.ceil() as i32).clamp(self.bounds.min, self.bounds.max));
        let mut hpa = Hpa::new(self.bounds, pods.count(), timestamp(start));
        let (mut score, mut last_change) = (Score::default(), None);
        for now in (start..end).step_by(SYNC as usize) {
            let known = |lag: i64| usize::try_from((now - lag - demand.start).div_euclid(60)).ok();
            let mut values = Vec::new();
            if self.is_measured {
                let newest = known(self.lag_seconds).and_then(|minutes| minutes.checked_sub(1));
                values.push(newest.and_then(|minute| *demand.minutes.get(minute)?));
            }
            if let Some(predicted) = predicted {
                let minutes = known(self.lag_seconds + FORECAST);
                values.push(minutes.and_then(|minutes| *predicted.get(minutes)?));
            }
            let current = pods.count();
            let propose = |value: &Option<f64>| {
                let [total, target] =
                    [(*value)?, self.target].map(|it| (it * 1000.0).round() as i64);
                Some(proposal(total, target, current))
            };
            let proposals: Vec<_> = values.iter().map(propose).collect();
            let replicas = hpa.pass(current, timestamp(now), &proposals);
            pods.scale(replicas, now + self.ready_seconds);
            let minute = ((now - demand.start) / 60) as usize;
            let ready = f64::from(pods.ready_at(now));
            if minute < scored.start {
                continue;
            }
            if replicas != current {
                let up = replicas > current;
                let is_reversal =
                    last_change.is_some_and(|(at, was_up)| was_up != up && now - at <= OSCILLATION);
                last_change = Some((now, up));
                score.scalings += 1.0;
                score.oscillations += f64::from(u8::from(is_reversal));
            }
            let Some(demand) = demand.minutes[minute] else {
                continue;
            };
            let share = SYNC as f64 / 60.0;
            score.minutes += share;
            score.pod_minutes += share * f64::from(replicas);
            score.shortage += share * (demand - ready).max(0.0);
            if demand > ready {
                score.violations += share;
            }
        }
        score
    }
}
