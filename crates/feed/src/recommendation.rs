//! Recommendation of one `VerticalPodAutoscaler` and its protocol messages.

mod topic;

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
) -> Result<ContainerRecommendation, MessageError> {
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::{Cpu, Memory, ResourceList};

    use super::*;
    use crate::topic::Topic as _;

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
        assert_eq!(Recommendation::from_message(message), Ok(value));
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
