//! Watches of the objects of the horizontal loop.

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use view::{Resource, Stripped};

use super::Watches;
use crate::allowance::Limits;
use crate::excluded_fields;
use crate::follow::follow;
use crate::read::within;
use crate::splitter::Item;
use crate::table_writer::TableWriter;

impl Watches {
    /// Watches EHPAs and the objects that they own: HPAs, predictions and substitutes. One that
    /// does not parse is logged and counted; its last good state stays. HPAs change every few
    /// seconds, so use a view of their own.
    #[must_use]
    pub fn horizontal(mut self) -> Self {
        let writer = TableWriter::new(Resource::Ehpas, &self.store, |view| &mut view.ehpas);
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| {
            within(
                &scope,
                item,
                Stripped::<EffectiveHorizontalPodAutoscaler>::from_k8s,
            )
        };
        self.tasks.spawn(follow(
            self.source::<EffectiveHorizontalPodAutoscaler>(excluded_fields::WHOLE),
            read,
            writer,
        ));

        let writer = TableWriter::new(Resource::HorizontalAutoscalers, &self.store, |view| {
            &mut view.horizontal_autoscalers
        });
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| {
            within(&scope, item, Stripped::<HorizontalPodAutoscaler>::from_k8s)
        };
        self.tasks.spawn(follow(
            self.source::<HorizontalPodAutoscaler>(excluded_fields::WHOLE),
            read,
            writer,
        ));

        let writer = TableWriter::new(Resource::Predictions, &self.store, |view| {
            &mut view.predictions
        });
        let scope = self.scope.clone();
        let read =
            move |item: &Item<'_>| within(&scope, item, Stripped::<TimeSeriesPrediction>::from_k8s);
        self.tasks.spawn(follow(
            self.source::<TimeSeriesPrediction>(excluded_fields::WHOLE)
                .with_limits(Limits::PREDICTIONS),
            read,
            writer,
        ));

        let writer = TableWriter::new(Resource::Substitutes, &self.store, |view| {
            &mut view.substitutes
        });
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| within(&scope, item, Stripped::<Substitute>::from_k8s);
        self.tasks.spawn(follow(
            self.source::<Substitute>(excluded_fields::WHOLE),
            read,
            writer,
        ));
        self
    }
}
