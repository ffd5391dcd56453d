//! Feasible part of recommendations: tables of small pods, and properties of all.

use model::{
    Cap, ContainerRecommendation, Cpu, Labels, Memory, NodeConstraints, Recommendation,
    ResourceList, ResourceName,
};
use proptest::collection::vec;
use proptest::prelude::*;
use sizing::{
    Amounts, CandidateNodes, Ceiling, ContainerPolicy, ContainerRequests, Fit, FitInput,
    LimitScope, LimitedValues, NodeHeadrooms, NodeInfo, PodRequests,
};

const MIB: i64 = 1 << 20;

fn amounts(millicores: i64, mebibytes: i64) -> Amounts {
    Amounts {
        cpu: Cpu::from_millicores(millicores),
        memory: Memory::from_bytes(mebibytes * MIB),
    }
}

fn list(millicores: i64, mebibytes: i64) -> ResourceList {
    let Amounts { cpu, memory } = amounts(millicores, mebibytes);
    ResourceList::of(cpu, memory)
}

/// Containers with a request of 100m and 100Mi and no limits.
fn pod(names: &[&str]) -> PodRequests {
    let container = |name: &&str| ContainerRequests {
        name: (*name).to_owned(),
        requests: amounts(100, 100),
        limits_follow: true,
        ..ContainerRequests::default()
    };
    PodRequests {
        containers: names.iter().map(container).collect(),
        ..PodRequests::default()
    }
}

/// Targets in millicores and MiB; the bounds are half and twice the target.
fn recommend(targets: &[(&str, i64, i64)]) -> Recommendation {
    let container = |(name, cpu, memory): &(&str, i64, i64)| ContainerRecommendation {
        container_name: (*name).to_owned(),
        target: list(*cpu, *memory),
        lower_bound: list(cpu / 2, memory / 2),
        upper_bound: list(cpu * 2, memory * 2),
        uncapped_target: list(*cpu, *memory),
    };
    Recommendation {
        containers: targets.iter().map(container).collect(),
    }
}

fn nodes(sizes: &[(i64, i64)]) -> CandidateNodes {
    let sizes = sizes.iter().enumerate();
    let facts = sizes.map(|(index, (cpu, memory))| NodeInfo {
        name: format!("node-{index}"),
        could_come: false,
        labels: Labels::default(),
        taints: Vec::new(),
        allocatable: amounts(*cpu, *memory),
        extended: ResourceList::new(),
        bound: Amounts::default(),
    });
    NodeHeadrooms::new(facts.collect(), Vec::new(), 0.0).for_pods(&NodeConstraints::default())
}

fn ceiling(values: LimitedValues, per: LimitScope, millicores: i64) -> Ceiling {
    Ceiling {
        resource: ResourceName::Cpu,
        values,
        per,
        most: millicores,
        by: Cap::Quota,
        object: "compute".to_owned(),
    }
}

/// A pod without policies, ceilings and nodes.
fn alone(pod: &PodRequests) -> FitInput<'_> {
    FitInput {
        pod,
        policies: &[],
        ceilings: &[],
        nodes: None,
    }
}

fn on<'a>(pod: &'a PodRequests, nodes: &'a CandidateNodes) -> FitInput<'a> {
    FitInput {
        nodes: Some(nodes),
        ..alone(pod)
    }
}

fn under<'a>(pod: &'a PodRequests, ceilings: &'a [Ceiling]) -> FitInput<'a> {
    FitInput {
        ceilings,
        ..alone(pod)
    }
}

/// Expects lower bound, target and upper bound of CPU of each container.
fn check(fitting: FitInput, targets: &[(&str, i64, i64)], expected: &[[i64; 3]]) -> Fit {
    let mut recommendation = recommend(targets);
    let fit = fitting.fit(&recommendation);
    fit.apply(&mut recommendation);
    let cpu = |list: &ResourceList| list.cpu().map_or(0, Cpu::millicores);
    let found = recommendation
        .containers
        .iter()
        .map(|found| [&found.lower_bound, &found.target, &found.upper_bound].map(cpu));
    assert_eq!(found.collect::<Vec<_>>(), expected, "{fitting:?}");
    let before = recommend(targets).containers;
    for (before, after) in before.iter().zip(&recommendation.containers) {
        assert_eq!(after.uncapped_target, before.uncapped_target);
    }
    fit
}

