//! Watches of the objects of the horizontal loop.

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde::de::DeserializeOwned;
use view::{Resource, Stripped, Table, View};

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
}
