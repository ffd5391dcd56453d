//! What stands for the workload in a preview: it has the pods and the size of the workload,
//! whatever somebody scales it to.
//!
//! So the autoscaler always computes from what is really there, and its answer is in its status
//! alone. Source: gocrane/crane `pkg/controller/ehpa/substitute.go`.

use api::ehpa::ScaleStrategy;
use api::substitute::{Substitute, SubstituteSpec, SubstituteStatus};

use super::{Observed, TargetScale, names};

/// The substitute that an object owns; none unless it is a preview.
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