#[test]
fn a_pod_is_cut_to_the_largest_node_and_its_containers_share() {
    let pod = pod(&["app", "side", "fixed"]);
    let rooms = nodes(&[(1000, 900), (4100, 4096)]);
    let check = |app, side, expected: &[[i64; 3]]| {
        check(
            on(&pod, &rooms),
            &[("app", app, 100), ("side", side, 100)],
            expected,
        )
    };
    let fit = check(6000, 2000, &[[3000, 3000, 3000], [1000, 1000, 1000]]);
    let cuts = fit
        .cuts()
        .map(|(name, resource, most)| (name, resource.as_str(), most.amount));
    assert!(cuts.eq([("app", "cpu", 3000), ("side", "cpu", 1000)]));
    // If the targets fit, bounds are capped at the rest left by the others.
    check(2000, 1000, &[[1000, 2000, 3000], [500, 1000, 2000]]);
    check(500, 500, &[[250, 500, 1000], [250, 500, 1000]]);
}

#[test]
fn a_minimum_of_the_owner_is_kept_as_long_as_it_fits() {
    let (pod, rooms) = (pod(&["app", "side"]), nodes(&[(4000, 4096)]));
    // The minimum is below, at, above the available amount, and above that of the node.
    for (least, side, expected) in [
        (500, 2000, [[3000, 3000, 3000], [1000, 1000, 1000]]),
        (2000, 2000, [[2000, 2000, 2000], [1000, 2000, 2000]]),
        (1500, 2000, [[2500, 2500, 2500], [1000, 1500, 1500]]),
        (9000, 9000, [[1600, 1600, 1600], [2400, 2400, 2400]]),
    ] {
        let policies = [ContainerPolicy {
            container_name: "side".to_owned(),
            min_allowed: list(least, 0),
            ..ContainerPolicy::default()
        }];
        let fitting = FitInput {
            policies: &policies,
            ..on(&pod, &rooms)
        };
        check(
            fitting,
            &[("app", 6000, 100), ("side", side, 100)],
            &expected,
        );
    }
}

#[test]
fn containers_without_recommendation_keep_what_they_ask_for() {
    let mut pod = pod(&["app", "side"]);
    pod.fixed_requests = amounts(900, 0);
    let rooms = nodes(&[(4000, 4096)]);
    let targets = [("app", 9000, 100), ("gone", 9000, 100)];
    let expected = [[3000, 3000, 3000], [4500, 9000, 18_000]];
    check(on(&pod, &rooms), &targets[..1], &expected[..1]);
    check(on(&pod, &rooms), &targets, &expected);
}

#[test]
fn limits_that_follow_count_with_their_proportion() {
    let with_limit = |limits_follow| {
        let mut pod = pod(&["app", "side"]);
        pod.containers[0].limits.cpu = Cpu::from_millicores(400);
        pod.containers[0].limits_follow = limits_follow;
        pod
    };
    let ceilings = [ceiling(LimitedValues::Limits, LimitScope::Pod, 4000)];
    let targets = [("app", 2000, 100), ("side", 300, 100)];
    for (follow, expected) in [(true, [1000, 1000, 1000]), (false, [1000, 2000, 4000])] {
        let pod = with_limit(follow);
        check(
            under(&pod, &ceilings),
            &targets,
            &[expected, [150, 300, 600]],
        );
    }
    let pod = with_limit(true);
    let ceilings = [ceiling(LimitedValues::Limits, LimitScope::Container, 3000)];
    let targets = [("app", 1000, 100), ("side", 9000, 100)];
    let expected = [[500, 750, 750], [4500, 9000, 18_000]];
    check(under(&pod, &ceilings), &targets, &expected);
}

#[test]
fn whole_cores_stay_whole() {
    let mut pod = pod(&["app"]);
    pod.containers[0].whole_cores = true;
    let rooms = nodes(&[(3900, 4096)]);
    check(
        on(&pod, &rooms),
        &[("app", 6000, 100)],
        &[[3000, 3000, 3000]],
    );
    check(
        on(&pod, &rooms),
        &[("app", 2000, 100)],
        &[[1000, 2000, 3000]],
    );
    let ceilings = [ceiling(LimitedValues::Requests, LimitScope::Container, 700)];
    check(
        under(&pod, &ceilings),
        &[("app", 2000, 100)],
        &[[700, 700, 700]],
    );
}

#[test]
fn ceilings_that_leave_nothing_are_skipped_and_reported() {
    let (pod, targets) = (pod(&["app", "side"]), [("app", 2000, 100)]);
    let unchanged = [[1000, 2000, 4000]];
    let ceiling = ceiling(LimitedValues::Requests, LimitScope::Pod, 100);
    for (rooms, ceilings, skipped) in [
        (nodes(&[]), vec![], Cap::Node),
        (nodes(&[(100, 4096)]), vec![], Cap::Node),
        (nodes(&[(9000, 4096)]), vec![ceiling], Cap::Quota),
    ] {
        let fitting = FitInput {
            ceilings: &ceilings,
            ..on(&pod, &rooms)
        };
        let fit = check(fitting, &targets, &unchanged);
        assert_eq!(fit.skipped(), [skipped]);
        assert_eq!(fit.cuts().count(), 0);
    }
}

