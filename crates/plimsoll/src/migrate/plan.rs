//! A migration: objects with a verdict, and steps. Its texts are for people, its commands for a
//! shell.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use metric_routes::api_service::API_SERVICES;
use serde::Serialize;

use super::facts::{
    API_SERVICE, Facts, arguments, helm_release, image_of, installer, name_of, replicas,
};
use super::fields::lacking;
use crate::installation::ObjectName;
use crate::output::printable;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// It stays and works as before.
    Kept,
    /// A step of the plan changes it.
    Changed,
    /// It needs a decision, or has no counterpart.
    Manual,
    /// The migration must not begin before this is solved.
    Blocked,
}

/// An object of the product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Item {
    /// Kind, namespace and name.
    pub(crate) object: String,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Step {
    pub(crate) title: String,
    /// Reason for the step and its place in the order.
    pub(crate) reason: String,
    pub(crate) commands: Vec<String>,
    pub(crate) undo: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Migration {
    /// Objects, in the order of output.
    pub(crate) items: Vec<Item>,
    pub(crate) steps: Vec<Step>,
    /// Remarks, one sentence each.
    pub(crate) notes: Vec<String>,
}

impl Migration {
    pub(crate) fn item(
        &mut self,
        kind: &str,
        object: &DynamicObject,
        verdict: Verdict,
        reason: impl Into<String>,
    ) {
        let name = name_of(object);
        let object = if name.namespace.is_empty() {
            format!("{kind} {}", name.name)
        } else {
            format!("{kind} {name}")
        };
        self.items.push(Item {
            object,
            verdict,
            reason: reason.into(),
        });
    }

    /// Adds a step, unless it has no commands.
    pub(crate) fn step(
        &mut self,
        title: impl Into<String>,
        reason: impl Into<String>,
        commands: impl IntoIterator<Item = String>,
        undo: impl IntoIterator<Item = String>,
    ) {
        let commands: Vec<String> = commands.into_iter().collect();
        if !commands.is_empty() {
            self.steps.push(Step {
                title: title.into(),
                reason: reason.into(),
                commands,
                undo: undo.into_iter().collect(),
            });
        }
    }

    /// Adds a step that scales Deployments to 0.
    pub(crate) fn stop<'a>(
        &mut self,
        title: &str,
        reason: &str,
        deployments: impl IntoIterator<Item = &'a DynamicObject>,
    ) {
        let (mut commands, mut undo, mut installers) = (Vec::new(), Vec::new(), Vec::new());
        for deployment in deployments {
            commands.push(scale(deployment, 0));
            undo.push(scale(deployment, replicas(deployment)));
            installers.extend(installer(deployment));
        }
        installers.sort();
        installers.dedup();
        let mut reason = reason.to_owned();
        for installer in installers {
            reason =
                format!("{reason} It belongs to {installer}, whose next upgrade reverts this.");
        }
        self.step(title, reason, commands, undo);
    }

    /// Adds a step that protects definitions that a tool has installed.
    pub(crate) fn keep(&mut self, definitions: &[DynamicObject]) {
        let installed = definitions.iter().filter(|it| installer(it).is_some());
        let commands = installed.map(|definition| {
            let name = definition.name_any();
            format!("kubectl annotate crd {name} helm.sh/resource-policy=keep --overwrite")
        });
        self.step(
            "Keep the definitions",
            "With a definition go all its objects. The annotation keeps it if an upgrade of its Helm release leaves it out, not if the release is uninstalled: never run `helm uninstall` for it.",
            commands,
            [],
        );
    }

    /// Adds a step for each release of Helm that these objects belong to, after which Helm does not
    /// know it any more.
    pub(crate) fn delete_release_records<'a>(
        &mut self,
        objects: impl IntoIterator<Item = &'a DynamicObject>,
    ) {
        let releases: BTreeSet<_> = objects.into_iter().filter_map(helm_release).collect();
        for ObjectName { namespace, name } in releases {
            let selected = format!("-n {namespace} -l owner=helm,name={name}");
            self.step(
                format!("Delete Helm's record of the release {name}"),
                format!(
                    "After some days without trouble. Its manifest contains what the suite uses now, so `helm uninstall` would delete that, and `helm upgrade` move it back. Without its record Helm does neither. Delete by hand what {name}.yaml lists and nothing uses."
                ),
                [
                    format!("helm get manifest {name} -n {namespace} > {name}.yaml"),
                    format!(
                        "kubectl get secret {selected} -o yaml | sed '/^ *resourceVersion:/d' > {name}-release.yaml"
                    ),
                    format!("kubectl delete secret {selected}"),
                ],
                [format!("kubectl create -f {name}-release.yaml")],
            );
        }
    }

    /// Adds a step that names the flags of Deployments.
    pub(crate) fn flags(&mut self, deployments: &[DynamicObject], reason: &str) {
        let flags = deployments.iter().map(|it| (it, arguments(it)));
        let commands = flags.filter(|(_, flags)| !flags.is_empty());
        let commands = commands.map(|(deployment, flags)| {
            let image = image_of(deployment).unwrap_or_default();
            let flags = printable(&flags.join(" "));
            format!("# {image}, from {}: {flags}", name_of(deployment))
        });
        self.step("Carry over the flags", reason, commands, []);
    }

    /// Adds an object of a kind that stays, if the definition of the suite lacks fields of it.
    pub(crate) fn lacking_fields(
        &mut self,
        kind: &str,
        object: &DynamicObject,
        definition: &CustomResourceDefinition,
    ) {
        let lacking = lacking(object, definition);
        if !lacking.is_empty() {
            let lacking = lacking.join(", ");
            let reason =
                format!("the definition of the suite lacks {lacking}, which the next write drops");
            self.item(kind, object, Verdict::Manual, reason);
        }
    }

    /// Adds the Deployments of the product, and a note without any.
    pub(crate) fn deployments(&mut self, product: &str, deployments: &[DynamicObject]) {
        for deployment in deployments {
            let count = replicas(deployment);
            let (verdict, mut reason) = match count {
                0 => (Verdict::Kept, "scaled to 0".to_owned()),
                _ => (
                    Verdict::Changed,
                    format!("{count} replicas, to be scaled to 0"),
                ),
            };
            if let Some(installer) = installer(deployment) {
                reason = format!("{reason}; belongs to {installer}, which reverts other changes");
            }
            self.item("Deployment", deployment, verdict, reason);
        }
        if deployments.is_empty() {
            self.notes.push(format!(
                "No Deployment of {product} was found: if a provider of clusters runs it, switch it off there first."
            ));
        }
    }
}

