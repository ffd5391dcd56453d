//! Other autoscalers that act on the same objects.

use super::{Extent, OTHER_IMAGES, Other};
use crate::check::facts::{Facts, OtherDeployment};
use crate::check::finding::{Check, Findings};
use view::AutoscalerRole;

/// Maximum number of signs in a message.
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
        let mut check = findings.check(id, title);
        let Some(others) = check.read(&facts.others) else {
            continue;
        };
        let active = others.iter().filter(|other| is_active(other, product));
        let deployments = active.map(|other| format!("the Deployment {}", other.name));
        let signs = facts.signs.iter().flatten();
        let signs = signs.filter(|sign| product_of(sign.role) == product);
        let signs = signs.map(|sign| sign.sign.clone());
        let found: Vec<String> = deployments.chain(signs).take(MOST_SIGNS).collect();
        if found.is_empty() {
            check.ok("");
        } else {
            judge_product(product, &found.join(", "), extent, &mut check);
        }
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

fn judge_product(product: Other, names: &str, extent: Extent, check: &mut Check<'_>) {
    match product {
        Other::Vpa if extent == Extent::Before => check.warn(
            format!("another VPA runs ({names}): beside each of its programs, that of this one writes nothing"),
            "Install it, look at it, and take over by `plimsoll migrate vpa`",
        ),
        Other::Vpa => check.error(
            format!("another VPA runs ({names}), and the same programs of this one write nothing"),
            "Scale it to 0 (kubectl scale deployment NAME -n NAMESPACE --replicas=0)",
        ),
        Other::Crane => check.error(
            format!("Crane runs ({names}), and this recommender writes no EHPA"),
            "Scale it to 0 before EHPAs are used here (docs/differences-from-crane.md)",
        ),
        Other::Goldilocks => check.warn(
            format!("{names} runs Goldilocks, which creates VPA objects"),
            "Leave its VPA objects at mode Off, or use a SizingPolicy instead (docs/sizing.md)",
        ),
        Other::Keda | Other::PrometheusAdapter if extent == Extent::Before => check.warn(
            format!("{names} runs KEDA, which serves external metrics"),
            "Leave the component external-metrics-api out, or move the API by `plimsoll migrate` (docs/routes.md)",
        ),
        Other::Keda | Other::PrometheusAdapter => {
            check.ok(format!("{names}; the owners of the APIs are above"));
        }
    }
}
