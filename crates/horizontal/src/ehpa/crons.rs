//! Replicas of cron schedules, and the checks that the schema cannot express: time zones, cron
//! fields, and names that differ only in case.

use std::collections::BTreeSet;

use api::ehpa::{CronSpec, EffectiveHorizontalPodAutoscaler, holidays};
use jiff::Timestamp;
use kube::ResourceExt as _;
use scaling::cron::{CronReplicas, Window, cron_replicas, metric_name};

use super::Problem;
use super::names::{TARGET_UNNAMEABLE, is_label_value};
use super::reasons::{INVALID_CRON, INVALID_HOLIDAYS};

/// The error of the first invalid cron.
pub(super) fn problem(object: &EffectiveHorizontalPodAutoscaler) -> Option<Problem> {
    let namespace = object.namespace().unwrap_or_default();
    let mut names = BTreeSet::new();
    if !object.spec.crons.is_empty() && !is_label_value(&object.spec.scale_target_ref.name) {
        return Some(Problem::new(
            INVALID_CRON,
            format!("crons: {TARGET_UNNAMEABLE}"),
        ));
    }
    object
        .spec
        .crons
        .iter()
        .enumerate()
        .find_map(|(index, cron)| {
            let CronSpec {
                name,
                timezone,
                start,
                end,
                target_replicas,
                ..
            } = cron;
            let wrong = |what: &str| {
                Some(Problem::new(
                    INVALID_CRON,
                    format!("crons[{index}] ({name}): {what}"),
                ))
            };
            if let Err(error) = Window::new(timezone.as_deref(), start, end, *target_replicas) {
                return wrong(&error.to_string());
            }
            let zone = timezone.as_deref().unwrap_or_default();
            let is_new = names.insert(metric_name(
                &namespace,
                &object.name_any(),
                name,
                zone,
                start,
                end,
            ));
            if is_new {
                None
            } else {
                wrong("another cron has the same name except for upper and lower case, and the same times")
            }
        })
}

/// Replicas of the cron schedules at a time; `None` if one is invalid or the current replicas are
/// unknown.
pub(crate) fn replicas(object: &EffectiveHorizontalPodAutoscaler, now: Timestamp) -> Option<i32> {
    // Without valid holidays schedules apply every day.
    let (spec, holidays) = (&object.spec, holidays(object).unwrap_or_default());
    let windows = spec.crons.iter().map(|cron| {
        let window = Window::new(
            cron.timezone.as_deref(),
            &cron.start,
            &cron.end,
            cron.target_replicas,
        )
        .ok()?;
        Some(window.except(holidays.iter().copied()))
    });
    let windows: Vec<Window> = windows.collect::<Option<_>>()?;
    let is_alone = spec.metrics.is_empty() && !windows.iter().any(|window| window.is_open(now));
    let kept = if is_alone {
        Some(object.status.as_ref()?.current_replicas?)
    } else {
        None
    };
    Some(cron_replicas(
        &windows,
        CronReplicas {
            min: spec.effective_min_replicas(),
            kept,
        },
        now,
    ))
}

/// The error of the holidays. Schedules then apply every day: spare capacity harms less than
/// missing capacity.
pub(super) fn holiday_problem(object: &EffectiveHorizontalPodAutoscaler) -> Option<Problem> {
    let error = holidays(object)
        .err()
        .filter(|_| !object.spec.crons.is_empty())?;
    Some(Problem::new(
        INVALID_HOLIDAYS,
        format!("{error}; windows open on every day until the annotation is corrected"),
    ))
}
