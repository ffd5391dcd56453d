//! Replicas of cron schedules: `crane_autoscaling_cron`. The HPA's target is a value of one per
//! pod, so the value is the number of pods.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{Labels, WorkloadRef};
use scaling::cron::{CronReplicas, Window, cron_replicas};
use view::{Eldest, Resource, Timetable};

use super::scale::ScaleResult;
use super::snapshot::Snapshot;
use super::{CRON, missing, series};
use crate::request::ExternalMetricRequest;
use crate::status_error::StatusError;
use crate::value::{ExternalValue, MilliValue};

/// The `resourceIdentifier` of cron schedules.
const IDENTIFIER: &str = "cron";

/// The largest number of workloads whose replicas one request may read. An autoscaler requests one.
const MAX_IDLE: usize = 16;

/// Returns the workloads whose replicas [`values`] needs: those without an open window and without
/// other metrics.
pub(super) fn idle_targets(
    snapshot: &Snapshot,
    request: &ExternalMetricRequest,
) -> Result<Vec<WorkloadRef>, StatusError> {
    let mut targets = Vec::new();
    for timetable in matching(snapshot, request)? {
        if is_idle(timetable, &windows(timetable)?, snapshot.now)
            && !targets.contains(&timetable.target)
        {
            targets.push(timetable.target.clone());
        }
    }
    if targets.len() > MAX_IDLE {
        let why =
            format!("more than {MAX_IDLE} workloads keep their replicas: select fewer of them");
        return Err(missing(CRON, why));
    }
    Ok(targets)
}

/// Returns one value per workload that the selector matches. `sizes`: the replicas of the workloads
/// without an open window.
pub(super) fn values(
    snapshot: &Snapshot,
    request: &ExternalMetricRequest,
    sizes: &[ScaleResult],
) -> Result<Vec<ExternalValue>, StatusError> {
    let mut found: BTreeMap<BTreeMap<String, String>, i32> = BTreeMap::new();
    for timetable in matching(snapshot, request)? {
        let replicas = replicas(snapshot, timetable, sizes)?;
        let most = found
            .entry(series::labels(&timetable.target, IDENTIFIER))
            .or_insert(replicas);
        *most = replicas.max(*most);
    }
    if found.is_empty() {
        let why =
            "there is no EffectiveHorizontalPodAutoscaler with crons that matches the selector";
        return Err(missing(CRON, why));
    }
    let value = |(labels, replicas): (_, i32)| ExternalValue {
        metric: CRON.to_owned(),
        labels,
        at: snapshot.now,
        window_seconds: None,
        value: MilliValue::from_milli(i64::from(replicas).saturating_mul(1000)),
    };
    Ok(found.into_iter().map(value).collect())
}

/// Returns the EHPAs with schedules that the selector matches; of several for one workload, only
/// the active one.
fn matching<'a>(
    snapshot: &'a Snapshot,
    request: &ExternalMetricRequest,
) -> Result<Vec<&'a Timetable>, StatusError> {
    snapshot.ensure_fresh(Resource::EffectiveAutoscalers, CRON, snapshot.grace)?;
    let candidates = series::candidates(
        &snapshot.view.timetables,
        &request.namespace,
        &request.selector,
    );
    let eldest: Eldest = candidates
        .iter()
        .map(|timetable| timetable.claim())
        .collect();
    let is_meant = |timetable: &&Timetable| {
        let labels = series::labels(&timetable.target, IDENTIFIER);
        !timetable.crons.is_empty()
            && eldest.has(&timetable.claim())
            && request.selector.matches(&labels.iter().collect::<Labels>())
    };
    Ok(candidates
        .into_iter()
        .map(|timetable| &**timetable)
        .filter(is_meant)
        .collect())
}

/// Returns the replicas of a schedule.
fn replicas(
    snapshot: &Snapshot,
    timetable: &Timetable,
    sizes: &[ScaleResult],
) -> Result<i32, StatusError> {
    let windows = windows(timetable)?;
    let kept = if is_idle(timetable, &windows, snapshot.now) {
        Some(size(&timetable.target, sizes)?)
    } else {
        None
    };
    Ok(cron_replicas(
        &windows,
        CronReplicas {
            min: timetable.min_replicas,
            kept,
        },
        snapshot.now,
    ))
}

fn windows(timetable: &Timetable) -> Result<Vec<Window>, StatusError> {
    let of = &timetable.key;
    // If the holidays cannot be parsed, windows open on every day, as the condition of the EHPA
    // says.
    let holidays = timetable.holidays.as_deref().unwrap_or_default();
    let windows = timetable.crons.iter().enumerate().map(|(index, cron)| {
        Window::new(
            cron.timezone.as_deref(),
            &cron.start,
            &cron.end,
            cron.target_replicas,
        )
        .map(|window| window.except(holidays.iter().copied()))
        .map_err(|error| missing(CRON, format_args!("crons[{index}] of {of}: {error}")))
    });
    windows.collect()
}

/// Whether the workload keeps its replicas.
fn is_idle(timetable: &Timetable, windows: &[Window], now: Timestamp) -> bool {
    !timetable.has_metrics && !windows.iter().any(|window| window.is_open(now))
}

/// Without a value, the autoscaler keeps the replicas too.
fn size(target: &WorkloadRef, sizes: &[ScaleResult]) -> Result<i32, StatusError> {
    let size = match sizes.iter().find(|(of, _)| of == target) {
        Some((_, size)) => size.as_ref().copied().map_err(String::as_str),
        None => Err("its replicas were not read"),
    };
    size.map_err(|why| {
        missing(
            CRON,
            format_args!("no window is open, {target} keeps its replicas: {why}"),
        )
    })
}
