//! A thousand rounds in which every pod is replaced by one of another name with other labels: the
//! size of the state stays bounded.

use model::Labels;
use view::Pod;

use super::fixture::{Cluster, at, pod, vpa, web_key};
use crate::recommender_state::RecommenderState;

/// Two rounds per hour, so that the last ones are past the eight days that history is kept.
const ROUNDS: i64 = 1000;
const SECONDS: i64 = 1800;

/// As the pods of a cron job: found by one label, told apart by another.
fn run(round: i64) -> Pod {
    let name = format!("web-{round}");
    let labels = Labels::from_iter([("app", "web"), ("job-name", &name)]);
    Pod {
        labels,
        ..pod(&name, "web")
    }
}

/// Everything that the state holds by the piece.
fn entries(state: &RecommenderState) -> [usize; 7] {
    let size = state.cluster.size();
    let pods = state.cluster.pods().count() + state.gone.len();
    [
        pods,
        state.vpas.len(),
        size.pods,
        size.histories,
        size.label_sets,
        size.index_entries,
        state.cluster.slots(),
    ]
}

#[test]
fn a_thousand_rounds_of_churn_leave_no_more_than_the_retention() {
    let mut cluster = Cluster::web(&[]);
    let mut after_half = [0; 7];
    for round in 0..ROUNDS {
        let second = round * SECONDS;
        cluster.delete_pod(&format!("web-{}", round - 1));
        cluster.add_pod(run(round));
        let uid = format!("u{}", round / 10);
        cluster.apply(vpa("web", "web", &uid));
        cluster.load(second);
        let name = format!("web-{round}");
        assert_eq!(cluster.measure(&name, "main", second).accepted, 1);
        assert_eq!(cluster.kill(&name, second).accepted, 1);
        assert_eq!(cluster.decide(second).len(), 1);
        cluster.store(second);
        cluster.load_stored(second);
        cluster.state.collect_garbage(at(second));
        let entries = entries(&cluster.state);
        // Eight days of runs, those of the hour until the next collection, and three entries per run
        // in the index.
        let kept = 8 * 48 + 2;
        let most = [1, 1, 1, kept, kept, 3 * kept + 2, kept + 5];
        let is_within = entries.iter().zip(most).all(|(held, most)| *held <= most);
        assert!(is_within, "round {round}: {entries:?}, not {most:?}");
        if round == ROUNDS / 2 - 1 {
            after_half = entries;
        }
    }
    assert_eq!(
        entries(&cluster.state),
        after_half,
        "after half of the rounds"
    );
}

#[test]
fn an_object_with_too_many_container_names_says_so_and_stores_the_newest() {
    let mut cluster = Cluster::web(&[]);
    let omits = |cluster: &mut Cluster| {
        let status = cluster.decide_status(0);
        let mut conditions = status.conditions.iter();
        conditions.any(|found| found.kind == "ContainersOmitted" && found.status == "True")
    };
    for number in 0..=crate::MAX_CONTAINERS as i64 {
        assert!(
            !omits(&mut cluster) && cluster.state.crowded().is_empty(),
            "{number}"
        );
        let name = format!("web-{number}");
        let mut pod = pod(&name, "web");
        pod.containers[0].name.clone_from(&name);
        cluster.add_pod(pod);
        cluster.load(number);
        cluster.measure(&name, &name, number);
        cluster.delete_pod(&name);
        cluster.load(number);
    }
    assert!(omits(&mut cluster));
    let web = web_key();
    let kept = cluster.state.crowded().remove(&web).expect("too many");
    assert_eq!(kept.len(), crate::MAX_CONTAINERS);
    assert!(!kept.contains("web-0"), "{kept:?}");
    let stored = cluster
        .state
        .checkpoints(&web, at(crate::MAX_CONTAINERS as i64));
    assert_eq!(stored.len(), crate::MAX_CONTAINERS);
}
