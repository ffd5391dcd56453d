//! Other autoscalers that act on the same objects.

use super::{Extent, OTHER_IMAGES, Other};
use crate::check::facts::{Facts, OtherDeployment};
use crate::check::finding::{Finding, Findings};

pub(super) fn findings(facts: &Facts, extent: Extent) -> Vec<Finding> {
    let mut findings = Findings::new("other-autoscalers");
    let checks = [
        (Other::Vpa, ("other-vpa", "no other VPA components run")),
        (Other::Crane, ("crane", "Crane does not run")),
        (
            Other::Goldilocks,
            ("goldilocks", "Goldilocks creates no VPA objects"),
        ),
        (
            Other::Keda,
            ("keda", "KEDA and the adapter share the metrics APIs"),
        ),
    ];
    for (product, check) in checks {
        let Some(others) = findings.read(check, &facts.others) else {
            continue;
        };
        let names: Vec<String> = others
            .iter()
            .filter(|other| is_active(other, product))
            .map(|other| other.name.to_string())
            .collect();
        if names.is_empty() {
            findings.ok(check, "");
            continue;
        }
        let names = names.join(", ");
        judge(product, check, &names, extent, &mut findings);
    }
    findings.list
}

fn is_active(other: &OtherDeployment, product: Other) -> bool {
    let known = OTHER_IMAGES.iter().find(|(image, _)| *image == other.image);
    known.is_some_and(|(_, known)| *known == product) && other.replicas > 0
}

fn judge(
    product: Other,
    check: (&str, &str),
    names: &str,
    extent: Extent,
    findings: &mut Findings,
) {
    match product {
        Other::Vpa => findings.error(
            check,
            format!("the Deployments {names} run upstream's VPA: both act on the same objects"),
            "Scale them to 0 (kubectl scale deployment NAME -n NAMESPACE --replicas=0)",
        ),
        Other::Crane => findings.error(
            check,
            format!("the Deployments {names} run Crane: both act on the same EHPAs"),
            "Scale them to 0 before EHPAs are used here (docs/differences-from-crane.md)",
        ),
        Other::Goldilocks => findings.warn(
            check,
            format!("the Deployments {names} run Goldilocks, which creates VPA objects"),
            "Leave its VPA objects at mode Off, or use a SizingPolicy instead (docs/sizing.md)",
        ),
        Other::Keda | Other::PrometheusAdapter if extent == Extent::Before => findings.warn(
            check,
            format!("the Deployments {names} run KEDA, which serves external metrics"),
            "Leave the component external-metrics-api out, or move the API by `plimsoll migrate` (docs/routes.md)",
        ),
        Other::Keda | Other::PrometheusAdapter => {
            findings.ok(check, format!("{names}; the owners of the APIs are above"));
        }
    }
}
