//! `plimsoll revert`: pods get the resources of their workload's template back, with the rights of the
//! user alone, so that no program of the suite needs to run. `plimsoll resume` goes on.
//!
//! 1. The sizing policies, and the VPA objects, get the mode `Off`. An annotation keeps the mode.
//! 2. The API server says, by a dry run, what a new pod of the template would have.
//! 3. Each pod that has other requests or limits is resized in place; where a resize is refused or has
//!    no effect in time, it is evicted. One pod of a workload at a time, and the next one once as many
//!    are ready as at the beginning.

mod pods;

use std::collections::BTreeSet;

use anyhow::ensure;
use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy};
use api::vpa::{CrossVersionObjectReference, MODE_BEFORE_REVERT, VerticalPodAutoscaler as Vpa};
use clap::Args;
use futures::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use runtime::GoDuration;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::cluster::{Cluster, ClusterArgs, block_on, list};
use crate::failure::Outcome;
use crate::json::texts;
use crate::output::{self, Document, OutputArgs, Table, print_text};
use crate::subject::Subject;
use pods::{Reverted, revert_pods};

/// Workloads whose pods are changed at the same time.
const WORKLOADS: usize = 4;

#[derive(Clone, Debug, Args)]
pub(crate) struct RevertArgs {
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Longest wait for a pod: for its disruption budget, and for its replacement.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    pub(crate) timeout: GoDuration,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ScopeArgs {
    /// Workload or VPA object as KIND/NAME; without it, all of the namespace.
    #[arg(value_name = "KIND/NAME")]
    pub(crate) subject: Option<Subject>,
    /// Namespace; the default is the one of the context.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// All namespaces.
    #[arg(long, conflicts_with_all = ["subject", "namespace"])]
    pub(crate) all: bool,
    /// Change nothing, and print what would be changed.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

pub(crate) fn revert(args: &RevertArgs) -> anyhow::Result<Outcome> {
    block_on(async {
        let cluster = args.scope.cluster.connect().await?;
        let objects = args.scope.objects(&cluster).await?;
        let is_dry_run = args.scope.dry_run;
        let notes = change_modes(&cluster, &objects, Change::Off, is_dry_run).await?;
        let timeout = (!is_dry_run).then_some(args.timeout.0);
        let reverted = stream::iter(&objects).map(|object| revert_of(&cluster, object, timeout));
        let reverted = reverted.buffer_unordered(WORKLOADS).inspect(|it| {
            let (namespace, workload) = (&it.namespace, &it.workload);
            let (resized, replaced) = (it.resized, it.replaced);
            eprintln!("{namespace} {workload}: {resized} pods resized, {replaced} replaced");
        });
        let mut reverted: Vec<Reverted> = reverted.collect().await;
        reverted.sort();
        let is_complete = reverted.iter().all(|it| it.problem.is_none());
        let columns = "namespace|workload| pods| differ=different| resized| replaced|problem";
        let document = Document {
            title: "Revert".to_owned(),
            tables: vec![Table::of("Workloads", columns, &reverted)],
            notes,
            data: json!({"workloads": reverted, "dryRun": is_dry_run}),
        };
        output::print(&document, &args.output)?;
        Ok(Outcome::of(is_complete))
    })
}

pub(crate) fn resume(args: &ScopeArgs) -> anyhow::Result<Outcome> {
    block_on(async {
        let cluster = args.cluster.connect().await?;
        let objects = args.objects(&cluster).await?;
        let notes = change_modes(&cluster, &objects, Change::Back, args.dry_run).await?;
        if notes.is_empty() {
            return print_text("No object was reverted.\n");
        }
        print_text(notes.join("\n") + "\n")
    })
}

impl ScopeArgs {
    async fn objects(&self, cluster: &Cluster) -> anyhow::Result<Vec<DynamicObject>> {
        let namespace = self.namespace.as_ref().unwrap_or(&cluster.namespace);
        let within = (!self.all).then_some(namespace.as_str());
        let found = list(&cluster.untyped::<Vpa>(within), &ListParams::default()).await;
        let mut objects = found.map_err(cluster.failed("verticalpodautoscalers"))?;
        if let Some(subject) = &self.subject {
            objects.retain(|object| match subject {
                Subject::Vpa(name) => object.name_any() == *name,
                workload => {
                    let target = &object.data["spec"]["targetRef"];
                    let [kind, name] = texts(target, ["kind", "name"]);
                    workload.is_target(kind, name)
                }
            });
            ensure!(
                !objects.is_empty(),
                "no VPA object in namespace {namespace} is of this name, or targets it"
            );
        }
        Ok(objects)
    }
}

/// Reverts the pods of a VPA object; counts them only without a timeout.
async fn revert_of(
    cluster: &Cluster,
    object: &DynamicObject,
    timeout: Option<std::time::Duration>,
) -> Reverted {
    let target = &object.data["spec"]["targetRef"];
    let [kind, name] = texts(target, ["kind", "name"]);
    let mut reverted = Reverted {
        namespace: object.namespace().unwrap_or_default(),
        workload: format!("{kind}/{name}"),
        ..Reverted::default()
    };
    let reference = CrossVersionObjectReference::deserialize(target);
    let done = match reference {
        Ok(reference) => revert_pods(cluster, &reference, timeout, &mut reverted).await,
        Err(error) => Err(error.into()),
    };
    reverted.problem = done.err().map(|error| format!("{error:#}"));
    reverted
}

const OFF: &str = "Off";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The mode is kept in an annotation.
    Off,
    /// The kept mode again, unless there is another one meanwhile.
    Back,
}

/// Changes the modes of VPA objects and of the policies that manage them. A sentence for each change.
async fn change_modes(
    cluster: &Cluster,
    objects: &[DynamicObject],
    change: Change,
    is_dry_run: bool,
) -> anyhow::Result<Vec<String>> {
    let mut notes = Vec::new();
    let policies: BTreeSet<_> = objects.iter().filter_map(policy_of).collect();
    for (kind, namespace, name) in policies {
        let api = match &namespace {
            Some(namespace) => cluster.untyped::<SizingPolicy>(Some(namespace)),
            None => cluster.untyped::<ClusterSizingPolicy>(None),
        };
        let title = match namespace {
            Some(namespace) => format!("{kind} {namespace}/{name}, with all its workloads"),
            None => format!("{kind} {name}, with all its workloads"),
        };
        let policy = api.get(&name).await;
        let policy = policy.map_err(cluster.failed(&format!("{kind} {name}")))?;
        let mode = &policy.data["spec"]["updateMode"];
        let spec = |mode: Value| json!({"updateMode": mode});
        let done = write(&api, &policy, (mode, true), spec, change, is_dry_run).await;
        let done = done.map_err(cluster.failed(&format!("or change {kind} {name}")))?;
        notes.extend(done.map(|mode| format!("{title}: {mode}.")));
    }
    for object in objects {
        let namespace = object.namespace().unwrap_or_default();
        let name = object.name_any();
        let api = cluster.untyped::<Vpa>(Some(&namespace));
        let mode = &object.data["spec"]["updatePolicy"]["updateMode"];
        let spec = |mode: Value| json!({"updatePolicy": {"updateMode": mode}});
        let is_kept = policy_of(object).is_none();
        let done = write(&api, object, (mode, is_kept), spec, change, is_dry_run).await;
        let done = done.map_err(cluster.failed(&format!("or change the VPA object {name}")))?;
        notes.extend(done.map(|mode| format!("VerticalPodAutoscaler {namespace}/{name}: {mode}.")));
    }
    Ok(notes)
}

/// Kind, namespace and name of the policy that manages a VPA object.
fn policy_of(object: &DynamicObject) -> Option<(String, Option<String>, String)> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|it| it.kind.ends_with("SizingPolicy"))?;
    let namespace = (owner.kind == "SizingPolicy").then(|| object.namespace());
    Some((owner.kind.clone(), namespace.flatten(), owner.name.clone()))
}

