//! Whether windows of time can be understood. What the schema cannot check is said here: time zones, the fields of crons, and names that differ
//! by their case alone.

use std::collections::BTreeSet;

use api::effective_hpa::{CronSpec, EffectiveHorizontalPodAutoscaler, holidays};
use kube::ResourceExt as _;
use scaling::cron::{Window, metric_name};

use super::Problem;

/// What is wrong with the first window that cannot be understood.
pub(super) fn problem(object: &EffectiveHorizontalPodAutoscaler) -> Option<Problem> {
    let namespace = object.namespace().unwrap_or_default();
    let mut names = BTreeSet::new();
    object.spec.crons.iter().enumerate().find_map(|(index, cron)| {
        let CronSpec { name, timezone, start, end, target_replicas, .. } = cron;
        let wrong = |what: &str| Some(Problem::new("InvalidCron", format!("crons[{index}] ({name}): {what}")));
        if let Err(error) = Window::new(timezone.as_deref(), start, end, *target_replicas) {
            return wrong(&error.to_string());
        }
        let zone = timezone.as_deref().unwrap_or_default();
        let is_new = names.insert(metric_name(&namespace, &object.name_any(), name, zone, start, end));
        if is_new { None } else { wrong("another one has the same name, but for its case, and the same times") }
    })
}

/// What is wrong with the holidays. Windows then open on every day: capacity that is not needed harms less than capacity that is missing.
pub(super) fn holiday_problem(object: &EffectiveHorizontalPodAutoscaler) -> Option<Problem> {
    let error = holidays(object).err().filter(|_| !object.spec.crons.is_empty())?;
    Some(Problem::new("InvalidHolidays", format!("{error}; windows open on every day until it is put right")))
}
