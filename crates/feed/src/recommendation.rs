//! Recommendation of one `VerticalPodAutoscaler` and its protocol messages.

mod topic;

use jiff::Timestamp;
use model::ContainerRecommendation;

use crate::proto;
use crate::quantities::{MessageError, to_list, to_map};

/// Recommendation of one `VerticalPodAutoscaler`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recommendation {
    /// UID of the object. A recreated object has another one.
    pub uid: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Generation of the object used for the recommendation.
    pub observed_generation: i64,
    /// Recommended requests of the containers.
    pub recommendation: model::Recommendation,
}

impl Recommendation {
    /// The protocol message, with revision and time of the change.
    pub fn to_message(&self, revision: u64, changed_at: Timestamp) -> proto::Recommendation {
        let Self {
            uid,
            namespace,
            name,
            observed_generation,
            recommendation,
        } = self;
        proto::Recommendation {
            uid: uid.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            observed_generation: *observed_generation,
            revision,
            changed_at_ms: changed_at.as_millisecond(),
            containers: recommendation
                .containers
                .iter()
                .map(container_to_message)
                .collect(),
        }
    }
}

impl TryFrom<proto::Recommendation> for Recommendation {
    type Error = MessageError;

    fn try_from(message: proto::Recommendation) -> Result<Self, MessageError> {
        let proto::Recommendation {
            uid,
            namespace,
            name,
            observed_generation,
            revision: _,
            changed_at_ms: _,
            containers,
        } = message;
        let containers = containers
            .into_iter()
            .map(container_from_message)
            .collect::<Result<_, _>>()?;
        let recommendation = model::Recommendation { containers };
        Ok(Self {
            uid,
            namespace,
            name,
            observed_generation,
            recommendation,
        })
    }
}

/// Converts one container to its protocol form.
pub fn container_to_message(container: &ContainerRecommendation) -> proto::ContainerRecommendation {
    let ContainerRecommendation {
        container_name,
        target,
        lower_bound,
        upper_bound,
        uncapped_target,
    } = container;
    proto::ContainerRecommendation {
        name: container_name.clone(),
        target: to_map(target),
        lower_bound: to_map(lower_bound),
        upper_bound: to_map(upper_bound),
        uncapped_target: to_map(uncapped_target),
    }
}

/// Parses one container.
pub fn container_from_message(
    message: proto::ContainerRecommendation,
) -> Result<ContainerRecommendation, MessageError> {
    let proto::ContainerRecommendation {
        name,
        target,
        lower_bound,
        upper_bound,
        uncapped_target,
    } = message;
    Ok(ContainerRecommendation {
        target: to_list(target, &format!("{name}.target"))?,
        lower_bound: to_list(lower_bound, &format!("{name}.lower_bound"))?,
        upper_bound: to_list(upper_bound, &format!("{name}.upper_bound"))?,
        uncapped_target: to_list(uncapped_target, &format!("{name}.uncapped_target"))?,
        container_name: name,
    })
}

#[cfg(test)]
mod tests {
    use model::{Cpu, Memory, ResourceList};

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
        assert_eq!(Recommendation::try_from(message), Ok(value));
    }

    #[test]
    fn a_text_that_is_no_quantity_is_named() {
        let mut message = recommendation().to_message(1, Timestamp::UNIX_EPOCH);
        message.containers[0]
            .target
            .insert("cpu".to_owned(), "much".to_owned());
        let error = Recommendation::try_from(message).unwrap_err();
        assert_eq!(
            error.to_string(),
            "app.target.cpu: \"much\" is not a quantity"
        );
    }
}
