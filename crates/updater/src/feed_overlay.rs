//! Recommendations of the feed that take precedence over the status of VPA objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use feed::Subscription;
use rollout::{ChangeTracker, Recommendations};
use view::{Autoscaler, Change, View};

/// The overlay: the last state of the feed, and the recommendations in it that take precedence.
#[derive(Debug, Default)]
pub(crate) struct FeedOverlay {
    subscription: Option<Subscription>,
    /// Whether the feed has changed since the last pass.
    has_changed: bool,
    /// The VPA objects at the last pass.
    tracker: ChangeTracker<Autoscaler>,
    recommendations: Recommendations,
    /// The values that `recommendations` are copies of, to copy only new ones.
    sources: BTreeMap<String, Arc<feed::Recommendation>>,
}

impl FeedOverlay {
    /// Takes in the state of the feed.
    pub(crate) fn update(&mut self, subscription: &Subscription) {
        self.subscription = Some(subscription.clone());
        self.has_changed = true;
    }

    /// The recommendations that take precedence over the status of these VPA objects, by the rule
    /// that the webhook follows too ([`Subscription::over_status`]).
    pub(crate) fn recommendations_for(&mut self, view: &View) -> &Recommendations {
        let Some(subscription) = self.subscription.take() else {
            return &self.recommendations;
        };
        let changes = self.tracker.changes(view.autoscalers.iter());
        for Change { old, new } in &changes {
            let uid = new.as_ref().map(|new| new.uid());
            if let Some(gone) = old
                .as_ref()
                .map(|old| old.uid())
                .filter(|old| uid != Some(*old))
            {
                self.set(gone, None);
            }
        }
        if std::mem::take(&mut self.has_changed) {
            view.autoscalers
                .iter()
                .for_each(|vpa| self.set(vpa.uid(), of(&subscription, vpa)));
        } else {
            let others = changes.iter().filter_map(|change| change.new.as_ref());
            others.for_each(|vpa| self.set(vpa.uid(), of(&subscription, vpa)));
        }
        self.subscription = Some(subscription);
        &self.recommendations
    }

    fn set(&mut self, uid: &str, value: Option<&Arc<feed::Recommendation>>) {
        let Some(value) = value else {
            self.sources.remove(uid);
            self.recommendations.remove(uid);
            return;
        };
        if !self
            .sources
            .get(uid)
            .is_some_and(|source| Arc::ptr_eq(source, value))
        {
            self.sources.insert(uid.to_owned(), Arc::clone(value));
            self.recommendations
                .insert(uid.to_owned(), Arc::new(value.recommendation.clone()));
        }
    }
}

/// The value of the feed for a VPA object, if it takes precedence over the status.
fn of<'a>(
    subscription: &'a Subscription,
    vpa: &Autoscaler,
) -> Option<&'a Arc<feed::Recommendation>> {
    let status = vpa.object.status.as_ref();
    let written = status.and_then(|status| status.recommendation.as_ref());
    let is_written = written.is_some_and(|written| !written.container_recommendations.is_empty());
    let generation = status.map_or(0, |status| status.observed_generation);
    subscription
        .over_status(vpa.uid(), generation, is_written)
        .map(|received| &received.value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use view::ObjectKey;

    use super::*;

    /// A view of one VPA object with this status.
    fn view(status: &serde_json::Value) -> View {
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": "web", "uid": "of-web"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            "status": status,
        });
        let object = api::vpa::parse(object).expect("a VPA object");
        let mut view = View::default();
        view.autoscalers.apply(Arc::new(Autoscaler {
            key: ObjectKey::new("shop", "web"),
            object,
        }));
        view
    }

    /// Whether a value for one generation takes precedence over a status of another.
    fn check_over(
        recommendations: i64,
        is_fresh: bool,
        status: &serde_json::Value,
        expected: bool,
    ) {
        let container = model::ContainerRecommendation::default();
        let value = Arc::new(feed::Recommendation {
            uid: "of-web".to_owned(),
            observed_generation: recommendations,
            recommendation: model::Recommendation {
                containers: vec![container],
            },
            ..feed::Recommendation::default()
        });
        let received = feed::client::Received {
            value,
            term: 1,
            revision: 1,
            changed_at: jiff::Timestamp::UNIX_EPOCH,
        };
        let stale_since = (!is_fresh).then(std::time::Instant::now);
        let part = feed::client::LeaderState {
            values: [("of-web".to_owned(), received)].into(),
            stale_since,
        };
        let mut overlay = FeedOverlay::default();
        overlay.update(&Subscription::from_leaders(vec![part]));
        let goes_before = overlay
            .recommendations_for(&view(status))
            .contains_key("of-web");
        assert_eq!(goes_before, expected, "{recommendations} before {status}");
    }

    #[test]
    fn a_value_takes_precedence_over_a_status_that_is_not_of_a_newer_generation() {
        check_over(3, true, &json!({"observedGeneration": 3}), true);
        check_over(3, true, &json!({}), true);
        check_over(3, true, &json!({"observedGeneration": 4}), false);
        let written =
            json!({"containerRecommendations": [{"containerName": "app", "target": {"cpu": "1"}}]});
        check_over(
            3,
            false,
            &json!({"observedGeneration": 3, "recommendation": written}),
            false,
        );
        check_over(
            3,
            true,
            &json!({"observedGeneration": 3, "recommendation": written}),
            true,
        );
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
        let value = |uid: &str| {
            let containers = vec![model::ContainerRecommendation::default()];
            let recommendation = model::Recommendation { containers };
            Arc::new(feed::Recommendation {
                uid: uid.to_owned(),
                recommendation,
                ..feed::Recommendation::default()
            })
        };
        let subscription = |values: &[&Arc<feed::Recommendation>]| {
            let recommendations = |value: &&Arc<feed::Recommendation>| {
                let value = Arc::clone(value);
                feed::client::Received {
                    value,
                    term: 1,
                    revision: 1,
                    changed_at: jiff::Timestamp::UNIX_EPOCH,
                }
            };
            let values = values
                .iter()
                .map(|value| (value.uid.clone(), recommendations(value)))
                .collect();
            Subscription::from_leaders(vec![feed::client::LeaderState {
                values,
                stale_since: None,
            }])
        };
        let (mut view, mut overlay, first) =
            (view(&json!({})), FeedOverlay::default(), value("of-web"));
        let copy = |overlay: &mut FeedOverlay, view: &View| {
            overlay.recommendations_for(view).get("of-web").cloned()
        };
        overlay.update(&subscription(&[&first]));
        let before = copy(&mut overlay, &view).expect("the feed has a value");
        overlay.update(&subscription(&[&first, &value("of-other")]));
        let after = copy(&mut overlay, &view).expect("the feed has a value");
        assert!(Arc::ptr_eq(&before, &after));
        overlay.update(&subscription(&[&value("of-web")]));
        let after = copy(&mut overlay, &view).expect("the feed has a value");
        assert!(!Arc::ptr_eq(&before, &after));
        view.autoscalers.delete(&ObjectKey::new("shop", "web"));
        assert_eq!(copy(&mut overlay, &view), None, "the object is gone");
    }
}
