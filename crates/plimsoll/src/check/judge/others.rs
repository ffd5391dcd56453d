//! Other autoscalers that act on the same objects.

use super::{Extent, OTHER_IMAGES, Other};
use crate::check::facts::{Facts, OtherDeployment};
use crate::check::finding::{Findings, Verdict, error, warn};
use view::AutoscalerRole;

const MOST_SIGNS: usize = 8;

pub(super) fn judge(facts: &Facts, extent: Extent, findings: &mut Findings) {
    findings.category = "other-autoscalers";
    for (product, id, title) in [
        (Other::Vpa, "other-vpa", "no other VPA components run"),
        (Other::Crane, "crane", "Crane does not run"),
        (
            Other::Goldilocks,
            "goldilocks",
            "Goldilocks creates no VPA objects",
        ),
        (
            Other::Keda,
            "keda",
            "KEDA and the adapter share the metrics APIs",
        ),
    ] {
        findings.add(id, title, judge_product(product, facts, extent));
    }
}

fn is_active(other: &OtherDeployment, product: Other) -> bool {
    let known = OTHER_IMAGES.iter().find(|(image, _)| *image == other.image);
    known.is_some_and(|(_, known)| *known == product) && other.replicas > 0
}

/// Product of a program with this role. Of another installation of the suite it is upstream's too.
fn product_of(role: AutoscalerRole) -> Other {
    match role {
        AutoscalerRole::Recommender | AutoscalerRole::Updater => Other::Vpa,
        AutoscalerRole::EhpaController => Other::Crane,
    }
}

fn judge_product(product: Other, facts: &Facts, extent: Extent) -> Verdict {
    let others = facts.others.as_ref()?.iter();
    let active = others.filter(|other| is_active(other, product));
    let deployments = active.map(|other| format!("the Deployment {}", other.name));
    let signs = facts.signs.iter().flatten();
    let signs = signs.filter(|sign| product_of(sign.role) == product);
    let signs = signs.map(|sign| sign.sign.clone());
    let found: Vec<String> = deployments.chain(signs).take(MOST_SIGNS).collect();
    if found.is_empty() {
        return Ok(String::new());
    }
    let names = found.join(", ");
    match product {
        Other::Vpa if extent == Extent::Before => warn(
            format!(
                "another VPA runs ({names}): beside each of its programs, that of this one writes nothing"
            ),
            "Install it, look at it, and take over by `plimsoll migrate vpa`",
        ),
        Other::Vpa => error(
            format!("another VPA runs ({names}), and the same programs of this one write nothing"),
            "Scale it to 0 (kubectl scale deployment NAME -n NAMESPACE --replicas=0)",
        ),
        Other::Crane => error(
            format!("Crane runs ({names}), and this recommender writes no EHPA"),
            "Scale it to 0 before EHPAs are used here (docs/differences-from-crane.md)",
        ),
        Other::Goldilocks => warn(
            format!("{names} runs Goldilocks, which creates VPA objects"),
            "Leave its VPA objects at mode Off, or use a SizingPolicy instead (docs/sizing.md)",
        ),
        Other::Keda if extent == Extent::Before => warn(
            format!("{names} runs KEDA, which serves external metrics"),
            "Leave the component external-metrics-api out, or move the API by `plimsoll migrate` (docs/routes.md)",
        ),
        Other::Keda => Ok(format!("{names}; the owners of the APIs are above")),
    }
}
