//! Percent of requests as an amount per pod: the native autoscaler divides a predicted total by an amount, not by a percentage.
//!
//! `sum of requests * percent / 100 / number of pods`, in thousandths, cut to a whole one. Source: gocrane/crane
//! `pkg/controller/ehpa/hpa.go` (`GetPodResourceUtilization`); unlike there every running pod counts, ready or not: what a pod requests does not
//! depend on it.

use std::sync::Arc;

use cluster::{Container, Phase, Pod};
use model::{Cpu, Quantity, ResourceName};

/// The amount that is so many percent of what one of these pods, or one container of each, requests on average.
pub(super) fn per_pod(
    pods: &[Arc<Pod>],
    resource: &ResourceName,
    container: Option<&str>,
    percent: i32,
) -> Result<Quantity, String> {
    let running: Vec<_> = pods.iter().filter(|pod| pod.phase == Phase::Running).collect();
    let mut sum_milli = 0_i128;
    for pod in &running {
        let mut containers =
            pod.containers.iter().filter(|each| container.is_none_or(|name| each.name == name)).peekable();
        if let (None, Some(name)) = (containers.peek(), container) {
            return Err(format!("container {name} not found in Pod {}", pod.key.name));
        }
        for container in containers {
            let request = milli(container, resource).ok_or_else(|| {
                format!("missing request for {resource} in container {} of Pod {}", container.name, pod.key.name)
            })?;
            sum_milli += i128::from(request);
        }
    }
    let count = i128::try_from(running.len()).unwrap_or(i128::MAX);
    let average =
        (sum_milli * i128::from(percent)).checked_div(count * 100).ok_or("no pod of the target is running")?;
    match i64::try_from(average) {
        Ok(average @ 1..) => Ok(Quantity::from_milli(average)),
        _ => Err(format!("{percent} percent of the requests for {resource} is no amount")),
    }
}

fn milli(container: &Container, resource: &ResourceName) -> Option<i64> {
    match resource {
        ResourceName::Cpu => container.requests.cpu.map(Cpu::millicores),
        ResourceName::Memory => container.requests.memory.and_then(|memory| memory.bytes().checked_mul(1000)),
        ResourceName::Other(_) => None,
    }
}
