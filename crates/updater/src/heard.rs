//! The feed's recommendations as decisions read them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::{Autoscaler, View};
use feed::Following;
use model::Recommendation;

/// The recommendations that go before the statuses, by the objects' unique identifiers.
pub(crate) type Heard = BTreeMap<String, Arc<Recommendation>>;

/// The last state of the feed.
#[derive(Debug, Default)]
pub(crate) struct Ear {
    following: Option<Following>,
    /// What counted at the last pass, with what it was copied from.
    copies: BTreeMap<String, (Arc<feed::Recommendation>, Arc<Recommendation>)>,
}

impl Ear {
    /// Takes over what the feed tells now.
    pub(crate) fn listen(&mut self, following: &Following) {
        self.following = Some(following.clone());
    }

    /// The recommendations that go before the statuses of these objects, by the rule that the webhook follows too
    /// ([`Following::over_status`]).
    pub(crate) fn over(&mut self, view: &View) -> Heard {
        let Some(following) = &self.following else { return Heard::default() };
        let mut before = std::mem::take(&mut self.copies);
        let over = |autoscaler: &Arc<Autoscaler>| {
            let uid = autoscaler.uid();
            let status = autoscaler.object.status.as_ref();
            let written = status.and_then(|status| status.recommendation.as_ref());
            let is_written = written.is_some_and(|written| !written.container_recommendations.is_empty());
            let heard =
                following.over_status(uid, status.map_or(0, |status| status.observed_generation), is_written)?;
            let copy = before.remove(uid).filter(|(source, _)| Arc::ptr_eq(source, &heard.value));
            let new = || (Arc::clone(&heard.value), Arc::new(heard.value.recommendation.clone()));
            Some((uid.to_owned(), copy.unwrap_or_else(new)))
        };
        self.copies = view.autoscalers.iter().filter_map(over).collect();
        self.copies.iter().map(|(uid, (_, recommendation))| (uid.clone(), Arc::clone(recommendation))).collect()
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
        let written = json!({"containerRecommendations": [{"containerName": "app", "target": {"cpu": "1"}}]});
        check_over(3, false, &json!({"observedGeneration": 3, "recommendation": written}), false);
        check_over(3, true, &json!({"observedGeneration": 3, "recommendation": written}), true);
    }

    #[test]
    fn without_a_recommendation_in_the_status_the_last_one_that_was_heard_counts() {
        for status in [json!({"observedGeneration": 3}), json!({"recommendation": {"containerRecommendations": []}})] {
            check_over(3, false, &status, true);
        }
    }

    #[test]
    fn an_object_is_frozen_while_its_source_of_usage_is_silent() {
        check("SourceStale", "True", true);
        check("SourceStale", "False", false);
        check("RecommendationProvided", "True", false);
    }
}