fn scale(deployment: &DynamicObject, replicas: i64) -> String {
    let ObjectName { namespace, name } = name_of(deployment);
    format!("kubectl scale deployment {name} -n {namespace} --replicas={replicas}")
}

pub(crate) fn apply(manifest: &serde_json::Value) -> String {
    // JSON escapes line breaks, so no text of a manifest ends the input, and keeps `Off` a text.
    format!("kubectl apply --server-side -f - <<'EOF'\n{manifest:#}\nEOF")
}

/// The command that saves `APIService` objects. Without the version, `kubectl replace` accepts them
/// after later changes.
pub(crate) fn save_api_services(names: &str, file: &str) -> String {
    format!("kubectl get apiservice {names} -o yaml | sed '/^ *resourceVersion:/d' > {file}")
}

/// The command that installs the suite in a mode of the chart, or adds it to that of the present
/// release, with more arguments.
pub(crate) fn install(facts: &Facts, mode: &str, arguments: &str) -> String {
    let other = match mode {
        "vertical" => "adapter",
        _ => "updater",
    };
    let mode = if facts.runs_own(other) { "all" } else { mode };
    format!(
        "helm upgrade plimsoll deploy/chart --install -n {} --create-namespace --reset-then-reuse-values --set global.imageRegistry=REGISTRY/plimsoll --set mode={mode}{arguments}    # REGISTRY has your images; or your overlay of deploy/overlays/{mode}",
        facts.system_namespace
    )
}

