//! Changes of requests by an action, with the violated bounds, for log lines and events.

use std::fmt;

use model::{
    ContainerRecommendation, Quantity, Recommendation, ResourceList, ResourceName, shown_name,
};
use view::{ContainerSpec, Running};

use super::observed_containers;
use crate::resize::pod_size::{container_recommendation, requests, sized_containers};
use crate::resize::resize_patch::{DesiredSizes, resized_containers};

/// The change of one request of one container.
///
/// Displays as `app cpu request 100m -> 320m: below lower bound 300m`.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeChange {
    pub container: String,
    pub resource: ResourceName,
    pub from: Option<Quantity>,
    pub to: Quantity,
    /// The bound that the present request violates, if any, after its words.
    violation: Option<(&'static str, Quantity)>,
}

impl SizeChange {
    /// The changes from the requests of a pod to the targets of its capped recommendation.
    pub(crate) fn to_targets(
        running: &Running,
        recommendation: &Recommendation,
        native_sidecars: bool,
    ) -> Vec<Self> {
        let is_observed = observed_containers(running);
        sized_containers(running, native_sidecars)
            .filter(|container| is_observed(&container.name))
            .filter_map(|container| {
                let recommended = container_recommendation(recommendation, &container.name)?;
                Some((container, recommended))
            })
            .flat_map(|(container, recommended)| {
                of_container(container, &recommended.target, Some(recommended))
            })
            .collect()
    }

    /// The changes from the requests of a pod to the sizes of a resize. `recommendation` is the
    /// pod's capped one, for the violated bounds.
    pub(crate) fn to_sizes(
        running: &Running,
        sizes: &DesiredSizes,
        recommendation: &Recommendation,
    ) -> Vec<Self> {
        resized_containers(running, sizes)
            .flat_map(|(container, size)| {
                let recommended = container_recommendation(recommendation, &container.name);
                of_container(container, &size.requests, recommended)
            })
            .collect()
    }
}

fn of_container<'a>(
    container: &'a ContainerSpec,
    to: &'a ResourceList,
    recommended: Option<&'a ContainerRecommendation>,
) -> impl Iterator<Item = SizeChange> + 'a {
    to.iter().filter_map(move |(resource, to)| {
        let from = requests(container).get(resource);
        (from != Some(to)).then(|| SizeChange {
            container: container.name.clone(),
            resource: resource.clone(),
            from: from.cloned(),
            to: to.clone(),
            violation: from.and_then(|from| violation(from, resource, recommended?)),
        })
    })
}

fn violation(
    request: &Quantity,
    resource: &ResourceName,
    recommended: &ContainerRecommendation,
) -> Option<(&'static str, Quantity)> {
    let lower = recommended.lower_bound.get(resource);
    let upper = recommended.upper_bound.get(resource);
    if let Some(lower) = lower.filter(|lower| request < lower) {
        return Some(("below lower bound", lower.clone()));
    }
    let upper = upper.filter(|upper| request > upper)?;
    Some(("above upper bound", upper.clone()))
}

impl fmt::Display for SizeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} request ",
            shown_name(&self.container),
            self.resource
        )?;
        match &self.from {
            Some(from) => write!(f, "{from} -> {}", self.to)?,
            None => write!(f, "none -> {}", self.to)?,
        }
        match &self.violation {
            Some((is, bound)) => write!(f, ": {is} {bound}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The change of a CPU request to a target of 320m, within bounds of 300m and 400m.
    fn check(request: &str, expected: &[&str]) {
        let list = |text: &str| -> ResourceList {
            let amount = text.parse().ok().map(|amount| (ResourceName::Cpu, amount));
            amount.into_iter().collect()
        };
        let [lower_bound, target, upper_bound] = ["300m", "320m", "400m"].map(list);
        let container = ContainerSpec {
            name: "app".to_owned(),
            requests: Some(list(request)),
            ..ContainerSpec::default()
        };
        let running = Running {
            containers: vec![container],
            ..Running::default()
        };
        let recommended = ContainerRecommendation {
            container_name: "app".to_owned(),
            target,
            lower_bound,
            upper_bound,
            ..ContainerRecommendation::default()
        };
        let recommendation = Recommendation {
            containers: vec![recommended],
        };
        let changes = SizeChange::to_targets(&running, &recommendation, false);
        let found: Vec<String> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_change_says_from_to_and_cause() {
        check(
            "100m",
            &["app cpu request 100m -> 320m: below lower bound 300m"],
        );
        check("1", &["app cpu request 1 -> 320m: above upper bound 400m"]);
        check("310m", &["app cpu request 310m -> 320m"]);
        check("", &["app cpu request none -> 320m"]);
        check("320m", &[]);
    }
}
