//! Churn of pods and VPAs over a thousand rounds, with new names and labels. The state stays
//! within the retention of eight days, and is empty after it.

use super::inspection::ClusterStateSize;
use crate::{ClusterState, PodSpec};
use jiff::{SignedDuration, Timestamp};
use model::{ContainerRef, Labels, Memory};
use sizing::Config;
use view::{ObjectKey, Phase};

use super::fixture::{minutes, sample, selecting};

const ROUNDS: i64 = 1000;
const HALF_HOUR: SignedDuration = SignedDuration::from_mins(30);
/// Rounds in the retention of eight days.
const RETENTION: i64 = 8 * 48;
/// Rounds between garbage collections, one hour.
const COLLECTED_EVERY: i64 = 2;
const PODS: i64 = 4;

/// Rounds after which the pods move to a new namespace, so that whole namespaces come and go.
const ROUNDS_OF_NAMESPACE: i64 = 100;

fn namespace(round: i64) -> String {
    format!("shop-{}", round / ROUNDS_OF_NAMESPACE)
}

fn time(round: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + HALF_HOUR * i32::try_from(round).unwrap()
}

/// Like pods of jobs: with labels that no other pod has.
fn pod(round: i64, number: i64) -> PodSpec {
    let name = format!("job-{round}-{number}");
    PodSpec {
        namespace: namespace(round),
        labels: Labels::from_iter([("app", "job"), ("job-name", &name)]),
        name,
        phase: Phase::Running,
        containers: vec!["main".to_owned()],
        ..PodSpec::default()
    }
}

fn vpa(round: i64) -> ObjectKey {
    ObjectKey::new(namespace(round), format!("auto-{round}"))
}

/// Creates and measures the pods of a round, changes a label and measures again, and deletes the
/// pods of the previous round.
fn round(cluster: &mut ClusterState, round: i64) {
    let now = time(round);
    let before = round - 1;
    for number in 0..PODS {
        let spec = pod(round, number);
        let container = ContainerRef {
            namespace: spec.namespace.clone(),
            pod: spec.name.clone(),
            container: "main".to_owned(),
        };
        let relabelled = spec.labels.iter().chain([("phase", "second")]).collect();
        for (minute, labels) in [(0, spec.labels.clone()), (1, relabelled)] {
            cluster.apply_pod(
                PodSpec {
                    labels,
                    ..spec.clone()
                },
                now,
            );
            let sample = sample(now + minutes(minute), 100, 1 << 28);
            assert!(
                cluster
                    .add_sample(&container, &sample, sample.at)
                    .unwrap()
                    .cpu
            );
        }
        cluster
            .record_oom(&container, now, Memory::from_bytes(1 << 29), now)
            .unwrap();
        cluster.delete_pod(&namespace(before), &pod(before, number).name);
    }
    cluster.apply_vpa(&vpa(round), selecting(&[("app", "job")]));
    cluster.delete_vpa(&vpa(before));
    let recommended = cluster.recommend(&vpa(round)).expect("it is there");
    assert_eq!(recommended.containers.len(), 1);
    cluster.collect_garbage(now, true);
}

#[test]
fn a_thousand_rounds_of_churn_leave_no_more_than_the_retention_and_nothing_after_it() {
    let mut cluster = ClusterState::new(Config::default()).unwrap();
    // Two label sets per pod, plus the rounds since the last collection.
    let kept = usize::try_from((RETENTION + COLLECTED_EVERY) * PODS * 2).unwrap();
    // Free slots end with their namespace, of which five exist at a time.
    let namespaces = RETENTION / ROUNDS_OF_NAMESPACE + 2;
    let places = namespaces * (ROUNDS_OF_NAMESPACE + 2) * PODS * 2;
    let places = usize::try_from(places).unwrap();
    let mut largest = ClusterStateSize::default();
    for number in 0..ROUNDS {
        round(&mut cluster, number);
        let size = cluster.size();
        let most = size.histories.max(size.label_sets);
        assert!(most <= kept, "round {number}: {size:?}");
        assert_eq!((size.pods as i64, size.vpas), (PODS, 1), "round {number}");
        // One posting per label, and one of the VPA.
        assert!(
            size.index_entries <= kept * 3 + 1,
            "round {number}: {size:?}"
        );
        let slots = cluster.slots();
        assert!(slots <= places, "round {number}: {slots}");
        if number == ROUNDS / 2 {
            largest = size;
        }
    }
    let last = cluster.size();
    let grown = last.histories as f64 / largest.histories as f64;
    assert!((0.9..1.1).contains(&grown), "from {largest:?} to {last:?}");
    for number in 0..PODS {
        cluster.delete_pod(&namespace(ROUNDS - 1), &pod(ROUNDS - 1, number).name);
    }
    cluster.delete_vpa(&vpa(ROUNDS - 1));
    cluster.collect_garbage(time(ROUNDS + RETENTION), true);
    assert_eq!(cluster.size(), ClusterStateSize::default());
}
