//! Nodes that do what the containers of the specs would do: admission policies give their pods the
//! annotations and the images that the sandbox knows.

use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Result;
use e2e::{hosted_programs, program};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Cores that a pod may have on a simulated node of 32, where every node runs something else too.
const ROOM: &str = "31.9";
/// Time from the start of a program that needs more memory than its limit until it is killed. The specs
/// want to see their pods run first.
const KILL_AFTER: &str = "12s";

/// A folder with the programs that pods run. `built` is that of the specs' programs.
pub(crate) fn programs(built: &Path) -> Result<TempDir> {
    let folder = hosted_programs(&[program("resource-consumer")?])?;
    // It listens on all addresses.
    symlink(program("enclosed")?, folder.path().join("agnhost"))?;
    symlink(built.join("agnhost"), folder.path().join("agnhost.server"))?;
    Ok(folder)
}

pub(crate) fn objects() -> Vec<Value> {
    let image = |name: &str| format!("object.spec.containers[0].image.contains('{name}')");
    let run = |program: &str| {
        let path = "/spec/containers/0/image";
        let change =
            format!("JSONPatch{{op: 'replace', path: '{path}', value: 'plimsoll/{program}'}}");
        json!({"patchType": "JSONPatch", "jsonPatch": {"expression": format!("[{change}]")}})
    };
    let annotate = |annotations: &[(&str, &str)]| {
        let entries: Vec<_> = annotations
            .iter()
            .map(|(name, value)| format!("'{name}': {value}"))
            .collect();
        let metadata = format!("Object.metadata{{annotations: {{{}}}}}", entries.join(", "));
        let expression = format!("Object{{metadata: {metadata}}}");
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
    };
    let stress = "has(object.spec.containers[0].command) && \
                  object.spec.containers[0].command.exists(word, word == '--mem-total')";
    // The words are: agnhost, stress, --mem-total, BYTES.
    let bytes = "string(object.spec.containers[0].command[3])";
    let kill_after = format!("'{KILL_AFTER}'");
    let room = format!("'{ROOM}'");
    let policies = [
        ("recommender", image("vpa-recommender"), run("recommender")),
        ("updater", image("vpa-updater"), run("updater")),
        ("webhook", image("vpa-admission-controller"), run("webhook")),
        (
            "consumer",
            image("resource-consumer"),
            run("resource-consumer"),
        ),
        ("injector", image("agnhost:2.40"), run("agnhost")),
        (
            "consumer-usage",
            image("resource-consumer"),
            annotate(&[("sandbox.plimsoll.dev/own-usage", "'true'")]),
        ),
        (
            "stress",
            stress.to_owned(),
            annotate(&[
                ("sandbox.plimsoll.dev/needs-memory", bytes),
                ("sandbox.plimsoll.dev/kill-after", &kill_after),
                ("kwok.x-k8s.io/usage-memory", "'1Gi'"),
            ]),
        ),
        (
            "all",
            "true".to_owned(),
            annotate(&[
                ("sandbox.plimsoll.dev/cpu-room", &room),
                ("sandbox.plimsoll.dev/keep-running", "'true'"),
            ]),
        ),
    ];
    let mut objects = vec![json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "resource-consumer"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}],
    })];
    let group = json!({
        "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts",
    });
    let role = json!({
        "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "resource-consumer",
    });
    objects.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "resource-consumer"}, "roleRef": role, "subjects": [group],
    }));
    for (name, condition, mutation) in policies {
        objects.extend(policy(name, &condition, &mutation));
    }
    objects
}

fn policy(name: &str, condition: &str, mutation: &Value) -> [Value; 2] {
    let name = format!("simulated-{name}");
    let version = "admissionregistration.k8s.io/v1";
    let pods = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
    });
    let spec = json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [pods]},
        "matchConditions": [{"name": "condition", "expression": condition}],
        "mutations": [mutation],
    });
    [
        json!({
            "apiVersion": version, "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name}, "spec": spec,
        }),
        json!({
            "apiVersion": version, "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name},
        }),
    ]
}
