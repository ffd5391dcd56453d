//! Replicas that windows of time ask for: `crane_autoscaling_cron`. The autoscaler wants one of this per pod, and so as many pods.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{ObjectKey, Resource, Timetable, WellKnown};
use model::{Labels, WorkloadRef};
use scaling::cron::{CronReplicas, Window, cron_replicas};

use super::known::Known;
use super::{CRON, missing, series};
use crate::answer::{ExternalValue, MilliValue};
use crate::ask::ExternalAsk;
use crate::refusal::Refusal;

/// What windows of time are called among the metrics of a workload.
const IDENTIFIER: &str = "cron";

/// One value per workload that the selector means: what most of its autoscalers' windows ask for.
pub(super) fn values(known: &Known, ask: &ExternalAsk) -> Result<Vec<ExternalValue>, Refusal> {
    known.rely_on(Resource::EffectiveAutoscalers, CRON, known.grace)?;
    let mut found: BTreeMap<BTreeMap<String, String>, i32> = BTreeMap::new();
    for timetable in series::candidates(&known.view.timetables, &ask.namespace, &ask.selector) {
        let labels = series::labels(&timetable.target, IDENTIFIER);
        if timetable.crons.is_empty() || !ask.selector.matches(&labels.iter().collect::<Labels>()) {
            continue;
        }
        let replicas = replicas(known, timetable)?;
        let most = found.entry(labels).or_insert(replicas);
        *most = replicas.max(*most);
    }
    if found.is_empty() {
        let why = "there is no EffectiveHorizontalPodAutoscaler with crons that matches the selector";
        return Err(missing(CRON, why));
    }
    let value = |(labels, replicas): (_, i32)| ExternalValue {
        metric: CRON.to_owned(),
        labels,
        at: known.now,
        window_seconds: None,
        value: MilliValue::from_milli(i64::from(replicas).saturating_mul(1000)),
    };
    Ok(found.into_iter().map(value).collect())
}

/// How many replicas the windows of one autoscaler ask for.
fn replicas(known: &Known, timetable: &Timetable) -> Result<i32, Refusal> {
    let now = known.now;
    let of = &timetable.key;
    // Where they cannot be read windows open on every day, as the condition of the object says.
    let holidays = timetable.holidays.as_deref().unwrap_or_default();
    let windows = timetable.crons.iter().enumerate().map(|(index, cron)| {
        Window::new(cron.timezone.as_deref(), &cron.start, &cron.end, cron.target_replicas)
            .map(|window| window.except(holidays.iter().copied()))
            .map_err(|error| missing(CRON, format_args!("crons[{index}] of {of}: {error}")))
    });
    let windows: Vec<Window> = windows.collect::<Result<_, _>>()?;
    let is_alone = !timetable.has_metrics && !windows.iter().any(|window| window.is_open(now));
    let kept = if is_alone { Some(current_replicas(known, &timetable.target)?) } else { None };
    Ok(cron_replicas(&windows, CronReplicas { min: timetable.min_replicas, kept }, now))
}

/// How many replicas a workload is configured to have. An old answer would undo what somebody did since, and no answer makes the autoscaler keep
/// what there is, too.
fn current_replicas(known: &Known, target: &WorkloadRef) -> Result<i32, Refusal> {
    let unknown = |why: &str| missing(CRON, format_args!("no window is open, {target} keeps its replicas: {why}"));
    let kind = WellKnown::of_kind(&target.kind)
        .filter(|kind| matches!(kind, WellKnown::Deployment | WellKnown::StatefulSet))
        .ok_or_else(|| unknown("objects of its kind are not watched"))?;
    known.rely_on(Resource::Controllers(kind), CRON, Duration::ZERO)?;
    let controller = known.view.controller(kind, &ObjectKey::new(&target.namespace, &target.name));
    controller.and_then(|controller| controller.replicas).ok_or_else(|| unknown("it is not there"))
}
