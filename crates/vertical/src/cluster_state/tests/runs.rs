//! Workloads whose history counts in runs: ends of pods, explanation, garbage collection.

use crate::{ClusterState, PodSpec};
use model::{Memory, ResourceName};
use view::Phase;

use super::fixture::{MIB, WEB, container, id, pod};
use super::sizing_method::{DAY, add, at, cluster, recommended, target};

const RUNS: &[(&str, &str)] = &[("policy", "plimsoll"), ("history-unit", "runs")];

/// The VPAs `web`, which counts runs, and `plain`; no pods.
fn without_pods() -> ClusterState {
    let mut cluster = cluster(RUNS);
    for pod in ["web-1", "web-2"] {
        cluster.delete_pod("shop", pod);
    }
    cluster
}

fn finished(name: &str, phase: Phase) -> PodSpec {
    PodSpec {
        phase,
        ..pod(name, WEB)
    }
}

/// A run of three minutes, of a pod that ends.
fn run(cluster: &mut ClusterState, name: &str, minute: i64, mebibytes: i64) {
    cluster.apply_pod(pod(name, WEB), at(minute));
    for minute in minute..minute + 3 {
        add(cluster, name, minute, 500, mebibytes);
        cluster.end_runs();
    }
    cluster.delete_pod("shop", name);
    cluster.end_runs();
}

fn step(cluster: &ClusterState, name: &str) -> Option<f64> {
    let explained = cluster.explain(&id("web"), "app")?;
    let mut numbers = explained.into_iter();
    let memory = numbers.find(|number| number.resource == ResourceName::Memory)?;
    let step = memory
        .method_steps
        .into_iter()
        .find(|step| step.name == name);
    step?.value
}

#[test]
fn a_run_ends_with_its_pod() {
    for end in [
        Some(Phase::Succeeded),
        Some(Phase::Failed),
        None,
        Some(Phase::Running),
        Some(Phase::Unknown),
    ] {
        let mut cluster = without_pods();
        run(&mut cluster, "web-0", 0, 500);
        for name in ["web-1", "web-2"] {
            cluster.apply_pod(pod(name, WEB), at(60));
            add(&mut cluster, name, 60, 500, 800);
        }
        cluster.end_runs();
        let before = step(&cluster, "history");
        match end {
            Some(phase) => cluster.apply_pod(finished("web-1", phase), at(61)),
            None => cluster.delete_pod("shop", "web-1"),
        }
        cluster.end_runs();
        let has_ended = !matches!(end, Some(Phase::Running | Phase::Unknown));
        let ended = if has_ended { 2.0 } else { 1.0 };
        assert_eq!(before, Some(1.0), "{end:?}");
        assert_eq!(step(&cluster, "history"), Some(ended), "{end:?}");
        assert_eq!(
            step(&cluster, "runs-in-progress"),
            Some(3.0 - ended),
            "{end:?}"
        );
    }
}

#[test]
fn a_weekly_run_keeps_its_history_for_weeks_without_samples() {
    let mut cluster = without_pods();
    for week in 0..6 {
        let minute = week * 7 * DAY;
        run(&mut cluster, &format!("web-{week}"), minute, 2000);
        cluster.collect_garbage(at(minute + 6 * DAY), true);
    }
    let (_, before) = target(&cluster, "web").unwrap();
    assert!(before >= 2000 * MIB);
    // The next run comes after two months.
    cluster.collect_garbage(at(100 * DAY), true);
    let minute = 100 * DAY + 60;
    run(&mut cluster, "web-late", minute, 200);
    assert_eq!(step(&cluster, "history"), Some(7.0));
    assert!(target(&cluster, "web").unwrap().1 >= 2000 * MIB);
    cluster.collect_garbage(at(minute + 101 * DAY), true);
    run(&mut cluster, "web-later", minute + 101 * DAY, 200);
    assert_eq!(step(&cluster, "history"), Some(1.0), "forgotten");
}

#[test]
fn targets_are_explained_and_the_bounds_are_those_of_runs() {
    let mut cluster = without_pods();
    for day in 0..9 {
        run(
            &mut cluster,
            &format!("web-{day}"),
            day * DAY,
            500 + day * 50,
        );
    }
    cluster.apply_pod(pod("web-10", WEB), at(10 * DAY));
    let memory = Memory::from_bytes(1024 * MIB);
    let now = at(10 * DAY);
    cluster
        .record_oom(&container("web-10", "app"), now, memory, now)
        .unwrap();
    let explained = cluster.explain(&id("web"), "app").unwrap();
    let own = recommended(&cluster, "web").unwrap();
    for number in &explained {
        assert_eq!(Some(&number.capped), own.target.get(&number.resource));
        let mut steps = number.method_steps.iter();
        assert!(steps.any(|step| step.name == "request-after-10-percent-rule"));
    }
    let bytes = |list: &model::ResourceList| list.memory().unwrap().bytes();
    assert!(bytes(&own.lower_bound) < bytes(&own.target) * 10 / 11);
    assert!(bytes(&own.upper_bound) > bytes(&own.target));
    assert!(bytes(&own.target) >= 1024 * MIB * 12 / 10);
}

#[test]
fn published_values_stay_until_three_runs_have_ended() {
    let mut cluster = without_pods();
    let published = model::Recommendation {
        containers: vec![model::ContainerRecommendation {
            container_name: "app".to_owned(),
            target: super::fixture::list(2000, 4000),
            ..model::ContainerRecommendation::default()
        }],
    };
    for week in 1..=4 {
        run(&mut cluster, &format!("web-{week}"), week * 7 * DAY, 500);
        let mut recommendation = cluster.recommend(&id("web")).unwrap();
        let found = recommendation.clone();
        cluster.keep_published(&id("web"), &mut recommendation, &published);
        assert_eq!(recommendation == found, week >= 3, "after {week} runs");
    }
}
