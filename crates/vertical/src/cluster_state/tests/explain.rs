//! The steps of `explain` end in the targets of `recommend`, for all settings, policies and usage.

use crate::{ClusterState, VpaSpec};
use model::{Cap, Cpu, Explanation, Quantity, ResourceList, ResourceName};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use sizing::{Config, ContainerPolicy, ScalingMode, VpaMethodSettings};

use super::fixture::{MIB, WEB, container, id, minutes, pod_of, sample, selecting, start};
use super::sizing_method::spec;

fn cluster(
    config: Config,
    policies: Vec<ContainerPolicy>,
    whole_cores: bool,
    samples: &[(i64, i64)],
) -> ClusterState {
    let integer_cpu = whole_cores.then(|| "app".to_owned()).into_iter().collect();
    let spec = VpaSpec {
        policies,
        integer_cpu,
        ..selecting(WEB)
    };
    cluster_of(config, spec, samples)
}

/// Containers `app` and `side` with the given samples each minute, in millicores and MiB.
fn cluster_of(config: Config, spec: VpaSpec, samples: &[(i64, i64)]) -> ClusterState {
    let mut cluster = ClusterState::new(config).unwrap();
    cluster.apply_vpa(&id("web"), spec);
    cluster.apply_pod(pod_of("web-1", WEB, &["app", "side"]), start());
    for (minute, (millicores, mebibytes)) in (0..).zip(samples) {
        let sample = sample(start() + minutes(minute), *millicores, mebibytes * MIB);
        cluster
            .add_sample(&container("web-1", "app"), &sample, sample.at)
            .unwrap();
    }
    cluster
}

fn list(cpu: Option<i64>, memory: Option<i64>) -> ResourceList {
    let cpu = cpu.map(|amount| (ResourceName::Cpu, Quantity::from_milli(amount)));
    let memory = memory.map(|amount| (ResourceName::Memory, Quantity::from_bytes(amount * MIB)));
    cpu.into_iter().chain(memory).collect()
}

/// Expects explained and published targets to match in both directions.
fn check(cluster: &ClusterState) {
    for published in cluster.recommend(&id("web")).unwrap().containers {
        let explained = cluster
            .explain(&id("web"), &published.container_name)
            .unwrap();
        let list = |amount: fn(&Explanation) -> &Quantity| -> ResourceList {
            let amounts = explained.iter();
            amounts
                .map(|it| (it.resource.clone(), amount(it).clone()))
                .collect()
        };
        assert_eq!(list(|it| &it.capped), published.target);
        assert_eq!(list(|it| &it.in_whole_units), published.uncapped_target);
        for number in &explained {
            let is_capped = number.capped != number.in_whole_units;
            assert_eq!(number.capped_by.is_some(), is_capped, "{number:?}");
        }
    }
}

proptest! {
    #[test]
    fn explained_targets_are_the_published_ones(
        samples in vec((0..4000_i64, 0..4000_i64), 0..40),
        min in (option::of(1..3000_i64), option::of(1..3000_i64)),
        max in (option::of(1..3000_i64), option::of(1..3000_i64)),
        global in (option::of(1..3000_i64), option::of(1..3000_i64)),
        round in (1..300_i64, 1..1000_i64),
        whole_cores: bool,
        cpu_only: bool,
    ) {
        let policy = ContainerPolicy {
            container_name: "app".to_owned(),
            min_allowed: list(min.0, min.1),
            max_allowed: list(max.0, max.1),
            controlled_resources: cpu_only.then(|| vec![ResourceName::Cpu]),
            ..ContainerPolicy::default()
        };
        let config = Config {
            integer_cpu: true,
            round_cpu_millicores: round.0,
            round_memory_bytes: round.1 * 1000,
            max_allowed: list(global.0, global.1),
            ..Config::default()
        };
        check(&cluster(config, vec![policy], whole_cores, &samples));
    }
}

fn cpu_target(cluster: &ClusterState) -> Explanation {
    cluster.explain(&id("web"), "app").unwrap().remove(0)
}