/// Whether an object was switched off, and can be resumed.
pub(crate) fn is_reverted(metadata: &ObjectMeta) -> bool {
    let mut annotations = metadata.annotations.iter().flatten();
    annotations.any(|(key, _)| key == MODE_BEFORE_REVERT)
}

/// Writes the mode of an object, and keeps the mode before, or not: a policy gives it to its VPA objects.
/// Returns what was written, if that is a change.
async fn write(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    (mode, is_kept): (&Value, bool),
    spec: impl Fn(Value) -> Value,
    change: Change,
    is_dry_run: bool,
) -> kube::Result<Option<String>> {
    let kept = object.annotations().get(MODE_BEFORE_REVERT);
    let is_off = mode == OFF;
    let (annotation, mode, sentence) = match (change, kept) {
        (Change::Off, _) if is_off => return Ok(None),
        (Change::Off, _) => {
            let before = is_kept.then(|| mode.as_str().unwrap_or_default());
            (json!(before), json!(OFF), "the mode is Off".to_owned())
        }
        (Change::Back, None) => return Ok(None),
        (Change::Back, Some(before)) => {
            let before = Some(before).filter(|before| !before.is_empty());
            let mode = if is_off { json!(before) } else { mode.clone() };
            let shown = mode.as_str().unwrap_or("the default");
            let sentence = format!("the mode is {shown} again");
            (Value::Null, mode, sentence)
        }
    };
    let patch = json!({
        "metadata": {"annotations": {MODE_BEFORE_REVERT: annotation}},
        "spec": spec(mode),
    });
    let params = PatchParams {
        dry_run: is_dry_run,
        ..PatchParams::default()
    };
    api.patch(&object.name_any(), &params, &Patch::Merge(patch))
        .await?;
    let suffix = if is_dry_run { " (dry run)" } else { "" };
    Ok(Some(format!("{sentence}{suffix}")))
}
