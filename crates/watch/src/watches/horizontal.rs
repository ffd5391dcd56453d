//! Watches of the objects of the horizontal loop: whole for its controllers, and reduced to their
//! numbers, with the pods and controllers that they apply to.

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde::de::DeserializeOwned;
use view::{CronSchedule, LabelledPod, Prediction, Resource, Stripped, Table, View, WellKnown};

use super::Watches;
use crate::excluded_fields;
use crate::memory_limits::Limits;

impl Watches {
    /// Watches EHPAs and the objects that they own: HPAs, predictions and substitutes. HPAs change
    /// every few seconds, so use a view of their own.
    pub fn horizontal(self) -> Self {
        let (usual, large) = (Limits::OTHERS, Limits::PREDICTIONS);
        self.whole::<EffectiveHorizontalPodAutoscaler>(Resource::Ehpas, usual, |view| {
            &mut view.ehpas
        })
        .whole::<HorizontalPodAutoscaler>(Resource::Hpas, usual, |view| &mut view.hpas)
        .whole::<TimeSeriesPrediction>(Resource::Predictions, large, |view| &mut view.predictions)
        .whole::<Substitute>(Resource::Substitutes, usual, |view| &mut view.substitutes)
    }

    /// Watches the objects of a kind with all their fields.
    fn whole<K>(
        self,
        resource: Resource,
        limits: Limits,
        table: fn(&mut View) -> &mut Table<Stripped<K>>,
    ) -> Self
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + PartialEq
            + Send
            + Sync
            + 'static,
    {
        let writer = self.writer(resource, table);
        let source = self.source::<K>(excluded_fields::WHOLE);
        self.within_scope(source.with_limits(limits), writer, Stripped::from_k8s)
    }

    pub fn predictions(self) -> Self {
        let writer = self.writer(Resource::Predictions, |view| &mut view.predicted_metrics);
        let source = self
            .source::<TimeSeriesPrediction>(excluded_fields::PREDICTED_METRICS)
            .with_limits(Limits::PREDICTIONS);
        self.within_scope(source, writer, Prediction::from_k8s)
    }

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
