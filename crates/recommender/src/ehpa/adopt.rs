//! Which native autoscaler is an object's own, and which one that is there already is taken over.
//!
//! Two autoscalers of the same pods make each other stop (`AmbiguousSelector`), so there must never be a second one. One that nobody controls
//! and that scales the same workload becomes the object's own, under the name that it has: the controller manager knows it by that name
//! and goes on from the count that it last wanted. In a preview nothing may change, so there it stands in the way. Of several objects
//! for the same workload only the oldest (`cluster::Eldest`) gets one: their autoscalers would not yet be there to be seen by each other.

use api::effective_hpa::{EffectiveHorizontalPodAutoscaler, ScaleStrategy};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Resource as _, ResourceExt as _};

use super::{Problem, Seen, names};

/// What is known of native autoscalers.
pub(super) enum Found<'a> {
    /// The object has its own.
    Own(&'a HorizontalPodAutoscaler),
    /// This one becomes its own.
    Adopted(&'a HorizontalPodAutoscaler),
    /// There is none.
    Nothing,
    /// None may be made.
    Blocked(Problem),
    /// Another object scales the workload. None may be made, nor anything else that would say how.
    Taken(Problem),
}

/// The autoscaler that is an object's own.
pub(super) fn own<'a>(seen: &Seen<'a>) -> Option<&'a HorizontalPodAutoscaler> {
    seen.autoscalers
        .iter()
        .map(|whole| &whole.object)
        .find(|autoscaler| names::is_owned(&autoscaler.metadata, seen.object))
}

/// What there is for an object.
pub(super) fn find<'a>(seen: &Seen<'a>) -> Found<'a> {
    if let Some(own) = own(seen) {
        return Found::Own(own);
    }
    if let Some(elder) = seen.elder {
        let message = format!("the older EffectiveHorizontalPodAutoscaler {elder} scales the same workload");
        return Found::Taken(Problem::new("FailedReconcileHPA", message));
    }
    let live =
        seen.autoscalers.iter().map(|whole| &whole.object).filter(|other| other.metadata.deletion_timestamp.is_none());
    let same: Vec<_> = live.filter(|autoscaler| scales_the_same(autoscaler, seen.object)).collect();
    let is_free = |autoscaler: &HorizontalPodAutoscaler| {
        autoscaler.owner_references().iter().all(|owner| owner.controller != Some(true))
    };
    match same[..] {
        [] => Found::Nothing,
        [only] if is_free(only) && seen.object.spec.effective_strategy() == ScaleStrategy::Auto => Found::Adopted(only),
        [first, ..] => {
            let name = first.name_any();
            let message = format!(
                "HorizontalPodAutoscaler {name} scales the same workload; it is taken over only with the strategy Auto, \
                 and only if it is the only one and nobody controls it"
            );
            let problem = Problem::new("FailedReconcileHPA", message);
            if same.iter().any(|autoscaler| is_of_another(autoscaler)) {
                Found::Taken(problem)
            } else {
                Found::Blocked(problem)
            }
        }
    }
}

/// Whether an object like this one controls an autoscaler.
fn is_of_another(autoscaler: &HorizontalPodAutoscaler) -> bool {
    let kind = EffectiveHorizontalPodAutoscaler::kind(&());
    autoscaler.owner_references().iter().any(|owner| owner.controller == Some(true) && owner.kind == kind)
}

/// What to say of an object that has an autoscaler, though an older one is to scale the same workload by now.
pub(super) fn rival(seen: &Seen) -> Option<Problem> {
    let elder = seen.elder.filter(|_| own(seen).is_some())?;
    let message = format!(
        "the older EffectiveHorizontalPodAutoscaler {elder} scales the same workload: its windows count, and its predictions before others"
    );
    Some(Problem::new("OlderAutoscaler", message))
}

/// Whether an autoscaler of the object's namespace has anything to do with the object.
pub(super) fn concerns(autoscaler: &HorizontalPodAutoscaler, object: &EffectiveHorizontalPodAutoscaler) -> bool {
    names::is_owned(&autoscaler.metadata, object)
        || scales_the_same(autoscaler, object)
        || autoscaler.name_any() == names::owned_name(object)
}

fn group(api_version: &str) -> Option<&str> {
    api_version.rsplit_once('/').map(|(group, _)| group)
}

/// The version of the group may differ.
fn scales_the_same(autoscaler: &HorizontalPodAutoscaler, object: &EffectiveHorizontalPodAutoscaler) -> bool {
    let wanted = &object.spec.scale_target_ref;
    let target = &autoscaler.spec.scale_target_ref;
    target.kind == wanted.kind
        && target.name == wanted.name
        && group(target.api_version.as_deref().unwrap_or_default()) == group(&wanted.api_version)
}
