//! Sizes of a pod's containers: upstream's documented numbers, and properties of all numbers.

use model::{
    Allowed, ContainerRecommendation, ControlledValues, LimitModes, Limits, NamespaceLimits,
    Quantity, Recommendation, ResourceList, ResourceName,
};
use proptest::prelude::*;
use sizing::{PodContainer, Target, cap_for_pod, pod_sizes, proportional_limits};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn cpu(text: &str) -> ResourceList {
    let quantity = text.parse().expect("a quantity");
    ResourceList::from_iter([(ResourceName::Cpu, quantity)])
}

fn recommendation(targets: [&str; 3]) -> Recommendation {
    let container = |(name, target): (&str, &str)| ContainerRecommendation {
        container_name: name.to_owned(),
        target: cpu(target),
        ..ContainerRecommendation::default()
    };
    let containers = NAMES.into_iter().zip(targets).map(container);
    Recommendation {
        containers: containers.collect(),
    }
}

/// Limits on the sum over a pod.
fn total(min: Option<&str>, max: Option<&str>) -> NamespaceLimits {
    let (min, max) = (min.map(cpu), max.map(cpu));
    let pods = Limits {
        min,
        max,
        default: None,
    };
    NamespaceLimits {
        pods: Some(pods),
        ..NamespaceLimits::default()
    }
}

/// Expects the sizes of three containers with targets of 4m, 21m and 90m, whose limits equal their
/// requests.
fn check(min: Option<&str>, max: Option<&str>, expected: [&str; 3]) {
    let one = cpu("1");
    let containers = NAMES.map(|name| PodContainer {
        name,
        requests: &one,
        limits: &one,
        allowed: Allowed::default(),
        limit_modes: LimitModes::PROPORTIONAL,
    });
    let recommendation = recommendation(["4m", "21m", "90m"]);
    let sizes = pod_sizes(&Target::all(&recommendation), &containers, &total(min, max));
    let requests: Vec<_> = sizes.into_iter().map(|size| size.requests).collect();
    assert_eq!(requests, expected.map(cpu), "{min:?} {max:?}");
}

#[test]
fn the_sum_over_a_pod_is_shared_in_proportion() {
    check(Some("100m"), Some("200m"), ["4m", "21m", "90m"]);
    check(Some("150m"), None, ["6m", "28m", "118m"]);
    check(None, Some("80m"), ["2m", "14m", "62m"]);
    check(None, Some("0"), ["4m", "21m", "90m"]);
}

#[test]
fn resources_without_a_recommendation_keep_their_requests() {
    let amount = Quantity::from_bytes(5 << 20);
    let memory = ResourceList::from_iter([(ResourceName::Memory, amount)]);
    let both = ResourceList::from_iter([
        (ResourceName::Cpu, Quantity::from_milli(500)),
        (ResourceName::Memory, Quantity::ZERO),
    ]);
    let (one, three, none) = (cpu("1"), cpu("3"), ResourceList::new());
    let target = |container, requests| Target {
        container,
        requests,
    };
    let targets = [target("a", &three), target("b", &memory)];
    let container = |name, requests, limits| PodContainer {
        name,
        requests,
        limits,
        allowed: Allowed::default(),
        limit_modes: LimitModes::PROPORTIONAL,
    };
    let containers = [container("a", &one, &one), container("b", &both, &none)];
    let sizes = pod_sizes(&targets, &containers, &total(None, Some("2")));
    let requests: Vec<_> = sizes.into_iter().map(|size| size.requests).collect();
    assert_eq!(requests, [cpu("2"), memory]);
}

fn quantity() -> impl Strategy<Value = Quantity> {
    let ordinary = (0_i64..5_000).prop_map(Quantity::from_milli);
    let odd = prop_oneof![
        any::<i64>().prop_map(Quantity::from_bytes),
        prop::sample::select(vec![
            "0",
            "-1",
            "1n",
            "7E",
            "1e40",
            "-9e30",
            "9223372036854775808",
            "1.5Gi"
        ])
        .prop_map(|text| text.parse().expect("a quantity")),
    ];
    prop_oneof![3 => ordinary, 1 => odd]
}

