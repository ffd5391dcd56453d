//! HPA that an EHPA creates or adopts, and the Substitute of a preview.
//!
//! Source: gocrane/crane `pkg/controller/ehpa/hpa.go`, on `autoscaling/v2`, and `substitute.go`.

use api::ehpa::{MetricSpec, ScaleStrategy};
use api::substitute::{Substitute, SubstituteSpec, SubstituteStatus};
use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerBehavior,
    HorizontalPodAutoscalerSpec, MetricSpec as NativeMetric,
};
use kube::core::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::reasons::NOT_SCALED_TO_ZERO;
use super::{Observed, Problem, TargetScale, names};

/// The HPA with these metrics, or its present ones with `None`. It keeps the name of the existing
/// HPA.
pub(super) fn hpa(
    observed: &Observed,
    metrics: Option<&[MetricSpec]>,
    existing: Option<&HorizontalPodAutoscaler>,
) -> Result<HorizontalPodAutoscaler, serde_json::Error> {
    let spec = &observed.object.spec;
    let metrics: Vec<NativeMetric> = match metrics {
        Some(metrics) => metrics.iter().map(native).collect::<Result<_, _>>()?,
        None => existing
            .and_then(|existing| existing.spec.metrics.clone())
            .unwrap_or_default(),
    };
    let behavior: Option<HorizontalPodAutoscalerBehavior> =
        spec.behavior.as_ref().map(native).transpose()?;
    let metadata = match existing {
        Some(existing) if !names::is_owned(&existing.metadata, observed.object) => {
            names::adopted_metadata(observed.object, &existing.name_any())
        }
        _ => {
            let made = names::metadata(observed.object, observed.propagation);
            let name = existing.map_or(made.name, |existing| existing.metadata.name.clone());
            ObjectMeta { name, ..made }
        }
    };
    let least = i32::from(!measures_without_pods(&metrics));
    let spec = HorizontalPodAutoscalerSpec {
        scale_target_ref: target(observed),
        min_replicas: Some(spec.effective_min_replicas().max(least)),
        max_replicas: spec.max_replicas,
        metrics: Some(metrics).filter(|metrics| !metrics.is_empty()),
        behavior,
    };
    Ok(HorizontalPodAutoscaler {
        metadata,
        spec,
        status: None,
    })
}

/// Whether a metric has a value while no pod runs. The API server requires one for an HPA with
/// minReplicas 0 (`validateMetrics` in kubernetes `pkg/apis/autoscaling/validation`).
fn measures_without_pods(metrics: &[NativeMetric]) -> bool {
    let mut metrics = metrics.iter();
    metrics.any(|metric| metric.external.is_some() || metric.object.is_some())
}

/// A problem if the minReplicas of the HPA are above those of the EHPA.
pub(super) fn raised(observed: &Observed, wanted: &HorizontalPodAutoscaler) -> Option<Problem> {
    let requested = observed.object.spec.effective_min_replicas();
    let least = wanted
        .spec
        .min_replicas
        .filter(|least| *least > requested)?;
    let message = format!(
        "minReplicas is {least}: an HPA scales to zero only by an object metric, an external metric or a prediction, and \
         has no such metric yet"
    );
    Some(Problem::new(NOT_SCALED_TO_ZERO, message))
}

fn target(observed: &Observed) -> CrossVersionObjectReference {
    let wanted = &observed.object.spec.scale_target_ref;
    match observed.object.spec.effective_strategy() {
        ScaleStrategy::Auto => CrossVersionObjectReference {
            api_version: Some(wanted.api_version.clone()).filter(|version| !version.is_empty()),
            kind: wanted.kind.clone(),
            name: wanted.name.clone(),
        },
        ScaleStrategy::Preview => CrossVersionObjectReference {
            api_version: Some(Substitute::api_version(&()).into_owned()),
            kind: Substitute::kind(&()).into_owned(),
            name: names::owned_name(observed.object),
        },
    }
}

/// The Substitute that a preview's HPA scales in place of the workload; `None` unless the EHPA is a
/// preview. It has the pods and the replicas of the workload, whatever it is scaled to. So the HPA
/// always computes from the real workload, and shows the result only in its status.
pub(super) fn substitute(observed: &Observed, target: &TargetScale) -> Option<Substitute> {
    if observed.object.spec.effective_strategy() != ScaleStrategy::Preview {
        return None;
    }
    let spec = SubstituteSpec {
        replicas: Some(target.spec_replicas),
        substitute_target_ref: observed.object.spec.scale_target_ref.clone(),
    };
    let status = SubstituteStatus {
        label_selector: target.selector.clone(),
        replicas: Some(target.status_replicas),
    };
    Some(Substitute {
        metadata: names::metadata(observed.object, observed.propagation),
        spec,
        status: Some(status),
    })
}

/// Our types have the JSON of the API server's.
fn native<T: DeserializeOwned>(ours: &impl Serialize) -> Result<T, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(ours)?)
}
