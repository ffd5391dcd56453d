//! Choice of the HPA of an EHPA: its own, an adopted one, or none.
//!
//! Two HPAs of the same pods block each other (`AmbiguousSelector`), so there must never be a
//! second one. The selection depends on the existing objects, not on the order of their creation:
//!
//! * With the strategy Auto, an HPA without a controller and without an installing tool is adopted
//!   under its own name. The HPA controller knows it by that name and continues from its last
//!   desired replicas. An adopted HPA has no owner. It is annotated with its adopter and its
//!   original spec, and gets that back when the EHPA is deleted, becomes a preview, or scales
//!   another workload.
//! * An HPA that cannot be adopted stays as it is. The EHPA deletes its own, so that one HPA scales
//!   the workload.
//! * Of several EHPAs of one workload only the oldest (`view::OldestWins`) gets an HPA: the HPAs of the
//!   others may not be visible yet.

use api::ehpa::{ADOPT, Adopter, EffectiveHorizontalPodAutoscaler, ScaleStrategy};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt;
use view::installations;

use super::reasons::{FAILED_RECONCILE_HPA, OLDER_AUTOSCALER};
use super::{Observed, Problem, names};

const MAX_NAMES: usize = 3;

pub(super) enum HpaChoice<'a> {
    /// An HPA that the EHPA created or adopted before.
    Own(&'a HorizontalPodAutoscaler),
    Adopted(&'a HorizontalPodAutoscaler),
    /// None, and one is created.
    Nothing,
    /// None, and none may be created.
    Blocked(Problem),
    /// None, because another EHPA scales the workload. Nothing may be created on behalf of the
    /// workload.
    Taken(Problem),
}

pub(super) struct HpaSelection<'a> {
    pub(super) choice: HpaChoice<'a>,
    pub(super) deleted: Vec<String>,
    /// Names of HPAs that the EHPA adopted and that get their own spec back.
    pub(super) restored: Vec<String>,
    /// A problem if other HPAs scale the workload too.
    pub(super) problem: Option<Problem>,
}

impl HpaSelection<'_> {
    /// Whether no other HPA decides the replicas of the workload.
    pub(super) fn are_own(&self) -> bool {
        self.problem.is_none() && matches!(self.choice, HpaChoice::Own(_) | HpaChoice::Nothing)
    }
}

fn all<'a>(observed: &Observed<'a>) -> impl Iterator<Item = &'a HorizontalPodAutoscaler> {
    observed.hpas.iter().map(|whole| &whole.object)
}

/// The present HPA of an EHPA: one that it adopted for its present workload, else one that it
/// created.
pub(super) fn own<'a>(observed: &Observed<'a>) -> Option<&'a HorizontalPodAutoscaler> {
    let is_auto = observed.object.spec.effective_strategy() == ScaleStrategy::Auto;
    let adopted = all(observed)
        .filter(|hpa| is_auto && names::is_adopted(&hpa.metadata, observed.object))
        .find(|hpa| scales_the_same(hpa, observed.object));
    adopted.or_else(|| all(observed).find(|hpa| names::is_owned(&hpa.metadata, observed.object)))
}

pub(super) fn select<'a>(observed: &Observed<'a>) -> HpaSelection<'a> {
    let is_made = |hpa: &HorizontalPodAutoscaler| names::is_owned(&hpa.metadata, observed.object);
    let has_name = |one: Option<&HorizontalPodAutoscaler>, other: &HorizontalPodAutoscaler| {
        one.is_some_and(|one| one.metadata.name == other.metadata.name)
    };
    let own = own(observed);
    let rivals: Vec<_> = all(observed)
        .filter(|other| {
            other.metadata.deletion_timestamp.is_none() && scales_the_same(other, observed.object)
        })
        .filter(|other| !is_made(other) && !has_name(own, other))
        .collect();
    let is_oldest = observed.older_ehpa.is_none();
    let is_of_another = |rival: &&HorizontalPodAutoscaler| is_of_another(rival, observed.object);
    let kept = own.filter(|own| {
        if is_made(own) {
            // Younger EHPAs delete theirs.
            rivals.is_empty() || (is_oldest && rivals.iter().all(is_of_another))
        } else {
            is_oldest || !rivals.iter().any(is_of_another)
        }
    });
    let others = || all(observed).filter(|other| !has_name(kept, other));
    let restored = others().filter(|other| names::is_adopted(&other.metadata, observed.object));
    HpaSelection {
        deleted: others().filter(|other| is_made(other)).map(ResourceExt::name_any).collect(),
        restored: restored.map(ResourceExt::name_any).collect(),
        problem: kept.filter(|_| !rivals.is_empty()).map(|kept| {
            let message = format!(
                "{} scale the same workload as HorizontalPodAutoscaler {}, so the HPA controller scales with none of them: delete all but one",
                listed(&rivals),
                kept.name_any()
            );
            Problem::new(FAILED_RECONCILE_HPA, message)
        }),
        choice: kept.map_or_else(|| without(observed, &rivals), HpaChoice::Own),
    }
}