fn list() -> impl Strategy<Value = ResourceList> {
    let names =
        prop::sample::select(vec!["cpu", "memory", "example.com/gpu"]).prop_map(ResourceName::from);
    prop::collection::vec((names, quantity()), 0..4)
        .prop_map(|amounts| amounts.into_iter().collect())
}

fn limits() -> impl Strategy<Value = Option<Limits>> {
    let list = || prop::option::of(list());
    prop::option::of(
        (list(), list(), list()).prop_map(|(min, max, default)| Limits { min, max, default }),
    )
}

/// The API server would refuse the pod with a negative request.
#[test]
fn a_negative_maximum_is_none() {
    let (request, max) = (cpu("100m"), cpu("-1"));
    let allowed = Allowed {
        max: Some(&max),
        ..Allowed::default()
    };
    let container = PodContainer {
        name: "app",
        requests: &request,
        limits: &request,
        allowed,
        limit_modes: LimitModes::PROPORTIONAL,
    };
    let target = cpu("500m");
    let recommended = ContainerRecommendation {
        container_name: "app".to_owned(),
        target: target.clone(),
        ..ContainerRecommendation::default()
    };
    let recommendation = Recommendation {
        containers: vec![recommended],
    };
    let capped = cap_for_pod(&recommendation, &[container], &NamespaceLimits::default());
    assert_eq!(capped.recommendation.containers[0].target, target);
}

proptest! {
    /// No input panics, the policy limits are kept, and only the pod's containers get sizes.
    #[test]
    fn a_policy_holds_whatever_else_is_asked(
        targets in prop::collection::vec((0..5_usize, list(), list(), list()), 0..5),
        resources in prop::collection::vec((list(), list(), list(), list(), any::<bool>()), 0..4),
        limits in (limits(), limits()),
    ) {
        let containers = targets.into_iter().map(|(name, target, lower_bound, upper_bound)| ContainerRecommendation {
            container_name: ["a", "b", "c", "d", ""][name].to_owned(), target, lower_bound, upper_bound,
            ..ContainerRecommendation::default()
        });
        let recommendation = Recommendation { containers: containers.collect() };
        let limits = NamespaceLimits { containers: limits.0, pods: limits.1, ..NamespaceLimits::default() };
        let names = ["a", "b", "c", "d"];
        let pod: Vec<_> = names.into_iter().zip(&resources).map(|(name, (requests, limits, min, max, both))| {
            let values = if *both { ControlledValues::RequestsAndLimits } else { ControlledValues::RequestsOnly };
            PodContainer { name, requests, limits, allowed: Allowed { min: Some(min), max: Some(max), values }, limit_modes: LimitModes::PROPORTIONAL }
        }).collect();
        let capped = cap_for_pod(&recommendation, &pod, &limits);
        for recommended in &capped.recommendation.containers {
            let container = pod.iter().find(|container| container.name == recommended.container_name);
            prop_assert!(container.is_some(), "{}", recommended.container_name);
            let max = container.and_then(|container| container.allowed.max);
            for (resource, quantity) in recommended.target.iter() {
                let max = max.and_then(|max| max.get(resource)).filter(|max| !max.is_zero() && !max.is_negative());
                prop_assert!(max.is_none_or(|max| quantity <= max), "{quantity} {resource}");
            }
        }
        prop_assert_eq!(pod_sizes(&Target::all(&recommendation), &pod, &limits).len(), pod.len());
    }

    /// A limit keeps its proportion to the request, less than one unit below it.
    #[test]
    fn limits_keep_their_proportion(request in 1_i64..1 << 40, factor in 2_i64..100, recommended in 1_i64..1 << 40) {
        let memory = |bytes| [(ResourceName::Memory, Quantity::from_bytes(bytes))].into_iter().collect::<ResourceList>();
        let found = proportional_limits(&memory(request * factor), &memory(request), &memory(recommended), None);
        prop_assert_eq!(found.limits, memory(recommended * factor));
    }
}