fn any_container() -> impl Strategy<Value = (i64, i64, i64, i64, bool, bool)> {
    let (target, request) = (1_i64..20_000, 0_i64..5000);
    (
        target.clone(),
        target,
        request.clone(),
        request,
        any::<bool>(),
        any::<bool>(),
    )
}

proptest! {
    /// Containers: target, request, limit in CPU, memory target; whether they are sized and have
    /// proportional limits.
    #[test]
    fn a_pod_fits_or_nothing_can_make_it(
        containers in vec(any_container(), 1..5),
        sizes in vec((100_i64..30_000, 100_i64..30_000), 0..4),
        quota in proptest::option::of(1_i64..20_000),
        limits in proptest::option::of(1_i64..20_000),
    ) {
        let names: Vec<String> = (0..containers.len()).map(|index| format!("c{index}")).collect();
        let mut pod = pod(&names.iter().map(String::as_str).collect::<Vec<_>>());
        for (shape, (_, _, request, limit, _, follow)) in pod.containers.iter_mut().zip(&containers) {
            shape.requests.cpu = Cpu::from_millicores(*request);
            shape.limits.cpu = Cpu::from_millicores(if limit >= request { *limit } else { 0 });
            shape.limits_follow = *follow;
        }
        let targets: Vec<_> = names
            .iter()
            .zip(&containers)
            .filter(|(_, container)| container.4)
            .map(|(name, (cpu, memory, ..))| (name.as_str(), *cpu, *memory))
            .collect();
        let before = recommend(&targets);
        let ceilings: Vec<_> = quota
            .map(|most| ceiling(LimitedValues::Requests, LimitScope::Pod, most))
            .into_iter()
            .chain(limits.map(|most| Ceiling {
                by: Cap::LimitRange,
                ..ceiling(LimitedValues::Limits, LimitScope::Container, most)
            }))
            .collect();
        let rooms = nodes(&sizes);
        let fitting = FitInput { pod: &pod, policies: &[], ceilings: &ceilings, nodes: Some(&rooms) };
        let fit = fitting.fit(&before);
        let mut after = before.clone();
        let cuts = fit.apply(&mut after);
        prop_assert_eq!(cuts, fit.cuts().count() > 0);

        for (old, new) in before.containers.iter().zip(&after.containers) {
            for (old, new) in [(&old.target, &new.target), (&old.lower_bound, &new.lower_bound), (&old.upper_bound, &new.upper_bound)] {
                prop_assert!(new.iter().zip(old.iter()).all(|((_, new), (_, old))| new <= old));
            }
            for (resource, target) in new.target.iter() {
                prop_assert!(!target.is_zero());
                prop_assert!(new.lower_bound.get(resource) <= Some(target) && Some(target) <= new.upper_bound.get(resource));
            }
        }
        let target = |name: &str| after.containers.iter().find(|found| found.container_name == name).map(|found| &found.target);
        let requests = pod.containers.iter().map(|shape| match target(&shape.name) {
            Some(target) => (target.cpu().unwrap().millicores(), target.memory().unwrap().bytes()),
            None => (shape.requests.cpu.millicores(), shape.requests.memory.bytes()),
        });
        let (cpu, memory) = requests.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if let Some(most) = quota.filter(|_| !fit.skipped().contains(&Cap::Quota)) {
            prop_assert!(cpu <= most || targets.is_empty(), "{cpu} in {most}");
        }
        if fit.skipped().is_empty() && !targets.is_empty() {
            prop_assert!(sizes.iter().any(|size| cpu <= size.0 && memory <= size.1 * MIB), "{cpu} {memory} in {sizes:?}");
            if let Some(most) = limits {
                for shape in pod.containers.iter().filter(|shape| shape.limits_follow) {
                    let limit = shape.limits.cpu.millicores();
                    if let Some(target) = target(&shape.name).filter(|_| limit > 0) {
                        let request = shape.requests.cpu.millicores();
                        let scaled = if request == 0 {
                            target.cpu().unwrap().millicores()
                        } else {
                            target.cpu().unwrap().millicores() * limit / request
                        };
                        prop_assert!(scaled <= most, "{scaled} in {most}");
                    }
                }
            }
        }
        if sizes.is_empty() && ceilings.is_empty() {
            prop_assert_eq!(after, before);
        }
    }
}