#[test]
fn an_hour_at_100_millicores_is_explained_step_by_step() {
    let cluster = cluster(Config::default(), Vec::new(), false, &[(100, 100); 60]);
    let explained = cluster.explain(&id("web"), "app").unwrap();
    let steps = |number: &Explanation| {
        let Explanation {
            usage,
            with_margin,
            minimum,
            at_least_minimum,
            ..
        } = *number;
        [usage, with_margin, minimum, at_least_minimum]
    };
    let [cpu, memory] = &explained[..] else {
        panic!("{explained:?}")
    };
    assert_eq!(steps(cpu), [110, 126, 12, 126]);
    assert_eq!(cpu.capped.to_string(), "126m");
    assert_eq!(steps(memory)[2..], [125 * MIB; 2], "the minimum");

    let confidence = 59.0 / (24.0 * 60.0);
    let upper = (126.0 * (1.0 + 1.0 / confidence)) as i64;
    let lower = (126.0 * (1.0_f64 + 0.001 / confidence).powi(-2)) as i64;
    let app = cluster.recommend(&id("web")).unwrap().containers.remove(0);
    let bounds = [app.lower_bound, app.upper_bound].map(|bound| bound.cpu());
    assert_eq!(
        bounds,
        [lower, upper].map(|it| Some(Cpu::from_millicores(it)))
    );
}

#[test]
fn the_cap_of_a_number_is_explained() {
    let check = |min: Option<i64>, max: Option<i64>, global: Option<i64>, expected: Option<Cap>| {
        let policy = ContainerPolicy {
            container_name: "*".to_owned(),
            min_allowed: list(min, None),
            max_allowed: list(max, None),
            ..ContainerPolicy::default()
        };
        let config = Config {
            max_allowed: list(global, None),
            ..Config::default()
        };
        let cluster = cluster(config, vec![policy], false, &[(100, 100); 60]);
        let capped_by = cpu_target(&cluster).capped_by;
        assert_eq!(capped_by, expected, "{min:?} {max:?} {global:?}");
    };
    check(None, None, None, None);
    check(Some(100), Some(200), Some(300), None);
    check(Some(500), None, None, Some(Cap::MinAllowed));
    check(None, Some(50), None, Some(Cap::MaxAllowed));
    check(None, None, Some(50), Some(Cap::GlobalMaxAllowed));
    check(None, Some(200), Some(50), None);
    check(Some(500), Some(400), None, Some(Cap::MaxAllowed));
    check(Some(127), None, Some(126), None);
}

#[test]
fn what_is_not_sized_has_no_explanation() {
    let off = ContainerPolicy {
        container_name: "app".to_owned(),
        mode: ScalingMode::Off,
        ..ContainerPolicy::default()
    };
    let cluster = cluster(Config::default(), vec![off], false, &[(100, 100)]);
    assert_eq!(cluster.explain(&id("web"), "app"), None);
    assert_eq!(cluster.explain(&id("web"), "other"), None);
    assert_eq!(cluster.explain(&id("other"), "app"), None);
    assert!(cluster.explain(&id("web"), "side").is_some());
}

#[test]
fn a_sizing_policy_of_the_objects_own_is_a_step() {
    let spec = spec(&[("policy", "crane"), ("minimum-history", "0s")]);
    let cluster = cluster_of(Config::default(), spec, &[(250, 100); 60]);
    check(&cluster);
    let number = cpu_target(&cluster);
    // The VPA's method results in 258m and 15 %; Crane's, with buckets of a tenth of a core, in
    // 300m and 15 %.
    let end = number.method_steps.last().and_then(|step| step.value);
    assert_eq!((number.at_least_minimum, end), (296, Some(345.0)));
    assert_eq!(number.capped.to_string(), "345m");
}

#[test]
fn percentile_and_margin_of_the_object_are_steps() {
    let annotations = [
        ("plimsoll.dev/sizing-cpu-percentile", "p50"),
        ("plimsoll.dev/sizing-margin-fraction", "0.5"),
    ];
    let spec = VpaSpec {
        vpa_method: VpaMethodSettings::from_annotations(annotations).unwrap(),
        ..selecting(WEB)
    };
    // A sample weighs as much as it uses: these have weights of 9 and 5.
    let usage = [vec![(100, 100); 90], vec![(1000, 100); 5]].concat();
    let cluster = cluster_of(Config::default(), spec, &usage);
    check(&cluster);
    let number = cpu_target(&cluster);
    let margin = number.usage / 2;
    assert_eq!(
        (number.percentile, number.with_margin),
        (0.5, number.usage + margin)
    );
    // The percentile of the flags, 90 %, would be one core.
    assert!(number.usage < 200, "{number:?}");
}
