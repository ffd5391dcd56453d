//! Other tools that would revert the change of an adopted `APIService`: the tool that installed it,
//! and KEDA's operator, which writes its own CA bundle into the object whatever Service it points
//! at.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use metric_routes::api_service::writers;
use view::installations;

/// A part of the image name of KEDA's operator.
const KEDA_IMAGE: &str = "kedacore/keda";
const KEDA_WRITER: &str = "keda";

/// Returns a warning for each tool that would revert the change. `deployments`: those in the
/// namespace of its Service; `None` if they cannot be listed.
pub(crate) fn conflicts(present: &APIService, deployments: Option<&[Deployment]>) -> Vec<String> {
    let mut conflicts: Vec<String> = installations(&present.metadata)
        .map(|installation| {
            format!("it belongs to {installation}, which reverts it when it is next applied")
        })
        .collect();
    let patched = match deployments {
        Some(deployments) => deployments.iter().any(is_patching),
        None => writers(present).any(|writer| writer == KEDA_WRITER),
    };
    if patched {
        let why = "KEDA's operator writes its own caBundle into it, which does not verify the adapter's certificate: \
                   run the operator with --enable-apiservice-patching=false";
        conflicts.push(why.to_owned());
    }
    conflicts
}

fn is_patching(deployment: &Deployment) -> bool {
    let pod = deployment.spec.template.spec.as_ref();
    pod.iter().flat_map(|pod| &pod.containers).any(|container| {
        let image = container.image.as_ref();
        let is_keda = image.is_some_and(|image| image.contains(KEDA_IMAGE));
        let words = container.args.iter().chain(&container.command).flatten();
        let words: Vec<&str> = words.map(String::as_str).collect();
        is_keda
            && is_on(&words, "--enable-cert-rotation", false)
            && is_on(&words, "--enable-apiservice-patching", true)
    })
}

/// Parses a boolean flag as Go does.
fn is_on(words: &[&str], flag: &str, default: bool) -> bool {
    let value = words.iter().rev().find_map(|word| word.strip_prefix(flag));
    match value {
        None => default,
        Some("") => true,
        Some(value) => ["=1", "=t", "=T", "=true", "=TRUE", "=True"].contains(&value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const HELM: &str = "it belongs to the Helm release keda, which";
    const KEDA: &str = "KEDA's operator writes its own caBundle into it";

    fn check(metadata: &Value, arguments: Option<&[&str]>, expected: &[&str]) {
        let present: APIService =
            serde_json::from_value(json!({"metadata": metadata})).expect("an object");
        let deployments = arguments.map(|arguments| {
            let container =
                json!({"name": "o", "image": "ghcr.io/kedacore/keda:2.20.1", "args": arguments});
            let template = json!({"spec": {"containers": [container]}});
            let spec = json!({"selector": {}, "template": template});
            vec![
                serde_json::from_value(json!({"metadata": {}, "spec": spec}))
                    .expect("a Deployment"),
            ]
        });
        let found = conflicts(&present, deployments.as_deref());
        let fits = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(one, start)| one.starts_with(start));
        assert!(fits, "{metadata} {arguments:?}: {found:?}");
    }

    #[test]
    fn the_tool_that_installed_it_reverts_it() {
        check(&json!({}), Some(&[]), &[]);
        let helm = json!({"annotations": {"meta.helm.sh/release-name": "keda"}});
        check(&helm, Some(&[]), &[HELM]);
        let kubectl = json!({"labels": {"app.kubernetes.io/managed-by": "kubectl"}});
        check(&kubectl, Some(&[]), &[]);
        let olm = json!({"labels": {"olm.owner": "keda.v2"}});
        let why = "it belongs to the operator lifecycle manager's keda.v2";
        check(&olm, Some(&[]), &[why]);
    }

    #[test]
    fn kedas_operator_replaces_the_ca_bundle_unless_disabled() {
        let rotation = "--enable-cert-rotation=true";
        for (arguments, expected) in [
            (&[rotation][..], &[KEDA][..]),
            (&["--enable-cert-rotation"], &[KEDA]),
            (&[rotation, "--enable-apiservice-patching=false"], &[]),
            (&[rotation, "--enable-cert-rotation=false"], &[]),
        ] {
            check(&json!({}), Some(arguments), expected);
        }
        let fields = json!({"f:spec": {"f:caBundle": {}}});
        let written = json!({"managedFields": [{"manager": "keda", "fieldsV1": fields}]});
        check(&written, None, &[KEDA]);
        check(&written, Some(&[]), &[]);
    }
}
