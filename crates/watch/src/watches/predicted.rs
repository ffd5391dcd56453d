//! Watches of predictions and cron schedules, reduced to their numbers, and of the pods and
//! controllers that they apply to.

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use view::{CronSchedule, LabelledPod, Prediction, Resource, WellKnown};

use super::Watches;
use crate::allowance::Limits;
use crate::excluded_fields;
use crate::follow::follow;
use crate::read::within;
use crate::splitter::Item;
use crate::table_writer::TableWriter;

impl Watches {
    /// Watches predictions and the cron schedules of EHPAs. One that does not parse is logged and
    /// counted; its last good state stays.
    #[must_use]
    pub fn predictions_and_schedules(mut self) -> Self {
        let writer = TableWriter::new(Resource::Predictions, &self.store, |view| {
            &mut view.predicted_metrics
        });
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| within(&scope, item, Prediction::from_k8s);
        let source = self
            .source::<TimeSeriesPrediction>(excluded_fields::PREDICTED_METRICS)
            .with_limits(Limits::PREDICTIONS);
        self.tasks.spawn(follow(source, read, writer));

        let writer = TableWriter::new(Resource::Ehpas, &self.store, |view| {
            &mut view.cron_schedules
        });
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| within(&scope, item, CronSchedule::from_k8s);
        self.tasks.spawn(follow(
            self.source::<EffectiveHorizontalPodAutoscaler>(excluded_fields::OTHERS),
            read,
            writer,
        ));
        self
    }

    /// Watches the labels and phases of unfinished pods.
    #[must_use]
    pub fn labelled_pods(mut self) -> Self {
        let writer = TableWriter::new(Resource::LabelledPods, &self.store, |view| {
            &mut view.labelled_pods
        });
        let fields = "status.phase!=Succeeded,status.phase!=Failed";
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| within(&scope, item, LabelledPod::from_k8s);
        self.tasks.spawn(follow(
            self.pod_source(excluded_fields::LABELLED_PODS)
                .with_fields(fields),
            read,
            writer,
        ));
        self
    }

    /// Watches the most frequently scaled kinds: `Deployment` and `StatefulSet` objects.
    #[must_use]
    pub fn scaled_controllers(mut self) -> Self {
        self.controller::<Deployment>(WellKnown::Deployment);
        self.controller::<StatefulSet>(WellKnown::StatefulSet);
        self
    }
}
