//! Recommendations as a feed topic.

use jiff::Timestamp;
use model::{ContainerRecommendation, ResourceList};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::{Recommendation, container_from_message, container_to_message};
use crate::proto;
use crate::proto::feed_client::FeedClient;
use crate::quantities::MessageError;
use crate::topic::{Change, Stamp, Topic, updates};

impl Topic for Recommendation {
    type Message = proto::Recommendation;
    type Update = proto::RecommendationsUpdate;

    const NOUN: &'static str = "recommendation";

    fn uid(&self) -> &str {
        &self.uid
    }

    fn size(&self) -> usize {
        const NUMBERS: usize = 64;
        const QUANTITY: usize = 48;
        let list = |list: &ResourceList| {
            list.iter()
                .map(|(name, _)| name.as_str().len() + QUANTITY)
                .sum::<usize>()
        };
        let container = |container: &ContainerRecommendation| {
            let lists = [
                &container.target,
                &container.lower_bound,
                &container.upper_bound,
                &container.uncapped_target,
            ];
            container.container_name.len() + lists.into_iter().map(list).sum::<usize>()
        };
        let containers = &self.recommendation.containers;
        let names = self.uid.len() + self.namespace.len() + self.name.len();
        NUMBERS + names + containers.iter().map(container).sum::<usize>()
    }

    fn to_message(&self, revision: u64, changed_at: Timestamp) -> proto::Recommendation {
        let containers = &self.recommendation.containers;
        proto::Recommendation {
            uid: self.uid.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            observed_generation: self.observed_generation,
            revision,
            changed_at_ms: changed_at.as_millisecond(),
            containers: containers.iter().map(container_to_message).collect(),
        }
    }

    fn from_message(message: proto::Recommendation) -> Result<Self, MessageError> {
        let containers = message
            .containers
            .into_iter()
            .map(container_from_message)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            uid: message.uid,
            namespace: message.namespace,
            name: message.name,
            observed_generation: message.observed_generation,
            recommendation: model::Recommendation { containers },
        })
    }

    updates! {
        Recommendation, RecommendationsUpdate as recommendations_update, RecommendationsReset,
        RecommendationsApply, RecommendationsDelete,
        recommendations, watch_recommendations(WatchRecommendationsRequest)
    }
}