fn without<'a>(observed: &Observed<'a>, rivals: &[&'a HorizontalPodAutoscaler]) -> HpaChoice<'a> {
    if let Some(older_ehpa) = observed.older_ehpa {
        let message = format!(
            "the older EffectiveHorizontalPodAutoscaler {older_ehpa} scales the same workload"
        );
        return HpaChoice::Taken(Problem::new(FAILED_RECONCILE_HPA, message));
    }
    let obstacle = match rivals {
        [] => return HpaChoice::Nothing,
        [only] => match obstacle(only, observed.object) {
            None => return HpaChoice::Adopted(only),
            Some(obstacle) => obstacle,
        },
        several => format!(
            "{} scale the same workload, so the HPA controller scales with none of them: delete all but one",
            listed(several)
        ),
    };
    let problem = Problem::new(FAILED_RECONCILE_HPA, obstacle);
    let mut rivals = rivals.iter();
    if rivals.any(|rival| is_of_another(rival, observed.object)) {
        HpaChoice::Taken(problem)
    } else {
        HpaChoice::Blocked(problem)
    }
}

/// The reason for which an HPA of the same workload cannot be adopted.
fn obstacle(
    hpa: &HorizontalPodAutoscaler,
    object: &EffectiveHorizontalPodAutoscaler,
) -> Option<String> {
    let name = hpa.name_any();
    let rival = format!("HorizontalPodAutoscaler {name} scales the same workload");
    if let Some(owner) = names::controller(&hpa.metadata) {
        return Some(format!(
            "{rival} and is controlled by {} {}: delete one of the two",
            owner.kind, owner.name
        ));
    }
    if let Some(adopter) = Adopter::of(hpa.annotations()).filter(|_| is_of_another(hpa, object)) {
        let adopter = adopter.name;
        return Some(format!(
            "{rival} and is adopted by EffectiveHorizontalPodAutoscaler {adopter}: delete one of the two"
        ));
    }
    if object.spec.effective_strategy() != ScaleStrategy::Auto {
        return Some(format!(
            "{rival}, so there is no preview and specificReplicas has no effect: delete it, or set scaleStrategy to Auto to adopt it"
        ));
    }
    let installation = installations(&hpa.metadata).next();
    let installation = installation.filter(|_| !names::may_adopt(object, &name))?;
    Some(format!(
        "{rival} and belongs to {installation}: remove it there, or set the annotation {ADOPT} to {name} to adopt it nevertheless"
    ))
}

fn listed(hpas: &[&HorizontalPodAutoscaler]) -> String {
    let shown = hpas.iter().take(MAX_NAMES);
    let names: Vec<_> = shown.map(|hpa| hpa.name_any()).collect();
    let is_all = hpas.len() <= MAX_NAMES;
    let more = if is_all { "" } else { " and others" };
    format!("HorizontalPodAutoscalers {}{more}", names.join(", "))
}

fn is_of_another(hpa: &HorizontalPodAutoscaler, object: &EffectiveHorizontalPodAutoscaler) -> bool {
    names::ehpa_owner(&hpa.metadata).is_some() && !names::is_adopted(&hpa.metadata, object)
}

/// A problem if the EHPA has an HPA though an older EHPA now scales the same workload.
pub(super) fn rival(observed: &Observed, choice: &HpaChoice) -> Option<Problem> {
    let is_own = matches!(choice, HpaChoice::Own(_));
    let older_ehpa = observed.older_ehpa.filter(|_| is_own)?;
    let message = format!(
        "the older EffectiveHorizontalPodAutoscaler {older_ehpa} scales the same workload: its crons apply, and its predictions take precedence"
    );
    Some(Problem::new(OLDER_AUTOSCALER, message))
}

/// Whether an HPA of the same namespace concerns an EHPA.
pub(super) fn concerns(
    hpa: &HorizontalPodAutoscaler,
    object: &EffectiveHorizontalPodAutoscaler,
) -> bool {
    names::is_owned(&hpa.metadata, object)
        || names::is_adopted(&hpa.metadata, object)
        || scales_the_same(hpa, object)
        || hpa.name_any() == names::owned_name(object)
}

fn group(api_version: &str) -> Option<&str> {
    api_version.rsplit_once('/').map(|(group, _)| group)
}

/// Compares targets without the version of their group.
fn scales_the_same(
    hpa: &HorizontalPodAutoscaler,
    object: &EffectiveHorizontalPodAutoscaler,
) -> bool {
    let wanted = &object.spec.scale_target_ref;
    let target = &hpa.spec.scale_target_ref;
    target.kind == wanted.kind
        && target.name == wanted.name
        && group(target.api_version.as_deref().unwrap_or_default()) == group(&wanted.api_version)
}