/// The command that reverts [`install`].
pub(crate) fn uninstall(facts: &Facts) -> String {
    let is_new = facts.suite.is_empty();
    let command = if is_new { "uninstall" } else { "rollback" };
    format!("helm {command} plimsoll -n {}", facts.system_namespace)
}

/// Arguments of [`install`] with which the release leaves the APIs of these `APIService` objects to
/// their providers.
pub(crate) fn without_api_services(names: &[String]) -> String {
    let apis = apis(names).into_iter();
    let arguments = apis.map(|api| format!(" --set adapter.apiServices.{api}=false"));
    arguments.collect::<Vec<_>>().concat()
}

fn apis(names: &[String]) -> Vec<&'static str> {
    let is_named = |api: &&str| {
        let group = format!("{api}.metrics.k8s.io");
        names.iter().any(|name| name.ends_with(&group))
    };
    let apis = ["custom", "external"].into_iter();
    apis.filter(is_named).collect()
}

/// File of the saved `APIService` objects.
const SAVED_API_SERVICES: &str = "apiservices.yaml";

impl Migration {
    /// Adds a step that saves these `APIService` objects; none without any.
    pub(crate) fn save_api_services(&mut self, names: &[String]) {
        if !names.is_empty() {
            self.step(
                "Save the APIService objects",
                "They are the way back.",
                [save_api_services(&names.join(" "), SAVED_API_SERVICES)],
                [],
            );
        }
    }

    /// Adds a step that points these `APIService` objects at the adapter; none without any.
    pub(crate) fn move_api_services(&mut self, facts: &Facts, names: &[String]) {
        let moved = apis(names);
        if moved.is_empty() {
            return;
        }
        let files = moved
            .iter()
            .map(|api| format!(" -f deploy/components/{api}-metrics-api/api-services.yaml"));
        let files = files.collect::<Vec<_>>().concat();
        let is_new = |name: &&&str| {
            moved.iter().any(|api| name.contains(&format!(".{api}.")))
                && !names.iter().any(|saved| saved == **name)
        };
        let new: Vec<&str> = API_SERVICES.iter().filter(is_new).copied().collect();
        let mut undo = vec![format!("kubectl replace -f {SAVED_API_SERVICES}")];
        if !new.is_empty() {
            undo.push(format!("kubectl delete apiservice {}", new.join(" ")));
        }
        let objects = facts.of(&API_SERVICE).iter();
        let unverified: Vec<String> = objects
            .filter(|object| object.data["spec"]["insecureSkipTLSVerify"] == true)
            .map(kube::ResourceExt::name_any)
            .filter(|name| names.contains(name))
            .collect();
        let wait = "kubectl wait apiservice -l app.kubernetes.io/name=adapter --for=condition=Available --timeout=1m";
        let mut commands = vec![
            format!("kubectl apply --server-side --force-conflicts{files}"),
            wait.to_owned(),
        ];
        if !unverified.is_empty() {
            // The adapter writes its CA as soon as the field is gone.
            commands.push(format!(
                "kubectl patch apiservice {} --type=merge -p '{{\"spec\": {{\"insecureSkipTLSVerify\": false}}}}'",
                unverified.join(" ")
            ));
            commands.push(format!("sleep 2; {wait}"));
        }
        commands.push("kubectl get hpa -A".to_owned());
        self.step(
            "Move the APIService objects",
            "HPAs keep their replicas while a value is missing. Look at the condition ScalingActive of each HPA afterwards.",
            commands,
            undo,
        );
    }
}

/// The command that waits for the suite.
pub(crate) fn verify() -> String {
    "plimsoll check --wait 5m".to_owned()
}
