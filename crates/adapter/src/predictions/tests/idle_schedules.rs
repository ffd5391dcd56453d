//! A workload without an open window keeps its replicas under the HPA controller, which reads both
//! replica counts itself.

use jiff::SignedDuration;
use testing::hpa::{Metric, ReadinessDelays, Reading, Tolerance, TotalTarget, Workload, combine};

use super::{cron, external, now, schedule, shop};

/// Returns the adapter's value for a workload of this size outside all windows in thousandths, or
/// the error.
fn answer(desired: i32, current: i32) -> Result<i64, String> {
    let name = format!("size-{desired}-{current}");
    let mut view = shop();
    let closed = cron("0 13 * * *", "0 17 * * *", 9);
    let schedule = schedule(&name, "Deployment", vec![closed], false);
    view.cron_schedules.apply(std::sync::Arc::new(schedule));
    let selector = format!("targetKind=Deployment,targetName={name},resourceIdentifier=cron");
    let values = external(view, "crane_autoscaling_cron", &selector)?.expect("it is ours");
    Ok(values
        .iter()
        .map(|value| value.parse::<i64>().expect("whole replicas") * 1000)
        .sum())
}

/// Returns the replicas that the HPA controller sets.
fn set(desired: i32, current: i32) -> i32 {
    let workload = Workload {
        pods: &[],
        spec_replicas: desired,
        status_replicas: current,
        tolerance: Tolerance::default(),
        delays: ReadinessDelays {
            cpu_initialization: SignedDuration::ZERO,
            initial_readiness: SignedDuration::ZERO,
        },
        now: now(),
    };
    let metric = Metric::External(TotalTarget::AverageMilli(1000));
    let proposal = answer(desired, current)
        .and_then(|milli| workload.propose(&metric, Reading::External(&[milli])));
    // Outside the bounds the controller does not read the metric.
    assert!((2..=1000).contains(&desired));
    combine(desired, &[proposal]).replicas.unwrap_or(desired)
}

#[test]
fn a_workload_keeps_its_size_while_another_number_of_pods_exists() {
    for desired in [2, 8, 10, 21, 105, 999] {
        for current in (desired - desired / 7 - 1)..=(desired + desired / 7 + 1) {
            assert_eq!(set(desired, current), desired, "{current} of {desired}");
        }
    }
    assert_eq!(answer(10, 10), Ok(10_000));
    let why = "the server could not find the metric crane_autoscaling_cron: no window is open, Deployment shop/size-10-11 keeps its \
               replicas: 11 of 10 pods exist";
    assert_eq!(answer(10, 11), Err(why.to_owned()));
}
