//! Replicas of cron schedules, and the checks that the schema cannot express: time zones, cron
//! fields, and names that differ only in case.

use std::collections::BTreeSet;

use api::ehpa::{CronSpec, EffectiveHorizontalPodAutoscaler, holidays};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use model::is_label_value;
use scaling::cron::{CronReplicas, Period, Window, WindowError, cron_replicas, metric_name};

use super::Problem;
use super::names::TARGET_UNNAMEABLE;
use super::reasons::{INVALID_CRON, INVALID_HOLIDAYS};

/// Time for which the condition shows the windows, and their maximum number.
const SHOWN_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);
const SHOWN_PERIODS: usize = 14;

/// The error of the first invalid cron.
pub(super) fn problem(object: &EffectiveHorizontalPodAutoscaler) -> Option<Problem> {
    let namespace = object.namespace().unwrap_or_default();
    let mut names = BTreeSet::new();
    if !object.spec.crons.is_empty() && !is_label_value(&object.spec.scale_target_ref.name) {
        let message = format!("crons: {TARGET_UNNAMEABLE}");
        return Some(Problem::new(INVALID_CRON, message));
    }
    let mut wrong = |cron: &CronSpec| {
        let window = match window(cron) {
            Ok(window) => window,
            Err(error) => return Some(error.to_string()),
        };
        if let Some(why) = window.never_opens() {
            return Some(why.to_owned());
        }
        let CronSpec {
            name, start, end, ..
        } = cron;
        let zone = cron.timezone.as_deref().unwrap_or_default();
        let metric = metric_name(&namespace, &object.name_any(), name, zone, start, end);
        (!names.insert(metric)).then(|| {
            "another cron has the same name except for upper and lower case, and the same times"
                .to_owned()
        })
    };
    let mut crons = object.spec.crons.iter().enumerate();
    crons.find_map(|(index, cron)| {
        let message = format!("crons[{index}] ({}): {}", cron.name, wrong(cron)?);
        Some(Problem::new(INVALID_CRON, message))
    })
}

fn window(cron: &CronSpec) -> Result<Window, WindowError> {
    let CronSpec { start, end, .. } = cron;
    Window::new(cron.timezone.as_deref(), start, end, cron.target_replicas)
}

/// The windows of all schedules; `None` if one is invalid.
fn windows(object: &EffectiveHorizontalPodAutoscaler) -> Option<Vec<Window>> {
    // Without valid holidays schedules apply every day.
    let holidays = holidays(object).unwrap_or_default();
    let windows = object.spec.crons.iter().map(window);
    let windows = windows.map(|window| Some(window.ok()?.except(holidays.iter().copied())));
    windows.collect()
}

/// Whether a schedule is open, and the times in which they are within seven days. `None` without
/// schedules, and if one is invalid.
pub(super) fn upcoming(
    object: &EffectiveHorizontalPodAutoscaler,
    now: Timestamp,
) -> Option<(bool, String)> {
    let windows = windows(object).filter(|windows| !windows.is_empty())?;
    let until = now.checked_add(SHOWN_FOR).ok()?;
    let mut periods: Vec<(Period, &CronSpec)> = Vec::new();
    for (window, cron) in windows.iter().zip(&object.spec.crons) {
        let of_window = window.periods(now, until, SHOWN_PERIODS);
        periods.extend(of_window.into_iter().map(|period| (period, cron)));
    }
    periods.sort_by(|(one, _), (other, _)| one.from.cmp(&other.from));
    let shown = periods.iter().take(SHOWN_PERIODS).map(|(period, cron)| {
        let Period { from, to } = period;
        let to = match to {
            Some(to) if to.date() == from.date() => to.strftime("%H:%M").to_string(),
            Some(to) => to.strftime("%a %F %H:%M").to_string(),
            None => "later".to_owned(),
        };
        let (from, zone) = (from.strftime("%a %F %H:%M"), from.strftime("%Z"));
        let (name, replicas) = (&cron.name, cron.target_replicas);
        format!("{from} to {to} {zone}: {name}, {replicas} replicas")
    });
    let shown: Vec<String> = shown.collect();
    let text = if shown.is_empty() {
        "No schedule opens within seven days".to_owned()
    } else {
        shown.join("; ")
    };
    Some((windows.iter().any(|window| window.is_open(now)), text))
}

/// Replicas of the cron schedules at a time; `None` if one is invalid or the current replicas are
/// unknown.
pub(crate) fn replicas(object: &EffectiveHorizontalPodAutoscaler, now: Timestamp) -> Option<i32> {
    let (spec, windows) = (&object.spec, windows(object)?);
    let is_alone = spec.metrics.is_empty() && !windows.iter().any(|window| window.is_open(now));
    let kept = if is_alone {
        Some(object.status.as_ref()?.current_replicas?)
    } else {
        None
    };
    let min = spec.effective_min_replicas();
    Some(cron_replicas(&windows, CronReplicas { min, kept }, now))
}

/// The error of the holidays. Schedules then apply every day: spare capacity harms less than
/// missing capacity.
pub(super) fn holiday_problem(object: &EffectiveHorizontalPodAutoscaler) -> Option<Problem> {
    let error = holidays(object).err();
    let error = error.filter(|_| !object.spec.crons.is_empty())?;
    let message = format!("{error}; windows open on every day until the annotation is corrected");
    Some(Problem::new(INVALID_HOLIDAYS, message))
}
