//! Replicas that windows of time ask for: `crane_autoscaling_cron`. The autoscaler wants one of
//! this per pod, and so as many pods.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{Labels, WorkloadRef};
use scaling::cron::{CronReplicas, Window, cron_replicas};
use view::{CronSchedule, OldestWins, Resource};

use super::known::Known;
use super::size::Size;
use super::{CRON, missing, series};
use crate::answer::{ExternalValue, MilliValue};
use crate::ask::ExternalAsk;
use crate::refusal::Refusal;

/// What windows of time are called among the metrics of a workload.
const IDENTIFIER: &str = "cron";

/// More workloads than this are not asked for their sizes at once. An autoscaler asks about one.
const MOST_KEPT: usize = 16;

/// The workloads whose sizes [`values`] needs: nothing else scales them, and no window is open.
pub(super) fn kept(known: &Known, ask: &ExternalAsk) -> Result<Vec<WorkloadRef>, Refusal> {
    let mut kept = Vec::new();
    for schedule in meant(known, ask)? {
        if is_alone(schedule, &windows(schedule)?, known.now) && !kept.contains(&schedule.target) {
            kept.push(schedule.target.clone());
        }
    }
    if kept.len() > MOST_KEPT {
        let why =
            format!("more than {MOST_KEPT} workloads keep their replicas: ask about fewer at once");
        return Err(missing(CRON, why));
    }
    Ok(kept)
}

/// One value per workload that the selector means: what the windows of its autoscaler ask for.
/// `sizes`: of those that keep what they have.
pub(super) fn values(
    known: &Known,
    ask: &ExternalAsk,
    sizes: &[Size],
) -> Result<Vec<ExternalValue>, Refusal> {
    let mut found: BTreeMap<BTreeMap<String, String>, i32> = BTreeMap::new();
    for schedule in meant(known, ask)? {
        let replicas = replicas(known, schedule, sizes)?;
        let most = found
            .entry(series::labels(&schedule.target, IDENTIFIER))
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
        at: known.now,
        window_seconds: None,
        value: MilliValue::from_milli(i64::from(replicas).saturating_mul(1000)),
    };
    Ok(found.into_iter().map(value).collect())
}

/// The autoscalers with windows that the selector means; of several for one workload only the one that scales it.
fn meant<'a>(known: &'a Known, ask: &ExternalAsk) -> Result<Vec<&'a CronSchedule>, Refusal> {
    known.rely_on(Resource::Ehpas, CRON, known.grace)?;
    let candidates = series::candidates(&known.view.cron_schedules, &ask.namespace, &ask.selector);
    let winners: OldestWins = candidates
        .iter()
        .map(|schedule| schedule.contender())
        .collect();
    let is_meant = |schedule: &&CronSchedule| {
        let labels = series::labels(&schedule.target, IDENTIFIER);
        !schedule.crons.is_empty()
            && winners.is_winner(&schedule.contender())
            && ask.selector.matches(&labels.iter().collect::<Labels>())
    };
    Ok(candidates
        .into_iter()
        .map(|schedule| &**schedule)
        .filter(is_meant)
        .collect())
}

/// How many replicas the windows of one autoscaler ask for.
fn replicas(known: &Known, schedule: &CronSchedule, sizes: &[Size]) -> Result<i32, Refusal> {
    let windows = windows(schedule)?;
    let kept = if is_alone(schedule, &windows, known.now) {
        Some(size(&schedule.target, sizes)?)
    } else {
        None
    };
    Ok(cron_replicas(
        &windows,
        CronReplicas {
            min: schedule.min_replicas,
            kept,
        },
        known.now,
    ))
}

fn windows(schedule: &CronSchedule) -> Result<Vec<Window>, Refusal> {
    let of = &schedule.key;
    // Where they cannot be read windows open on every day, as the condition of the object says.
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

/// Whether a workload keeps what it has.
fn is_alone(schedule: &CronSchedule, windows: &[Window], now: Timestamp) -> bool {
    !schedule.has_metrics && !windows.iter().any(|window| window.is_open(now))
}

/// No answer makes the autoscaler keep what there is, too.
fn size(target: &WorkloadRef, sizes: &[Size]) -> Result<i32, Refusal> {
    let size = match sizes.iter().find(|(of, _)| of == target) {
        Some((_, size)) => size.as_ref().copied().map_err(String::as_str),
        None => Err("nobody was asked how many there are"),
    };
    size.map_err(|why| {
        missing(
            CRON,
            format_args!("no window is open, {target} keeps its replicas: {why}"),
        )
    })
}
