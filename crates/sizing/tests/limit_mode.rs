//! Limits by mode: the limit of each mode, what a namespace requires, and properties of all numbers.

use model::{
    Allowed, ControlledValues, LimitModes, Limits, NamespaceLimits, Quantity, ResourceList,
    ResourceName,
};
use proptest::prelude::*;
use sizing::{ContainerSize, PodContainer, Target, limits_text, pod_sizes};

/// A list such as `cpu=1,memory=1Gi`.
fn list(text: &str) -> ResourceList {
    let items = text.split(',').filter_map(|item| item.split_once('='));
    items
        .map(|(name, amount)| {
            (
                ResourceName::from(name),
                amount.parse().expect("a quantity"),
            )
        })
        .collect()
}

/// Limits on containers or pods with this maximum and this default.
fn limits(max: &str, default: &str) -> Limits {
    Limits {
        min: None,
        max: Some(list(max)),
        default: Some(list(default)),
    }
}

fn modes(text: &str) -> LimitModes {
    LimitModes::parse(text).expect("limit modes")
}

/// The size of a container with requests of one core and 1 GiB, limits of two cores and 2 GiB and a
/// target of 500m and 512 MiB.
fn size(mode: &str, namespace: &NamespaceLimits, values: ControlledValues) -> ContainerSize {
    let (requests, limits) = (list("cpu=1,memory=1Gi"), list("cpu=2,memory=2Gi"));
    let target = list("cpu=500m,memory=512Mi");
    let modes = modes(mode);
    let container = PodContainer {
        name: "app",
        requests: &requests,
        limits: &limits,
        allowed: Allowed {
            values,
            ..Allowed::default()
        },
        limit_modes: &modes,
    };
    let target = Target {
        container: "app",
        requests: &target,
    };
    let mut sizes = pod_sizes(&[target], &[container], namespace);
    sizes.pop().expect("one size")
}

fn check(mode: &str, namespace: &NamespaceLimits, limits: &str, removed: &[ResourceName]) {
    let size = size(mode, namespace, ControlledValues::RequestsAndLimits);
    assert_eq!(size.limits, list(limits), "{mode}");
    assert_eq!(size.removed_limits, removed, "{mode}");
    assert_eq!(size.requests, list("cpu=500m,memory=512Mi"), "{mode}");
}

#[test]
fn each_mode_has_its_limit() {
    use ResourceName::{Cpu, Memory};
    let free = NamespaceLimits::default();
    check("proportional", &free, "cpu=1,memory=1Gi", &[]);
    check("equal", &free, "cpu=500m,memory=512Mi", &[]);
    check("none", &free, "", &[Cpu, Memory]);
    check("request-plus:20%", &free, "cpu=600m,memory=644245095", &[]);
    check("cpu=none,memory=equal", &free, "memory=512Mi", &[Cpu]);
    check("cpu=none", &free, "memory=1Gi", &[Cpu]);
    check(
        "memory=request-plus:200Mi",
        &free,
        "cpu=1,memory=712Mi",
        &[],
    );
    check("cpu=request-plus:0", &free, "cpu=500m,memory=1Gi", &[]);
}

#[test]
fn requests_only_wins() {
    let free = NamespaceLimits::default();
    let size = size("none", &free, ControlledValues::RequestsOnly);
    assert_eq!((size.limits, size.removed_limits), (list(""), vec![]));
}

#[test]
fn a_mode_gives_way_to_limit_ranges() {
    let containers = |max: &str, default: &str| NamespaceLimits {
        containers: Some(limits(max, default)),
        ..NamespaceLimits::default()
    };
    let pods = |max: &str| NamespaceLimits {
        pods: Some(limits(max, "")),
        ..NamespaceLimits::default()
    };
    check(
        "none",
        &containers("cpu=4", ""),
        "cpu=1",
        &[ResourceName::Memory],
    );
    check(
        "none",
        &containers("", "memory=1Gi"),
        "memory=1Gi",
        &[ResourceName::Cpu],
    );
    check("none", &pods("cpu=4,memory=4Gi"), "cpu=1,memory=1Gi", &[]);
    check(
        "request-plus:100%",
        &containers("cpu=600m", ""),
        "cpu=600m,memory=1Gi",
        &[],
    );
    check(
        "request-plus:100%",
        &pods("cpu=600m"),
        "cpu=500m,memory=1Gi",
        &[],
    );
}

#[test]
fn a_pod_lists_its_limits() {
    let free = NamespaceLimits::default();
    for (mode, expected) in [
        ("proportional", None),
        ("cpu=none,memory=equal", Some("app: cpu=none, memory=512Mi")),
        ("cpu=request-plus:20%", Some("app: cpu=600m")),
    ] {
        let size = size(mode, &free, ControlledValues::RequestsAndLimits);
        let text = limits_text(&modes(mode), [("app", &size)]);
        assert_eq!(text.as_deref(), expected, "{mode}");
    }
}

proptest! {
    /// A new limit is never below its request, and a limit is not both set and removed.
    #[test]
    fn requests_fit_below_their_limits(
        amounts in prop::array::uniform4(0_i64..1 << 40),
        max in prop::option::of(1_i64..1 << 40),
        of_pods in any::<bool>(),
        mode in prop::sample::select(vec!["equal", "none", "request-plus:7%", "memory=request-plus:3Mi"]),
    ) {
        let [request, limit, target, default] = amounts.map(|amount| {
            ResourceList::from_iter([(ResourceName::Memory, Quantity::from_bytes(amount))])
        });
        let max = max.map(|max| ResourceList::from_iter([(ResourceName::Memory, Quantity::from_bytes(max))]));
        let range = Limits { min: None, max, default: Some(default) };
        let namespace = if of_pods {
            NamespaceLimits { pods: Some(range), ..NamespaceLimits::default() }
        } else {
            NamespaceLimits { containers: Some(range), ..NamespaceLimits::default() }
        };
        let modes = modes(mode);
        let container = PodContainer {
            name: "app", requests: &request, limits: &limit, allowed: Allowed::default(), limit_modes: &modes,
        };
        let target = Target { container: "app", requests: &target };
        let size = pod_sizes(&[target], &[container], &namespace).pop().expect("one size");
        let memory = ResourceName::Memory;
        let is_kept = modes.memory != model::LimitMode::None;
        if let (Some(request), Some(limit), true) = (size.requests.get(&memory), size.limits.get(&memory), is_kept) {
            prop_assert!(request <= limit, "{request} {limit}");
        }
        prop_assert!(size.limits.get(&memory).is_none() || size.removed_limits.is_empty());
    }
}
