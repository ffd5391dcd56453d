//! Replicas of cron schedules: `crane_autoscaling_cron`. The HPA's target is a value of one per
//! pod, so the value is the number of pods.

use std::collections::BTreeMap;

use model::{Labels, WorkloadRef};
use scaling::cron::{CronReplicas, Window, cron_replicas};
use view::{CronSchedule, Resource};

use super::scale::ScaleResult;
use super::snapshot::Snapshot;
use super::{CRON, LAST_GOOD_VALUE_FOR, missing, selector};
use crate::request::{ExternalMetricRequest, StatusError};
use crate::value::{ExternalValue, MilliValue};

const IDENTIFIER: &str = "cron";

/// The largest number of workloads whose replicas one request may read. An autoscaler requests one.
const MAX_IDLE: usize = 16;

/// A schedule that applies at the time of a snapshot.
struct Active<'a> {
    schedule: &'a CronSchedule,
    windows: Vec<Window>,
    /// Whether the workload keeps its replicas.
    is_idle: bool,
}

/// Returns the workloads whose replicas [`values`] needs: those without an open window and without
/// other metrics.
pub(super) fn idle_targets(
    snapshot: &Snapshot,
    request: &ExternalMetricRequest,
) -> Result<Vec<WorkloadRef>, StatusError> {
    let mut targets = Vec::new();
    for Active {
        schedule, is_idle, ..
    } in matching(snapshot, request)?
    {
        if is_idle && !targets.contains(&schedule.target) {
            targets.push(schedule.target.clone());
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
    for Active {
        schedule,
        windows,
        is_idle,
    } in matching(snapshot, request)?
    {
        let (target, min) = (&schedule.target, schedule.min_replicas);
        let kept = is_idle.then(|| size(target, sizes)).transpose()?;
        let replicas = cron_replicas(&windows, CronReplicas { min, kept }, snapshot.now);
        let most = found
            .entry(selector::labels(target, IDENTIFIER))
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
    request: &'a ExternalMetricRequest,
) -> Result<Vec<Active<'a>>, StatusError> {
    snapshot.ensure_fresh(Resource::Ehpas, CRON, LAST_GOOD_VALUE_FOR)?;
    let (candidates, winners) = selector::schedules(snapshot, request);
    let is_meant = |schedule: &&CronSchedule| {
        let labels = selector::labels(&schedule.target, IDENTIFIER);
        !schedule.crons.is_empty()
            && winners.is_winner(&schedule.contender())
            && request.selector.matches(&labels.iter().collect::<Labels>())
    };
    let candidates = candidates.into_iter().map(|schedule| &**schedule);
    let active = candidates.filter(is_meant).map(|schedule| {
        let windows = windows(schedule)?;
        let is_open = windows.iter().any(|window| window.is_open(snapshot.now));
        Ok(Active {
            schedule,
            windows,
            is_idle: !schedule.has_metrics && !is_open,
        })
    });
    active.collect()
}

fn windows(schedule: &CronSchedule) -> Result<Vec<Window>, StatusError> {
    let of = &schedule.key;
    // If the holidays cannot be parsed, windows open on every day, as the condition of the EHPA
    // says.
    let holidays = schedule.holidays.as_deref().unwrap_or_default();
    let windows = schedule.crons.iter().enumerate().map(|(index, cron)| {
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

/// Without a value, the HPA controller keeps the replicas too.
fn size(target: &WorkloadRef, sizes: &[ScaleResult]) -> Result<i32, StatusError> {
    let size = match sizes.iter().find(|(of, _)| of == target) {
        Some((_, size)) => size.as_ref().copied().map_err(String::as_str),
        None => Err("its replicas were not read"),
    };
    let error = |why| format!("no window is open, {target} keeps its replicas: {why}");
    size.map_err(|why| missing(CRON, error(why)))
}
