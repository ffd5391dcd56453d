//! The quality of service class of a pod. The API server refuses resizes that change it.
//!
//! Source: `pkg/apis/core/v1/helper/qos` of Kubernetes.

use model::{ResourceList, ResourceName};
use view::{ContainerSpec, Running};

use crate::resize::pod_size::sized_containers;
use crate::resize::resize_patch::DesiredSizes;

/// Whether a resize would change the class. Init containers count too.
pub(crate) fn would_change(running: &Running, sizes: &DesiredSizes) -> bool {
    let asked = |container: &ContainerSpec| [container.requests.clone(), container.limits.clone()];
    let init = running
        .init_containers
        .iter()
        .filter(|container| !container.is_sidecar)
        .map(asked);
    let before = sized_containers(running, true).map(asked);
    let after = sized_containers(running, true)
        .enumerate()
        .map(|(index, container)| {
            let Some(size) = sizes.get(index).and_then(Option::as_ref) else {
                return asked(container);
            };
            [
                over(container.requests.as_ref(), &size.requests),
                over(container.limits.as_ref(), &size.limits),
            ]
        });
    class(init.clone().chain(before)) != class(init.chain(after))
}

/// A list with the amounts of another one laid over it.
fn over(list: Option<&ResourceList>, new: &ResourceList) -> Option<ResourceList> {
    let mut merged = list.cloned().unwrap_or_default();
    for (name, quantity) in new.iter() {
        merged.insert(name.clone(), quantity.clone());
    }
    (list.is_some() || !new.is_empty()).then_some(merged)
}

/// Whether the class is `Guaranteed`, and whether it is `BestEffort`; neither for `Burstable`.
fn class(containers: impl Iterator<Item = [Option<ResourceList>; 2]>) -> [bool; 2] {
    let (mut guaranteed, mut best_effort) = (true, true);
    for [requests, limits] in containers {
        for name in [ResourceName::Cpu, ResourceName::Memory] {
            let [request, limit] = [&requests, &limits].map(|list| {
                let amount = list.as_ref()?.get(&name);
                amount.filter(|amount| !amount.is_zero())
            });
            best_effort &= request.is_none() && limit.is_none();
            // A missing request is equal to the limit.
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    [guaranteed, best_effort]
}

#[cfg(test)]
mod tests {
    use sizing::ContainerSize;

    use super::*;

    fn list(cpu: &str, memory: &str) -> ResourceList {
        let amounts = [("cpu", cpu), ("memory", memory)].into_iter();
        let amounts = amounts.filter(|(_, text)| !text.is_empty());
        let amounts = amounts.map(|(name, text)| (name.into(), text.parse().expect("a quantity")));
        amounts.collect()
    }

    /// Requests and limits of CPU and memory, before and after a resize.
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
