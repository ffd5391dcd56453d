//! Watches of what is expected of workloads, trimmed to the numbers, and of what these are shared out among.

use api::effective_hpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1;

use super::feed::Feed;
use super::follow::follow;
use super::{Watches, keep_within, read_loose};
use crate::controller::WellKnown;
use crate::freshness::Resource;
use crate::labelled::LabelledPod;
use crate::prediction::Prediction;
use crate::timetable::Timetable;

impl Watches {
    /// Watches predictions and the windows of time of effective autoscalers. One that does not parse is logged and counted; its last good state
    /// stays.
    #[must_use]
    pub fn expectations(mut self) -> Self {
        let api = self.loosely_typed::<TimeSeriesPrediction>();
        let feed = Feed::new(Resource::Predictions, &self.store, |view| &mut view.expected);
        let scope = self.scope.clone();
        self.tasks.spawn(follow(api, None, move |object| read_loose(&scope, object, Prediction::read), feed));

        let api = self.loosely_typed::<EffectiveHorizontalPodAutoscaler>();
        let feed = Feed::new(Resource::EffectiveAutoscalers, &self.store, |view| &mut view.timetables);
        let scope = self.scope.clone();
        self.tasks.spawn(follow(api, None, move |object| read_loose(&scope, object, Timetable::read), feed));
        self
    }

    /// Watches the labels of pods that have not ended.
    #[must_use]
    pub fn labelled_pods(mut self) -> Self {
        let feed = Feed::new(Resource::LabelledPods, &self.store, |view| &mut view.labelled_pods);
        let fields = "status.phase!=Succeeded,status.phase!=Failed";
        let scope = self.scope.clone();
        let read = move |pod: v1::Pod| keep_within(&scope, pod, LabelledPod::trim);
        self.tasks.spawn(follow(self.namespaced(), Some(fields.to_owned()), read, feed));
        self
    }

    /// Watches the kinds of controllers that are scaled most: `Deployment` and `StatefulSet` objects.
    #[must_use]
    pub fn scaled_controllers(mut self) -> Self {
        self.controller::<Deployment>(WellKnown::Deployment);
        self.controller::<StatefulSet>(WellKnown::StatefulSet);
        self
    }
}
