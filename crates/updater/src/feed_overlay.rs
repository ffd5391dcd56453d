//! Recommendations of the feed that take precedence over the status of VPA objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use feed::Subscription;
use rollout::Recommendations;
use tokio::sync::watch;
use view::{Change, ChangeTracker, View, Vpa};

#[derive(Debug)]
pub(crate) struct FeedOverlay {
    /// The feed, if it is configured.
    feed: Option<watch::Receiver<Subscription>>,
    subscription: Subscription,
    /// Whether the feed has changed since the last pass.
    has_changed: bool,
    /// The VPA objects at the last pass.
    tracker: ChangeTracker<Vpa>,
    recommendations: Recommendations,
    /// The values that `recommendations` are copies of, to copy only new ones.
    sources: BTreeMap<String, Arc<feed::Recommendation>>,
}

impl FeedOverlay {
    pub(crate) fn new(feed: Option<watch::Receiver<Subscription>>) -> Self {
        Self {
            feed,
            subscription: Subscription::from_leaders(Vec::new()),
            has_changed: true,
            tracker: ChangeTracker::default(),
            recommendations: Recommendations::default(),
            sources: BTreeMap::new(),
        }
    }

    /// Waits for a change of the feed; for ever without one.
    pub(crate) async fn changed(&mut self) {
        let Some(feed) = &mut self.feed else {
            return std::future::pending().await;
        };
        if feed.changed().await.is_err() {
            self.feed = None;
        }
        self.has_changed = true;
    }

    /// The recommendations that take precedence over the status of these VPA objects, by the rule
    /// that the webhook follows too ([`Subscription::over_status`]).
    pub(crate) fn recommendations_for(&mut self, view: &View) -> &Recommendations {
        let is_new = std::mem::take(&mut self.has_changed);
        if is_new && let Some(feed) = &mut self.feed {
            self.subscription = feed.borrow_and_update().clone();
        }
        let changes = self.tracker.changes(view.vpas.iter());
        for Change { old, new } in &changes {
            let uid = new.as_ref().map(|new| new.uid());
            if let Some(old) = old.as_ref().filter(|old| uid != Some(old.uid())) {
                self.set(old.uid(), None);
            }
        }
        let others = changes.iter().filter_map(|change| change.new.as_ref());
        let affected: Vec<_> = if is_new {
            view.vpas.iter().collect()
        } else {
            others.collect()
        };
        for vpa in affected {
            let value = of(&self.subscription, vpa).cloned();
            self.set(vpa.uid(), value);
        }
        &self.recommendations
    }

    fn set(&mut self, uid: &str, value: Option<Arc<feed::Recommendation>>) {
        let Some(value) = value else {
            self.sources.remove(uid);
            self.recommendations.remove(uid);
            return;
        };
        let source = self.sources.get(uid);
        if source.is_none_or(|source| !Arc::ptr_eq(source, &value)) {
            let recommendation = Arc::new(value.recommendation.clone());
            self.recommendations.insert(uid.to_owned(), recommendation);
            self.sources.insert(uid.to_owned(), value);
        }
    }
}

/// The value of the feed for a VPA object, if it takes precedence over the status.
fn of<'a>(subscription: &'a Subscription, vpa: &Vpa) -> Option<&'a Arc<feed::Recommendation>> {
    let status = vpa.object.status.as_ref();
    let generation = status.map_or(0, |status| status.observed_generation);
    let is_written = vpa.recommendation().is_some();
    let received = subscription.over_status(vpa.uid(), generation, is_written)?;
    Some(&received.value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use view::ObjectKey;

    use super::*;
    use crate::fixture;

    /// A view of one VPA object with this status.
    fn view(status: &serde_json::Value) -> View {
        let mut view = View::default();
        let vpa = fixture::vpa(&json!({"status": status}));
        view.vpas.apply(Arc::new(vpa));
        view
    }

    fn recommendation(uid: &str, observed_generation: i64) -> Arc<feed::Recommendation> {
        let containers = vec![model::ContainerRecommendation::default()];
        Arc::new(feed::Recommendation {
            uid: uid.to_owned(),
            observed_generation,
            recommendation: model::Recommendation { containers },
            ..feed::Recommendation::default()
        })
    }

    impl FeedOverlay {
        fn update(&mut self, values: &[&Arc<feed::Recommendation>], is_fresh: bool) {
            let received = values.iter().map(|value| {
                let received = feed::client::Received {
                    value: Arc::clone(value),
                    term: 1,
                    revision: 1,
                    changed_at: jiff::Timestamp::UNIX_EPOCH,
                };
                (value.uid.clone(), received)
            });
            let leader = feed::client::LeaderState {
                values: received.collect(),
                stale_since: (!is_fresh).then(std::time::Instant::now),
            };
            self.subscription = Subscription::from_leaders(vec![leader]);
            self.has_changed = true;
        }
    }

    /// Whether a value for one generation takes precedence over a status of another.
    fn check_over(generation: i64, is_fresh: bool, status: &serde_json::Value, expected: bool) {
        let mut overlay = FeedOverlay::new(None);
        overlay.update(&[&recommendation("of-web", generation)], is_fresh);
        let goes_before = overlay
            .recommendations_for(&view(status))
            .contains_key("of-web");
        assert_eq!(goes_before, expected, "{generation} before {status}");
    }

    #[test]
    fn a_value_takes_precedence_over_a_status_that_is_not_of_a_newer_generation() {
        check_over(3, true, &json!({"observedGeneration": 3}), true);
        check_over(3, true, &json!({}), true);
        check_over(3, true, &json!({"observedGeneration": 4}), false);
        let written =
            json!({"containerRecommendations": [{"containerName": "app", "target": {"cpu": "1"}}]});
        let status = json!({"observedGeneration": 3, "recommendation": written});
        check_over(3, false, &status, false);
        check_over(3, true, &status, true);
    }

    #[test]
    fn without_a_recommendation_in_the_status_the_last_value_counts() {
        for status in [
            json!({"observedGeneration": 3}),
            json!({"recommendation": {"containerRecommendations": []}}),
        ] {
            check_over(3, false, &status, true);
        }
    }

    #[test]
    fn only_changed_values_are_copied() {
        let first = recommendation("of-web", 0);
        let (mut view, mut overlay) = (view(&json!({})), FeedOverlay::new(None));
        let copy = |overlay: &mut FeedOverlay, view: &View| {
            overlay.recommendations_for(view).get("of-web").cloned()
        };
        overlay.update(&[&first], true);
        let before = copy(&mut overlay, &view).expect("the feed has a value");
        overlay.update(&[&first, &recommendation("of-other", 0)], true);
        let after = copy(&mut overlay, &view).expect("the feed has a value");
        assert!(Arc::ptr_eq(&before, &after));
        overlay.update(&[&recommendation("of-web", 0)], true);
        let after = copy(&mut overlay, &view).expect("the feed has a value");
        assert!(!Arc::ptr_eq(&before, &after));
        view.vpas.delete(&ObjectKey::new("shop", "web"));
        assert_eq!(copy(&mut overlay, &view), None, "the object is gone");
    }
}
