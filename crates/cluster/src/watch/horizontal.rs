//! Watches of the objects of the horizontal loop.

use api::effective_hpa::{self, EffectiveHorizontalPodAutoscaler};
use api::prediction::{self, TimeSeriesPrediction};
use api::substitute::{self, Substitute};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use super::feed::Feed;
use super::follow::follow;
use super::{Watches, keep_within, read_loose};
use crate::freshness::Resource;
use crate::whole::Whole;

impl Watches {
    /// Watches effective autoscalers and what they own: native autoscalers, predictions and substitutes. One that does not parse is logged and
    /// counted; its last good state stays. Native autoscalers change every few seconds, so these are best watched into a view of their own.
    #[must_use]
    pub fn horizontal(mut self) -> Self {
        let api = self.loosely_typed::<EffectiveHorizontalPodAutoscaler>();
        let feed = Feed::new(Resource::EffectiveAutoscalers, &self.store, |view| &mut view.effective_autoscalers);
        let scope = self.scope.clone();
        let read = move |object| read_loose(&scope, object, |loose| Whole::read(loose, effective_hpa::parse));
        self.tasks.spawn(follow(api, None, read, feed));

        let feed = Feed::new(Resource::HorizontalAutoscalers, &self.store, |view| &mut view.horizontal_autoscalers);
        let scope = self.scope.clone();
        let read = move |object: HorizontalPodAutoscaler| keep_within(&scope, object, Whole::new);
        self.tasks.spawn(follow(self.namespaced(), None, read, feed));

        let api = self.loosely_typed::<TimeSeriesPrediction>();
        let feed = Feed::new(Resource::Predictions, &self.store, |view| &mut view.predictions);
        let scope = self.scope.clone();
        let read = move |object| read_loose(&scope, object, |loose| Whole::read(loose, prediction::parse));
        self.tasks.spawn(follow(api, None, read, feed));

        let api = self.loosely_typed::<Substitute>();
        let feed = Feed::new(Resource::Substitutes, &self.store, |view| &mut view.substitutes);
        let scope = self.scope.clone();
        let read = move |object| read_loose(&scope, object, |loose| Whole::read(loose, substitute::parse));
        self.tasks.spawn(follow(api, None, read, feed));
        self
    }
}
