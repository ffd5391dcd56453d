//! The feed's recommendations as decisions read them.
//!
//! While the feed is up, what it tells is newer than the status of the same object; while it is down, the status is what others
//! may have gone on writing, and counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::{Autoscaler, View};
use feed::Following;
use model::Recommendation;

/// The recommendations that go before the statuses, by the objects' unique identifiers.
pub(crate) type Heard = BTreeMap<String, Arc<Recommendation>>;

/// Keeps what was heard last, so that only what changed is read anew.
#[derive(Debug, Default)]
pub(crate) struct Ear(BTreeMap<String, Known>);

/// What was heard of one object.
#[derive(Debug)]
struct Known {
    term: u64,
    revision: u64,
    /// Generation of the object that it is about.
    generation: i64,
    recommendation: Arc<Recommendation>,
}

impl Ear {
    /// Takes over what the feed tells now.
    pub(crate) fn listen(&mut self, following: &Following) {
        let mut before = std::mem::take(&mut self.0);
        for (uid, _) in following.iter() {
            let Some(heard) = following.get_fresh(uid) else { continue };
            let (term, revision) = (heard.term, heard.revision);
            if heard.value.recommendation.containers.is_empty() {
                continue;
            }
            let known = before.remove(uid).filter(|known| (known.term, known.revision) == (term, revision));
            let known = known.unwrap_or_else(|| Known {
                term,
                revision,
                generation: heard.value.observed_generation,
                recommendation: Arc::new(heard.value.recommendation.clone()),
            });
            self.0.insert(uid.to_owned(), known);
        }
    }

    /// What goes before the statuses of these objects: what is about the same generation of the object or a newer one. So the webhook
    /// has it, and pods must come back with the size that they were evicted for.
    pub(crate) fn over(&self, view: &View) -> Heard {
        let over = |autoscaler: &Arc<Autoscaler>| {
            let known = self.0.get(autoscaler.uid())?;
            let written = autoscaler.object.status.as_ref().map_or(0, |status| status.observed_generation);
            (known.generation >= written).then(|| (autoscaler.uid().to_owned(), Arc::clone(&known.recommendation)))
        };
        view.autoscalers.iter().filter_map(over).collect()
    }
}

/// Identifiers of the objects whose recommendations do not move because usage is missing, as their conditions say.
pub(crate) fn frozen(view: &View) -> BTreeSet<String> {
    let is_frozen = |autoscaler: &&Arc<Autoscaler>| {
        let conditions = autoscaler.object.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| condition.kind == api::vpa::SOURCE_STALE && condition.status == "True")
    };
    view.autoscalers.iter().filter(is_frozen).map(|autoscaler| autoscaler.uid().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use cluster::ObjectKey;
    use serde_json::json;

    use super::*;

    /// One object with this status.
    fn view(status: &serde_json::Value) -> View {
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": "web", "uid": "of-web"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            "status": status,
        });
        let object = api::vpa::parse(object).expect("an autoscaler");
        let mut view = View::default();
        view.autoscalers.apply(Arc::new(Autoscaler { key: ObjectKey::new("shop", "web"), object }));
        view
    }

    /// Whether an object with such a condition is frozen.
    fn check(kind: &str, status: &str, expected: bool) {
        let view = view(&json!({"conditions": [{"type": kind, "status": status}]}));
        assert_eq!(frozen(&view).contains("of-web"), expected, "{kind} is {status}");
    }

    /// Whether what was heard about one generation goes before a status that is about another.
    fn check_over(heard: i64, is_fresh: bool, status: &serde_json::Value, expected: bool) {
        let container = model::ContainerRecommendation::default();
        let value = Arc::new(feed::Recommendation {
            uid: "of-web".to_owned(),
            observed_generation: heard,
            recommendation: Recommendation { containers: vec![container] },
            ..feed::Recommendation::default()
        });
        let told = feed::client::Heard { value, term: 1, revision: 1, changed_at: jiff::Timestamp::UNIX_EPOCH };
        let stale_since = (!is_fresh).then(std::time::Instant::now);
        let part = feed::client::Part { values: [("of-web".to_owned(), told)].into(), stale_since };
        let mut ear = Ear::default();
        ear.listen(&Following::from_parts(vec![part]));
        let goes_before = ear.over(&view(status)).contains_key("of-web");
        assert_eq!(goes_before, expected, "{heard} before {status}");
    }

    #[test]
    fn what_is_heard_goes_before_a_status_that_is_not_about_a_newer_generation() {
        check_over(3, true, &json!({"observedGeneration": 3}), true);
        check_over(3, true, &json!({}), true);
        check_over(3, true, &json!({"observedGeneration": 4}), false);
        check_over(3, false, &json!({"observedGeneration": 3}), false);
    }

    #[test]
    fn an_object_is_frozen_while_its_source_of_usage_is_silent() {
        check("SourceStale", "True", true);
        check("SourceStale", "False", false);
        check("RecommendationProvided", "True", false);
    }
}
