//! Substitute that a preview's HPA scales in place of the workload. It has the pods and the
//! replicas of the workload, whatever it is scaled to.
//!
//! So the HPA always computes from the real workload, and shows the result only in its status.
//! Source: gocrane/crane `pkg/controller/ehpa/substitute.go`.

use api::ehpa::ScaleStrategy;
use api::substitute::{Substitute, SubstituteSpec, SubstituteStatus};

use super::{Observed, TargetScale, names};

/// The desired Substitute; `None` unless the EHPA is a preview.
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
