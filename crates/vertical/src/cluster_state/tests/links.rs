//! Links between pods and VPAs, as labels, selectors and objects change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{ClusterState, PodSpec, VpaSpec};
use jiff::SignedDuration;
use model::{Labels, Requirement, Selector};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::MatchedVpa;
use super::fixture::{
    MIB, WEB, add_usual, cluster, container, id, minutes, pod, sample, selecting, start, web,
};

#[test]
fn a_pod_that_changes_its_labels_changes_its_vpa_and_keeps_its_state() {
    let mut cluster = web();
    cluster.apply_vpa(&id("db"), selecting(&[("app", "db")]));
    cluster.apply_pod(pod("web-1", &[("app", "db")]), start());
    assert_eq!(
        ["web", "db"].map(|name| cluster.pod_count(&id(name))),
        [Some(0), Some(1)]
    );
    let again = sample(start() + minutes(59), 100, 100 * MIB);
    let accepted = cluster.add_sample(&container("web-1", "app"), &again, again.at);
    let accepted = accepted.map(|accepted| (accepted.cpu, accepted.memory));
    assert_eq!(accepted, Ok((false, true)));
}

#[test]
fn vpas_of_one_selector_share_links_and_merged_histories() {
    let mut cluster = cluster();
    for number in 0..20 {
        cluster.apply_vpa(&id(&number.to_string()), selecting(WEB));
    }
    for number in 0..500 {
        let name = number.to_string();
        cluster.apply_pod(pod(&name, &[("app", "web"), ("run", &name)]), start());
        add_usual(&mut cluster, &name, start());
    }
    let namespace = &cluster.namespaces["shop"];
    let selections = namespace.histories.selections.iter();
    assert_eq!(selections.map(|all| all.groups.len()).sum::<usize>(), 500);
    for vpa in namespace.histories.vpas.values() {
        let histories: Vec<_> = MatchedVpa { namespace, vpa }.known().collect();
        assert_eq!(histories.len(), 1, "each is merged in a decision");
        assert_eq!(histories[0].1.samples(), 500);
    }
    let of_each = (0..20).map(|number| cluster.pod_requests(&id(&number.to_string())));
    let distinct: BTreeSet<_> = of_each.map(|it| it.map(std::ptr::from_ref)).collect();
    assert_eq!(distinct.len(), 1, "requests are collected once");
}

#[test]
fn requests_follow_the_pods() {
    let requests = |cluster: &ClusterState| {
        let requests = cluster.pod_requests(&id("web"));
        format!("{:?}", requests.expect("the selector is known"))
    };
    let with_request = |name: &str, cpu: &str| {
        let object = serde_json::json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]},
        });
        let object = serde_json::from_value(object).expect("a pod");
        let object = Some(Arc::new(view::Pod::from_k8s(object, false)));
        PodSpec {
            object,
            ..pod(name, WEB)
        }
    };
    let only = |cpu: &str| {
        let mut cluster = cluster();
        cluster.apply_vpa(&id("web"), selecting(WEB));
        cluster.apply_pod(with_request("web-1", cpu), start());
        requests(&cluster)
    };
    let mut cluster = cluster();
    cluster.apply_vpa(&id("web"), selecting(WEB));
    cluster.apply_pod(with_request("web-1", "1"), start());
    assert_eq!(requests(&cluster), only("1"));
    cluster.apply_pod(with_request("web-1", "2"), start());
    assert_eq!(requests(&cluster), only("2"), "a pod was resized");
    cluster.apply_pod(with_request("web-2", "3"), start());
    cluster.delete_pod("shop", "web-1");
    assert_eq!(requests(&cluster), only("3"), "a pod was replaced");
}

/// Few keys and values, so that selectors match sometimes.
fn labels() -> impl Strategy<Value = Labels> {
    vec(("[ab]", "[xyz]"), 0..3).prop_map(|labels| labels.into_iter().collect())
}

fn selector() -> impl Strategy<Value = Selector> {
    let requirement = ("[ab]", proptest::collection::btree_set("[xyz]", 1..3), 0..4).prop_map(
        |(key, values, kind)| match kind {
            0 => Requirement::In(key, values),
            1 => Requirement::NotIn(key, values),
            2 => Requirement::Exists(key),
            _ => Requirement::DoesNotExist(key),
        },
    );
    prop_oneof![9 => vec(requirement, 0..3).prop_map(Selector::new), 1 => Just(Selector::nothing())]
}

