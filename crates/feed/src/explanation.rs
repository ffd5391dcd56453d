//! Explanation of a recommendation and its protocol messages.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{
    Bound, Cap, ContainerExplanation, ContainerRecommendation, Explanation, MethodStep,
    ResourceName,
};

use crate::proto;
use crate::quantities::{MessageError, to_quantity};
use crate::recommendation::{container_from_message, container_to_message};

/// Container whose recommendation is to be explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainQuery {
    /// Namespace of the `VerticalPodAutoscaler`.
    pub namespace: String,
    /// Name of the `VerticalPodAutoscaler`.
    pub name: String,
    /// Name of the container.
    pub container: String,
}

/// Explained recommendation of one container.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explained {
    /// UID of the `VerticalPodAutoscaler`.
    pub uid: String,
    /// The published recommendation.
    pub published: ContainerRecommendation,
    /// Whether there are usage samples; otherwise `published` may not follow from the explanation.
    pub is_measured: bool,
    /// The steps of the computation.
    pub explanation: ContainerExplanation,
    /// Limits that follow from the target by limit modes other than proportional: by resource, an
    /// amount or `none`.
    pub limits: BTreeMap<String, String>,
    /// Resources that are not published since a `HorizontalPodAutoscaler` scales by them, with the
    /// message of the condition.
    pub left_out: BTreeMap<String, String>,
}

impl From<proto::ExplainRequest> for ExplainQuery {
    fn from(request: proto::ExplainRequest) -> Self {
        Self {
            namespace: request.namespace,
            name: request.name,
            container: request.container,
        }
    }
}

impl From<Explained> for proto::ExplainResponse {
    fn from(explained: Explained) -> Self {
        let ContainerExplanation {
            samples,
            lifespan,
            numbers,
        } = explained.explanation;
        Self {
            uid: explained.uid,
            published: Some(container_to_message(&explained.published)),
            is_measured: explained.is_measured,
            samples,
            lifespan_seconds: lifespan.as_secs_f64(),
            explanations: numbers.into_iter().map(number_to_message).collect(),
            limits: explained.limits.into_iter().collect(),
            left_out: explained.left_out.into_iter().collect(),
        }
    }
}

impl TryFrom<proto::ExplainResponse> for Explained {
    type Error = MessageError;

    fn try_from(message: proto::ExplainResponse) -> Result<Self, MessageError> {
        let published = message
            .published
            .ok_or(MessageError::Missing("published"))?;
        let numbers = message.explanations.iter().map(number_from_message);
        Ok(Self {
            uid: message.uid,
            published: container_from_message(published)?,
            is_measured: message.is_measured,
            limits: message.limits.into_iter().collect(),
            left_out: message.left_out.into_iter().collect(),
            explanation: ContainerExplanation {
                samples: message.samples,
                lifespan: Duration::try_from_secs_f64(message.lifespan_seconds).unwrap_or_default(),
                numbers: numbers.collect::<Result<_, _>>()?,
            },
        })
    }
}

fn number_to_message(number: Explanation) -> proto::Explanation {
    proto::Explanation {
        resource: number.resource.as_str().to_owned(),
        bound: bound_to_message(number.bound).into(),
        percentile: number.percentile,
        usage: number.usage,
        with_margin: number.with_margin,
        confidence: number.confidence,
        with_confidence: number.with_confidence,
        minimum: number.minimum,
        at_least_minimum: number.at_least_minimum,
        by_own_policy: number.by_per_vpa_policy,
        method_steps: number
            .method_steps
            .into_iter()
            .map(step_to_message)
            .collect(),
        rounded: number.rounded.to_string(),
        in_whole_units: number.in_whole_units.to_string(),
        capped: number.capped.to_string(),
        capped_by: cap_to_message(number.capped_by).into(),
        capped_because: number.capped_because,
    }
}

fn number_from_message(message: &proto::Explanation) -> Result<Explanation, MessageError> {
    let (bound, capped_by) = (message.bound(), message.capped_by());
    let quantity = |text: &str, step: &str| {
        to_quantity(text.to_owned(), || format!("{}.{step}", message.resource))
    };
    Ok(Explanation {
        resource: ResourceName::from(message.resource.as_str()),
        bound: bound_from_message(bound)?,
        percentile: message.percentile,
        usage: message.usage,
        with_margin: message.with_margin,
        confidence: message.confidence,
        with_confidence: message.with_confidence,
        minimum: message.minimum,
        at_least_minimum: message.at_least_minimum,
        by_per_vpa_policy: message.by_own_policy,
        method_steps: message.method_steps.iter().map(step_from_message).collect(),
        rounded: quantity(&message.rounded, "rounded")?,
        in_whole_units: quantity(&message.in_whole_units, "in_whole_units")?,
        capped: quantity(&message.capped, "capped")?,
        capped_by: cap_from_message(capped_by),
        capped_because: message.capped_because.clone(),
    })
}

