//! A thousand rounds in which every pod is replaced by one of another name with other labels:
//! nothing piles up.

use std::sync::Arc;

use model::Labels;
use view::{ObjectKey, Pod};

use super::fixture::{Cluster, at, autoscaler, pod};
use crate::state::RecommenderState;

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
    let pods = state.pods.len() + state.gone.len();
    [
        pods,
        state.autoscalers.len(),
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
        cluster
            .view
            .pods
            .delete(&ObjectKey::new("shop", format!("web-{}", round - 1)));
        cluster.view.pods.apply(Arc::new(run(round)));
        let uid = format!("u{}", round / 10);
        cluster
            .view
            .autoscalers
            .apply(Arc::new(autoscaler("web", "web", &uid, None)));
        cluster.load(second);
        assert_eq!(
            cluster
                .measure(&format!("web-{round}"), "main", second)
                .accepted,
            1
        );
        assert_eq!(cluster.kill(&format!("web-{round}"), second).accepted, 1);
        assert_eq!(cluster.decide(second).len(), 1);
        cluster.store(second);
        cluster.load_stored(second);
        cluster.state.collect_garbage(at(second));
        let entries = entries(&cluster.state);
        // Eight days of runs, those of the hour until the next collection, and two entries per run
        // in the index.
        let kept = 8 * 48 + 2;
        let most = [1, 1, 1, kept, kept, 2 * kept + 1, kept + 4];
        assert!(
            entries.iter().zip(most).all(|(held, most)| *held <= most),
            "round {round}: {entries:?}, not {most:?}"
        );
        if round == ROUNDS / 2 - 1 {
            after_half = entries;
        }
    }
    assert_eq!(
        entries(&cluster.state),
        after_half,
        "what was there after half of the rounds"
    );
}

#[test]
fn an_object_with_too_many_container_names_says_so_and_stores_the_newest() {
    let mut cluster = Cluster::web(&[]);
    let omits = |cluster: &mut Cluster| {
        let status = cluster.decide(0).remove(0).status;
        status
            .conditions
            .iter()
            .any(|condition| condition.kind == "ContainersOmitted" && condition.status == "True")
    };
    for number in 0..=crate::MAX_CONTAINERS as i64 {
        assert!(
            !omits(&mut cluster) && cluster.state.crowded().is_empty(),
            "{number}"
        );
        let name = format!("web-{number}");
        let mut pod = pod(&name, "web");
        pod.containers[0].name.clone_from(&name);
        cluster.view.pods.apply(Arc::new(pod));
        cluster.load(number);
        cluster.measure(&name, &name, number);
        cluster.view.pods.delete(&ObjectKey::new("shop", &name));
        cluster.load(number);
    }
    assert!(omits(&mut cluster));
    let web = ObjectKey::new("shop", "web");
    let kept = cluster.state.crowded().remove(&web).expect("too many");
    assert!(
        kept.len() == crate::MAX_CONTAINERS && !kept.contains("web-0"),
        "{kept:?}"
    );
    let stored = cluster
        .state
        .checkpoints(&web, at(crate::MAX_CONTAINERS as i64));
    assert_eq!(stored.len(), crate::MAX_CONTAINERS);
}
