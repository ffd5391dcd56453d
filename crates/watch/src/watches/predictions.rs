//! Watches of predictions and cron schedules, reduced to their numbers, and of the pods and
//! controllers that they apply to.

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use view::{CronSchedule, LabelledPod, Prediction, Resource, WellKnown};

use super::Watches;
use crate::excluded_fields;
use crate::memory_limits::Limits;

impl Watches {
    /// Watches predictions.
    pub fn predictions(self) -> Self {
        let writer = self.writer(Resource::Predictions, |view| &mut view.predicted_metrics);
        let source = self
            .source::<TimeSeriesPrediction>(excluded_fields::PREDICTED_METRICS)
            .with_limits(Limits::PREDICTIONS);
        self.within_scope(source, writer, Prediction::from_k8s)
    }

    /// Watches predictions and the cron schedules of EHPAs.
    pub fn predictions_and_schedules(self) -> Self {
        let watches = self.predictions();
        let writer = watches.writer(Resource::Ehpas, |view| &mut view.cron_schedules);
        let source = watches.source::<EffectiveHorizontalPodAutoscaler>(excluded_fields::OTHERS);
        watches.within_scope(source, writer, CronSchedule::from_k8s)
    }

    /// Watches the labels and phases of unfinished pods.
    pub fn labelled_pods(self) -> Self {
        let writer = self.writer(Resource::LabelledPods, |view| &mut view.labelled_pods);
        let source = self
            .pod_source(excluded_fields::LABELLED_PODS)
            .with_fields("status.phase!=Succeeded,status.phase!=Failed");
        self.within_scope(source, writer, LabelledPod::from_k8s)
    }

    /// Watches the most frequently scaled kinds: `Deployment` and `StatefulSet` objects.
    pub fn scaled_controllers(self) -> Self {
        self.controller::<Deployment>(WellKnown::Deployment)
            .controller::<StatefulSet>(WellKnown::StatefulSet)
    }
}
