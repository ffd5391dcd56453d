//! Rights of the user.

use super::Extent;
use crate::check::facts::{Facts, Right};
use crate::check::finding::{Finding, Findings, Unread};

const fn right(
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    commands: &'static str,
) -> Right {
    Right {
        verb,
        group,
        resource,
        commands,
        in_system_namespace: false,
    }
}

const fn own(
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    commands: &'static str,
) -> Right {
    Right {
        verb,
        group,
        resource,
        commands,
        in_system_namespace: true,
    }
}

/// Rights that the commands need.
pub(crate) const USE: &[Right] = &[
    right(
        "list",
        "autoscaling.k8s.io",
        "verticalpodautoscalers",
        "status, explain, scan",
    ),
    right("list", "", "pods", "scan, explain"),
    right(
        "list",
        "autoscaling.crane.io",
        "effectivehorizontalpodautoscalers",
        "explain",
    ),
    right("list", "autoscaling", "horizontalpodautoscalers", "explain"),
    right("list", "", "nodes", "check, scan"),
    right("list", "", "services", "scan without an address"),
    right("get", "", "services/proxy", "scan without an address"),
    right("list", "apps", "deployments", "check, scan"),
    right("list", "metrics.k8s.io", "nodes", "check"),
    right(
        "list",
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        "check",
    ),
    right(
        "list",
        "apiregistration.k8s.io",
        "apiservices",
        "check, status",
    ),
    right(
        "get",
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "check",
    ),
    right("get", "coordination.k8s.io", "leases", "check, status"),
    own("create", "", "configmaps", "stop"),
    own("delete", "", "configmaps", "go"),
    own("get", "", "pods/log", "support-bundle"),
];

/// Rights that an installation needs.
pub(crate) const INSTALL: &[Right] = &[
    right("create", "", "namespaces", "installation"),
    right(
        "create",
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "installation",
    ),
    right(
        "create",
        "rbac.authorization.k8s.io",
        "clusterroles",
        "installation",
    ),
    right(
        "bind",
        "rbac.authorization.k8s.io",
        "clusterroles",
        "installation",
    ),
    right(
        "escalate",
        "rbac.authorization.k8s.io",
        "clusterroles",
        "installation",
    ),
    right(
        "create",
        "rbac.authorization.k8s.io",
        "clusterrolebindings",
        "installation",
    ),
    right(
        "create",
        "apiregistration.k8s.io",
        "apiservices",
        "installation",
    ),
    own("create", "apps", "deployments", "installation"),
    own("create", "", "services", "installation"),
    own("create", "", "serviceaccounts", "installation"),
    own(
        "create",
        "rbac.authorization.k8s.io",
        "roles",
        "installation",
    ),
    own("create", "policy", "poddisruptionbudgets", "installation"),
];

pub(super) fn findings(facts: &Facts, extent: Extent) -> Vec<Finding> {
    let mut findings = Findings::new("rights");
    let check = match extent {
        Extent::Before => ("rights-to-install", "you may install the suite"),
        Extent::Installed => ("rights-to-use", "you may use all commands"),
    };
    let unread = facts
        .rights
        .iter()
        .find_map(|(_, allowed)| allowed.as_ref().err());
    if let Some(Unread(reason)) = unread {
        findings.skip(check, reason.clone());
        return findings.list;
    }
    let missing = facts
        .rights
        .iter()
        .filter(|(_, allowed)| *allowed == Ok(false));
    let missing: Vec<String> = missing.map(|(right, _)| describe(right)).collect();
    if missing.is_empty() {
        findings.ok(check, "");
        return findings.list;
    }
    let message = format!("you have no right to {}", missing.join("; "));
    match extent {
        Extent::Before => findings.error(
            check,
            message,
            "Install as a cluster administrator; escalate or bind may be replaced by all rights of the roles",
        ),
        Extent::Installed => findings.warn(
            check,
            message,
            "Ask an administrator for a role with these rights, or do without these commands",
        ),
    }
    findings.list
}

fn describe(right: &Right) -> String {
    let Right {
        verb,
        group,
        resource,
        commands,
        ..
    } = right;
    let dot = if group.is_empty() { "" } else { "." };
    format!("{verb} {resource}{dot}{group} ({commands})")
}
