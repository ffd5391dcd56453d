//! Annotations of a prediction. Those that it lacks are read from the EHPA that owns it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::{RECOMMENDER_ANNOTATION, TimeSeriesPrediction};
use api::vpa::DEFAULT_RECOMMENDER;
use kube::ResourceExt as _;
use view::{ObjectKey, Stripped, View};

use crate::ehpa::names::controller;

/// Annotation that users set on a prediction and an EHPA: method of the forecast, `own` or `crane`;
/// see docs/predictions.md#methods.
pub(super) const METHOD: &str = "plimsoll.dev/forecast";
/// Annotation that users set on a prediction and an EHPA: quantile that is published in place of
/// the peak; see docs/predictions.md#methods.
pub(super) const QUANTILE: &str = "plimsoll.dev/forecast-quantile";
/// Annotation that users set on a prediction and an EHPA: headroom of a predicted peak, low,
/// normal, high or a number; see docs/predictions.md#methods.
pub(super) const CAUTION: &str = "plimsoll.dev/forecast-caution";
/// Annotation that users set on a prediction and an EHPA: window of the forecast, such as 20m; see
/// docs/predictions.md#methods.
///
/// Default: measured.
pub(super) const WINDOW: &str = "plimsoll.dev/forecast-window";

#[derive(Clone, Copy)]
pub(crate) struct Annotations<'a> {
    pub(crate) own: &'a BTreeMap<String, String>,
    pub(crate) owner: Option<&'a BTreeMap<String, String>>,
}

impl<'a> Annotations<'a> {
    pub(crate) fn of(view: &'a View, whole: &'a Stripped<TimeSeriesPrediction>) -> Self {
        let owner = owner(view, whole).map(|owner| owner.object.annotations());
        Self {
            own: whole.object.annotations(),
            owner,
        }
    }

    /// Value of an annotation without surrounding spaces.
    pub(super) fn get(self, key: &str) -> Option<&'a str> {
        let value = self.own.get(key).or_else(|| self.owner?.get(key));
        value.map(|value| value.trim())
    }

    pub(crate) fn recommender(self) -> &'a str {
        self.get(RECOMMENDER_ANNOTATION)
            .unwrap_or(DEFAULT_RECOMMENDER)
    }
}

pub(super) fn owner<'a>(
    view: &'a View,
    whole: &Stripped<TimeSeriesPrediction>,
) -> Option<&'a Arc<Stripped<EffectiveHorizontalPodAutoscaler>>> {
    let owner = controller(&whole.object.metadata)?;
    let key = ObjectKey::new(&whole.key.namespace, owner.name.as_str());
    let there = view.ehpas.get(&key)?;
    (there.object.uid().as_ref() == Some(&owner.uid)).then_some(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_of_the_prediction_override_those_of_its_owner() {
        let map =
            |name: &str| BTreeMap::from([(RECOMMENDER_ANNOTATION.to_owned(), name.to_owned())]);
        let (mine, ours, none) = (map("mine"), map("ours"), BTreeMap::new());
        for (own, owner, expected) in [
            (&mine, Some(&ours), "mine"),
            (&none, Some(&ours), "ours"),
            (&none, None, DEFAULT_RECOMMENDER),
        ] {
            assert_eq!(Annotations { own, owner }.recommender(), expected);
        }
    }
}
