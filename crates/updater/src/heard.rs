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
pub(crate) struct Ear {
    heard: Heard,
    /// Term and revision of each.
    versions: BTreeMap<String, (u64, u64)>,
}

impl Ear {
    /// Takes over what the feed tells now.
    pub(crate) fn listen(&mut self, following: &Following) {
        let mut told = BTreeMap::new();
        for (uid, heard) in following.iter() {
            let is_up = following.parts().iter().any(|part| {
                part.stale_since.is_none() && part.values.get(uid).is_some_and(|own| std::ptr::eq(own, heard))
            });
            let is_something = !heard.value.recommendation.containers.is_empty();
            if !is_up || !is_something {
                continue;
            }
            let version = (heard.term, heard.revision);
            told.insert(uid.to_owned(), version);
            if self.versions.get(uid) != Some(&version) {
                self.heard.insert(uid.to_owned(), Arc::new(heard.value.recommendation.clone()));
            }
        }
        self.heard.retain(|uid, _| told.contains_key(uid));
        self.versions = told;
    }

    /// What goes before the statuses.
    pub(crate) fn heard(&self) -> &Heard {
        &self.heard
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

    /// Whether an object with such a condition is frozen.
    fn check(kind: &str, status: &str, expected: bool) {
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": "web", "uid": "of-web"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            "status": {"conditions": [{"type": kind, "status": status}]},
        });
        let object = api::vpa::parse(object).expect("an autoscaler");
        let mut view = View::default();
        view.autoscalers.apply(Arc::new(Autoscaler { key: ObjectKey::new("shop", "web"), object }));
        assert_eq!(frozen(&view).contains("of-web"), expected, "{kind} is {status}");
    }

    #[test]
    fn an_object_is_frozen_while_its_source_of_usage_is_silent() {
        check("SourceStale", "True", true);
        check("SourceStale", "False", false);
        check("RecommendationProvided", "True", false);
    }
}