fn step_to_message(step: MethodStep) -> proto::MethodStep {
    proto::MethodStep {
        name: step.name,
        value: step.value,
        unit: step.unit,
        text: step.text,
    }
}

fn step_from_message(message: &proto::MethodStep) -> MethodStep {
    MethodStep {
        name: message.name.clone(),
        value: message.value,
        unit: message.unit.clone(),
        text: message.text.clone(),
    }
}

fn bound_to_message(bound: Bound) -> proto::Bound {
    match bound {
        Bound::Target => proto::Bound::Target,
        Bound::Lower => proto::Bound::Lower,
        Bound::Upper => proto::Bound::Upper,
    }
}

fn bound_from_message(bound: proto::Bound) -> Result<Bound, MessageError> {
    match bound {
        proto::Bound::Target => Ok(Bound::Target),
        proto::Bound::Lower => Ok(Bound::Lower),
        proto::Bound::Upper => Ok(Bound::Upper),
        proto::Bound::Unspecified => Err(MessageError::Missing("bound")),
    }
}

fn cap_to_message(cap: Option<Cap>) -> proto::Cap {
    match cap {
        None => proto::Cap::Unspecified,
        Some(Cap::MinAllowed) => proto::Cap::MinAllowed,
        Some(Cap::MaxAllowed) => proto::Cap::MaxAllowed,
        Some(Cap::GlobalMaxAllowed) => proto::Cap::GlobalMaxAllowed,
        Some(Cap::LimitRange) => proto::Cap::LimitRange,
        Some(Cap::Quota) => proto::Cap::Quota,
        Some(Cap::Node) => proto::Cap::Node,
    }
}

fn cap_from_message(cap: proto::Cap) -> Option<Cap> {
    match cap {
        proto::Cap::Unspecified => None,
        proto::Cap::MinAllowed => Some(Cap::MinAllowed),
        proto::Cap::MaxAllowed => Some(Cap::MaxAllowed),
        proto::Cap::GlobalMaxAllowed => Some(Cap::GlobalMaxAllowed),
        proto::Cap::LimitRange => Some(Cap::LimitRange),
        proto::Cap::Quota => Some(Cap::Quota),
        proto::Cap::Node => Some(Cap::Node),
    }
}

#[cfg(test)]
mod tests {
    use model::Quantity;

    use super::*;

    #[test]
    fn a_message_is_parsed_to_the_same_value() {
        let bounds = [
            (Bound::Target, None),
            (Bound::Lower, Some(Cap::MinAllowed)),
            (Bound::Upper, Some(Cap::MaxAllowed)),
            (Bound::Target, Some(Cap::GlobalMaxAllowed)),
            (Bound::Target, Some(Cap::LimitRange)),
            (Bound::Target, Some(Cap::Quota)),
            (Bound::Target, Some(Cap::Node)),
        ];
        let numbers = bounds.map(|(bound, capped_by)| Explanation {
            resource: ResourceName::Cpu,
            bound,
            percentile: 0.9,
            usage: 110,
            with_margin: 126,
            confidence: 0.04,
            with_confidence: 127,
            minimum: 25,
            at_least_minimum: 128,
            by_per_vpa_policy: Some(129),
            method_steps: vec![
                MethodStep::number("percentile", 0.5, ""),
                MethodStep::text("reason", "why"),
            ],
            rounded: Quantity::from_milli(129),
            in_whole_units: Quantity::from_milli(1000),
            capped: Quantity::from_milli(500),
            capped_by,
            capped_because: capped_by.map(|cap| format!("{cap:?}")),
        });
        let explanation = ContainerExplanation {
            samples: 60,
            lifespan: Duration::from_millis(3_540_500),
            numbers: numbers.into(),
        };
        let published = ContainerRecommendation {
            container_name: "app".to_owned(),
            ..Default::default()
        };
        let value = Explained {
            uid: "u-1".to_owned(),
            published,
            is_measured: true,
            explanation,
            limits: [("cpu".to_owned(), "none".to_owned())].into(),
            left_out: [("memory".to_owned(), "an HPA scales by it".to_owned())].into(),
        };
        let message = proto::ExplainResponse::from(value.clone());
        assert_eq!(Explained::try_from(message), Ok(value));
    }
}
