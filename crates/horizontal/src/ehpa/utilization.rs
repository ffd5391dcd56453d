//! Target utilization as an amount per pod: the HPA divides a predicted total by an amount, not by
//! a percentage.
//!
//! `sum of requests * percent / 100 / number of pods`, in thousandths, rounded down. The request of
//! a pod is the one that the HPA controller uses: the pod-level request if set, else the sum of its
//! containers and native sidecars. Source: gocrane/crane `pkg/controller/ehpa/hpa.go`
//! (`GetPodResourceUtilization`). Unlike there sidecars count, and every running pod counts, ready
//! or not.

use std::sync::Arc;

use model::{Quantity, ResourceName};
use view::{Phase, Pod, Resources};

/// Percentage of the average request of running pods, or of one container of each.
pub(super) fn per_pod(
    pods: &[Arc<Pod>],
    resource: &ResourceName,
    container: Option<&str>,
    percent: i32,
) -> Result<Quantity, String> {
    let running = pods.iter().filter(|pod| pod.phase == Phase::Running);
    let running: Vec<_> = running.collect();
    let mut sum_milli = 0_i128;
    for pod in &running {
        sum_milli += i128::from(request(pod, resource, container)?);
    }
    let count = i128::try_from(running.len()).unwrap_or(i128::MAX);
    let average = (sum_milli * i128::from(percent))
        .checked_div(count * 100)
        .ok_or("no pod of the target is running")?;
    match i64::try_from(average) {
        Ok(average @ 1..) => Ok(Quantity::from_milli(average)),
        _ => Err(format!(
            "{percent} percent of the requests for {resource} is not a valid quantity"
        )),
    }
}

/// The request of a pod, or of one of its containers, in thousandths.
fn request(pod: &Pod, resource: &ResourceName, container: Option<&str>) -> Result<i64, String> {
    let name = &pod.key.name;
    let amount = |requests: &Resources| {
        let amount: Option<Quantity> = match resource {
            ResourceName::Cpu => requests.cpu.map(Into::into),
            ResourceName::Memory => requests.memory.map(Into::into),
            ResourceName::Other(_) => None,
        };
        amount.as_ref().map(Quantity::milli_value)
    };
    let of_pod = pod.resources.as_deref().map(|all| all.requests);
    let of_pod = of_pod.filter(|requests| *requests != Resources::default());
    if let (None, Some(requests)) = (container, of_pod) {
        let missing = || format!("missing pod-level request for {resource} in Pod {name}");
        return amount(&requests).ok_or_else(missing);
    }
    let containers = pod.containers.iter().map(|it| (&it.name, it.requests));
    let sidecars = pod.sidecars.iter().map(|it| (&it.name, it.requests));
    let is_counted = |own: &String| container.is_none_or(|container| container == own);
    let counted = containers.chain(sidecars).filter(|it| is_counted(it.0));
    let mut counted = counted.peekable();
    if let (Some(container), None) = (container, counted.peek()) {
        return Err(format!("container {container} not found in Pod {name}"));
    }
    counted.try_fold(0_i64, |sum, (container, requests)| {
        let missing =
            || format!("missing request for {resource} in container {container} of Pod {name}");
        Ok(sum.wrapping_add(amount(&requests).ok_or_else(missing)?))
    })
}

#[cfg(test)]
mod tests {
    use model::{Cpu, Memory};
    use view::{Container, Requirements};

    use super::*;
    use crate::ehpa::tests::fixture::pod;

    fn cpu(millicores: i64) -> Resources {
        Resources {
            cpu: Some(Cpu::from_millicores(millicores)),
            memory: None,
        }
    }

    /// `expected`: half of the average request, or the error.
    fn check(pods: &[&Pod], container: Option<&str>, expected: Result<&str, &str>) {
        let pods: Vec<_> = pods.iter().map(|pod| Arc::new(Pod::clone(pod))).collect();
        let found = per_pod(&pods, &ResourceName::Cpu, container, 50);
        let found = found.map(|amount| amount.to_string());
        let found = found.as_deref().map_err(String::as_str);
        assert_eq!(found, expected, "{container:?} {pods:?}");
    }

    #[test]
    fn the_request_of_a_pod_is_the_one_that_the_hpa_controller_uses() {
        // Two containers with 200 and 51 millicores.
        let plain = pod("plain", Phase::Running);
        check(&[&plain], None, Ok("125m"));
        check(&[&plain], Some("app"), Ok("100m"));
        let unknown = Err("container mesh not found in Pod plain");
        check(&[&plain], Some("mesh"), unknown);
        let pending = pod("new", Phase::Pending);
        check(&[&pending], None, Err("no pod of the target is running"));

        let mut meshed = pod("meshed", Phase::Running);
        meshed.sidecars = vec![Container {
            name: "mesh".to_owned(),
            requests: cpu(100),
            limits: Resources::default(),
            status: None,
        }];
        check(&[&meshed], None, Ok("175m"));
        check(&[&meshed, &plain], None, Ok("150m"));
        check(&[&meshed], Some("mesh"), Ok("50m"));

        let pod_level = |requests: Resources| {
            let limits = Resources::default();
            Some(Box::new(Requirements { requests, limits }))
        };
        let mut whole = meshed.clone();
        whole.resources = pod_level(cpu(1000));
        check(&[&whole], None, Ok("500m"));
        check(&[&whole], Some("mesh"), Ok("50m"));
        let memory = Some(Memory::from_bytes(1));
        whole.resources = pod_level(Resources { cpu: None, memory });
        let missing = Err("missing pod-level request for cpu in Pod meshed");
        check(&[&whole], None, missing);

        meshed.sidecars[0].requests = Resources::default();
        let missing = Err("missing request for cpu in container mesh of Pod meshed");
        check(&[&meshed], None, missing);
        check(&[&meshed], Some("app"), Ok("100m"));
    }
}
