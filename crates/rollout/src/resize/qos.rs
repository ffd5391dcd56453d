//! The quality of service class of a pod. The API server refuses resizes that change it.
//!
//! Source: `pkg/apis/core/v1/helper/qos` of Kubernetes.

use model::{ResourceList, ResourceName};
use sizing::ContainerSize;
use view::{ContainerSpec, Running};

use crate::resize::pod_size::{sized_containers, specified};
use crate::resize::resize_patch::DesiredSizes;

/// Whether a resize would change the class. Init containers count too. Where the pod has resources as a
/// whole, these alone count.
pub(crate) fn would_change(running: &Running, sizes: &DesiredSizes) -> bool {
    if running.whole.is_some() && running.whole_of.is_none() {
        return false;
    }
    let sizes = sizes
        .iter()
        .map(Option::as_ref)
        .chain(std::iter::repeat(None));
    let after = not_sized(running).chain(sized_containers(running, true).zip(sizes));
    let present = match running.whole {
        Some(_) => running,
        None => running.parts(),
    };
    let before = sized_containers(present, true).map(|container| (container, None));
    class(not_sized(present).chain(before)) != class(after)
}

/// The init containers that have ended when others start.
fn not_sized(running: &Running) -> impl Iterator<Item = (&ContainerSpec, Option<&ContainerSize>)> {
    let init = running.init_containers.iter().filter(|it| !it.is_sidecar);
    init.map(|container| (container, None))
}

/// Whether the class is `Guaranteed`, and whether it is `BestEffort`; neither for `Burstable`. The
/// sizes replace what the containers ask for.
fn class<'a>(
    containers: impl Iterator<Item = (&'a ContainerSpec, Option<&'a ContainerSize>)>,
) -> [bool; 2] {
    let (mut guaranteed, mut best_effort) = (true, true);
    for (container, size) in containers {
        let [requests, limits] = specified(container);
        for name in [ResourceName::Cpu, ResourceName::Memory] {
            let amount = |new: Option<&'a ResourceList>, old: &'a ResourceList| {
                let new = new.and_then(|new| new.get(&name));
                new.or_else(|| old.get(&name)).filter(|it| !it.is_zero())
            };
            let request = amount(size.map(|size| &size.requests), requests);
            let limit = amount(size.map(|size| &size.limits), limits);
            best_effort &= request.is_none() && limit.is_none();
            // A missing request is equal to the limit.
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    [guaranteed, best_effort]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(cpu: &str, memory: &str) -> ResourceList {
        let amounts = [("cpu", cpu), ("memory", memory)].into_iter();
        let amounts = amounts.filter(|(_, text)| !text.is_empty());
        let amounts = amounts.map(|(name, text)| (name.into(), text.parse().expect("a quantity")));
        amounts.collect()
    }

    fn check(before: [[&str; 2]; 2], after: [[&str; 2]; 2], expected: bool) {
        let lists = |lists: [[&str; 2]; 2]| lists.map(|[cpu, memory]| list(cpu, memory));
        let [requests, limits] = lists(before).map(Some);
        let container = ContainerSpec {
            requests,
            limits,
            ..ContainerSpec::default()
        };
        let running = Running {
            containers: vec![container],
            ..Running::default()
        };
        let [requests, limits] = lists(after);
        let sizes = vec![Some(ContainerSize::of(requests, limits))];
        let found = would_change(&running, &sizes);
        assert_eq!(found, expected, "{before:?} {after:?}");
    }

    #[test]
    fn a_class_is_lost_and_won_by_requests_and_limits() {
        let (none, one, two) = (["", ""], ["1", "1Gi"], ["2", "2Gi"]);
        check([one, one], [two, two], false);
        check([one, one], [["2", ""], none], true);
        check([one, two], [two, two], true);
        check([one, none], [two, none], false);
        check([none, none], [["2", ""], none], true);
        check([none, one], [one, none], false);
    }
}
