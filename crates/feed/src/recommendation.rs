//! Recommendation of one `VerticalPodAutoscaler`, its protocol messages and its feed topic.

use std::collections::HashMap;

use anyhow::anyhow;
use jiff::Timestamp;
use model::{ContainerRecommendation, Quantity, ResourceList, ResourceName};
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::proto;
use crate::proto::feed_client::FeedClient;
use crate::topic::{Change, Stamp, Topic, updates};

/// Recommendation of one `VerticalPodAutoscaler`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recommendation {
    /// UID of the object. A recreated object has another one.
    pub uid: String,
    pub namespace: String,
    pub name: String,
    /// Generation of the object used for the recommendation.
    pub observed_generation: i64,
    pub recommendation: model::Recommendation,
}

fn container_to_message(container: &ContainerRecommendation) -> proto::ContainerRecommendation {
    proto::ContainerRecommendation {
        name: container.container_name.clone(),
        target: to_map(&container.target),
        lower_bound: to_map(&container.lower_bound),
        upper_bound: to_map(&container.upper_bound),
        uncapped_target: to_map(&container.uncapped_target),
    }
}

fn container_from_message(
    message: proto::ContainerRecommendation,
) -> anyhow::Result<ContainerRecommendation> {
    let name = message.name;
    let list = |map, field: &str| to_list(map, &format!("{name}.{field}"));
    Ok(ContainerRecommendation {
        target: list(message.target, "target")?,
        lower_bound: list(message.lower_bound, "lower_bound")?,
        upper_bound: list(message.upper_bound, "upper_bound")?,
        uncapped_target: list(message.uncapped_target, "uncapped_target")?,
        container_name: name,
    })
}

impl Topic for Recommendation {
    updates! {
        Recommendation, RecommendationsUpdate as recommendations_update, RecommendationsReset,
        RecommendationsApply, RecommendationsDelete,
        recommendations, watch_recommendations(WatchRecommendationsRequest)
    }

    const NOUN: &'static str = "recommendation";

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

    fn from_message(message: proto::Recommendation) -> anyhow::Result<Self> {
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
}

fn to_map(list: &ResourceList) -> HashMap<String, String> {
    list.iter()
        .map(|(name, quantity)| (name.as_str().to_owned(), quantity.to_string()))
        .collect()
}

/// Parses a list; `field` is its name in errors.
fn to_list(map: HashMap<String, String>, field: &str) -> anyhow::Result<ResourceList> {
    let read = |(name, text): (String, String)| {
        let quantity = text.parse::<Quantity>();
        let quantity = quantity.map_err(|_| anyhow!("{field}.{name}: {text:?} is not a quantity"));
        Ok((ResourceName::from(name.as_str()), quantity?))
    };
    map.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use model::{Cpu, Memory};

    use super::*;

    fn recommendation() -> Recommendation {
        let list = |millicores, bytes| {
            ResourceList::of(Cpu::from_millicores(millicores), Memory::from_bytes(bytes))
        };
        let container = ContainerRecommendation {
            container_name: "app".to_owned(),
            target: list(126, 262_144_000),
            lower_bound: list(25, 1),
            upper_bound: list(1_260_000, i64::MAX),
            uncapped_target: ResourceList::new(),
        };
        Recommendation {
            uid: "u-1".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            observed_generation: 7,
            recommendation: model::Recommendation {
                containers: vec![container],
            },
        }
    }

    #[test]
    fn a_message_is_parsed_to_the_same_value() {
        let value = recommendation();
        let at = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
        let message = value.to_message(5, at);
        assert_eq!(
            (message.revision, message.changed_at_ms),
            (5, 1_700_000_000_123)
        );
        assert_eq!(Recommendation::from_message(message).ok(), Some(value));
    }

    #[test]
    fn a_text_that_is_no_quantity_is_named() {
        let mut message = recommendation().to_message(1, Timestamp::UNIX_EPOCH);
        message.containers[0]
            .target
            .insert("cpu".to_owned(), "much".to_owned());
        let error = Recommendation::from_message(message).unwrap_err();
        assert_eq!(
            error.to_string(),
            "app.target.cpu: \"much\" is not a quantity"
        );
    }
}
