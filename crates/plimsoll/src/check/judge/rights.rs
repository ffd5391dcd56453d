//! Rights of the user.

use super::Extent;
use crate::check::facts::{Facts, Rights};
use crate::check::finding::{Findings, Verdict, error, warn};

pub(crate) const USE: Rights = Rights {
    of_cluster: &[
        "list verticalpodautoscalers.autoscaling.k8s.io (status, explain, scan)",
        "list pods (scan, explain)",
        "list effectivehorizontalpodautoscalers.autoscaling.crane.io (explain)",
        "list horizontalpodautoscalers.autoscaling (explain)",
        "list nodes (check, scan)",
        "list services (scan without an address)",
        "get services/proxy (scan without an address)",
        "list deployments.apps (check, scan)",
        "list nodes.metrics.k8s.io (check)",
        "list mutatingwebhookconfigurations.admissionregistration.k8s.io (check)",
        "list apiservices.apiregistration.k8s.io (check, status)",
        "get customresourcedefinitions.apiextensions.k8s.io (check)",
        "get leases.coordination.k8s.io (check, status)",
    ],
    own: &[
        "create configmaps (stop)",
        "delete configmaps (go)",
        "get pods/log (support-bundle)",
    ],
};

pub(crate) const INSTALL: Rights = Rights {
    of_cluster: &[
        "create namespaces (installation)",
        "create customresourcedefinitions.apiextensions.k8s.io (installation)",
        "create clusterroles.rbac.authorization.k8s.io (installation)",
        "bind clusterroles.rbac.authorization.k8s.io (installation)",
        "escalate clusterroles.rbac.authorization.k8s.io (installation)",
        "create clusterrolebindings.rbac.authorization.k8s.io (installation)",
        "create apiservices.apiregistration.k8s.io (installation)",
    ],
    own: &[
        "create deployments.apps (installation)",
        "create services (installation)",
        "create serviceaccounts (installation)",
        "create roles.rbac.authorization.k8s.io (installation)",
        "create poddisruptionbudgets.policy (installation)",
    ],
};

pub(super) fn judge(facts: &Facts, extent: Extent, findings: &mut Findings) {
    findings.category = "rights";
    let (id, title) = match extent {
        Extent::Before => ("rights-to-install", "you may install the suite"),
        Extent::Installed => ("rights-to-use", "you may use all commands"),
    };
    findings.add(id, title, rights(facts, extent));
}

fn rights(facts: &Facts, extent: Extent) -> Verdict {
    let mut missing = Vec::new();
    for (right, is_allowed) in &facts.rights {
        if !*is_allowed.as_ref()? {
            missing.push(*right);
        }
    }
    if missing.is_empty() {
        return Ok(String::new());
    }
    let message = format!("you have no right to {}", missing.join("; "));
    match extent {
        Extent::Before => error(
            message,
            "Install as a cluster administrator; escalate or bind may be replaced by all rights of the roles",
        ),
        Extent::Installed => warn(
            message,
            "Ask an administrator for a role with these rights, or do without these commands",
        ),
    }
}