#[derive(Clone, Debug)]
enum Change {
    ApplyPod(u8, Labels),
    DeletePod(u8),
    ApplyVpa(u8, Selector),
    DeleteVpa(u8),
    Sample(u8),
    CollectGarbage,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..6_u8, labels()).prop_map(|(pod, labels)| Change::ApplyPod(pod, labels)),
        (0..6_u8).prop_map(Change::DeletePod),
        (0..4_u8, selector()).prop_map(|(vpa, selector)| Change::ApplyVpa(vpa, selector)),
        (0..4_u8).prop_map(Change::DeleteVpa),
        (0..6_u8).prop_map(Change::Sample),
        Just(Change::CollectGarbage),
    ]
}

proptest! {
    #[test]
    fn every_vpa_is_linked_to_exactly_the_pods_that_it_selects(changes in vec(change(), 0..60)) {
        let mut cluster = cluster();
        let mut pods = BTreeMap::new();
        let mut vpas = BTreeMap::new();
        for (hour, change) in changes.into_iter().enumerate() {
            match change {
                Change::ApplyPod(number, labels) => {
                    let spec = PodSpec { labels: labels.clone(), ..pod(&number.to_string(), &[]) };
                    cluster.apply_pod(spec, start());
                    pods.insert(number, labels);
                }
                Change::DeletePod(number) => {
                    cluster.delete_pod("shop", &number.to_string());
                    pods.remove(&number);
                }
                Change::ApplyVpa(number, selector) => {
                    let spec = VpaSpec { selector: selector.clone(), ..VpaSpec::default() };
                    cluster.apply_vpa(&id(&number.to_string()), spec);
                    vpas.insert(number, selector);
                }
                Change::DeleteVpa(number) => {
                    cluster.delete_vpa(&id(&number.to_string()));
                    vpas.remove(&number);
                }
                Change::Sample(_) => {}
                Change::CollectGarbage => {
                    cluster.collect_garbage(start() + SignedDuration::from_hours(hour as i64), true);
                }
            }
            for (number, selector) in &vpas {
                let expected = pods.values().filter(|labels| selector.matches(labels)).count();
                prop_assert_eq!(cluster.pod_count(&id(&number.to_string())), Some(expected));
            }
            prop_assert_eq!((cluster.size().pods, cluster.size().vpas), (pods.len(), vpas.len()));
        }
    }
}

proptest! {
    #[test]
    fn vpas_that_share_a_selector_know_what_each_would_know_alone(changes in vec(change(), 0..60)) {
        let mut alone = cluster();
        let mut shared = cluster();
        let ids = |number: u8| [id(&number.to_string()), id(&format!("{number}-b"))];
        for (hour, change) in changes.into_iter().enumerate() {
            let now = start() + SignedDuration::from_hours(hour as i64);
            match change {
                Change::ApplyPod(number, labels) => {
                    let spec = PodSpec { labels, ..pod(&number.to_string(), &[]) };
                    alone.apply_pod(spec.clone(), now);
                    shared.apply_pod(spec, now);
                }
                Change::DeletePod(number) => {
                    let name = number.to_string();
                    alone.delete_pod("shop", &name);
                    shared.delete_pod("shop", &name);
                }
                Change::ApplyVpa(number, selector) => {
                    let spec = VpaSpec { selector, ..VpaSpec::default() };
                    alone.apply_vpa(&ids(number)[0], spec.clone());
                    for id in ids(number) {
                        shared.apply_vpa(&id, spec.clone());
                    }
                }
                Change::DeleteVpa(number) => {
                    alone.delete_vpa(&ids(number)[0]);
                    for id in ids(number) {
                        shared.delete_vpa(&id);
                    }
                }
                Change::Sample(number) => {
                    let (container, sample) =
                        (container(&number.to_string(), "app"), sample(now, 100, 100 * MIB));
                    let added = [&mut alone, &mut shared]
                        .map(|cluster| cluster.add_sample(&container, &sample, now));
                    prop_assert_eq!(&added[0], &added[1]);
                }
                Change::CollectGarbage => {
                    let dropped = [&mut alone, &mut shared].map(|cluster| cluster.collect_garbage(now, true));
                    prop_assert_eq!(dropped[0], dropped[1]);
                }
            }
            for number in 0..4 {
                let samples = |cluster: &ClusterState, id| {
                    let histories = cluster.histories(id)?;
                    let samples = histories.into_iter().map(|(name, known)| (name, known.samples()));
                    Some(samples.collect::<BTreeMap<_, _>>())
                };
                let ids = ids(number);
                let expected = samples(&alone, &ids[0]);
                for id in &ids {
                    prop_assert_eq!(&samples(&shared, id), &expected, "{}", id);
                }
            }
        }
    }
}
