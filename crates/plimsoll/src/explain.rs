//! The recommendation of a workload, the caps on it, and the pods that do not have it yet; the metrics
//! of an EHPA and why its replicas do not change. From the objects of the API server, with the rights
//! of the user.

mod document;
mod ehpa;
mod judge;
mod lines;
mod policy;
mod reader;
mod steps;
#[cfg(test)]
mod tests;

use api::checkpoint::VerticalPodAutoscalerCheckpoint;
use api::vpa::VerticalPodAutoscaler;
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::Value;
use sizing::Config;

use crate::cluster::{Cluster, block_on};
use crate::failure::Outcome;
use crate::installation::InstallationArgs;
use crate::json::text;
use crate::output::{self, Document, OutputArgs};
use crate::subject::Subject;

pub(crate) use document::STEPS;
pub(crate) use ehpa::{Forecast, hpa_metrics};
pub(crate) use judge::Recommended;
pub(crate) use lines::{Mark, marks_of_events, plain_text};
use lines::{marks, plain};
use policy::PolicyFacts;
use reader::Found;

#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Object as KIND/NAME: a VPA, an EHPA, a workload that one of them targets, or a pod of such a
    /// workload.
    #[arg(value_name = "KIND/NAME")]
    pub(crate) subject: Subject,
    /// Namespace; the default is the one of the context.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) installation: InstallationArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Objects that explain a recommendation, as read.
#[derive(Clone, Debug)]
struct Facts {
    vpa: VerticalPodAutoscaler,
    /// Names of further VPAs with the same target.
    others: Vec<String>,
    /// Name of the EHPA that scales its target.
    ehpa: Option<String>,
    policy: Option<PolicyFacts>,
    checkpoints: Vec<VerticalPodAutoscalerCheckpoint>,
    sizing: Config,
    /// Reason why these are the defaults, one sentence.
    sizing_note: Option<String>,
    /// Pods that match the selector of its target, or the pod to explain.
    pods: Vec<Pod>,
    budgets: Vec<PodDisruptionBudget>,
    events: Vec<Event>,
    now: Timestamp,
    /// Parts that could not be read, one sentence each.
    missing: Vec<String>,
}

pub(crate) struct Explained {
    pub(crate) document: Document,
    /// The target, such as `deployment/web`.
    pub(crate) workload: String,
    pub(crate) recommendations: Vec<Recommended>,
    pub(crate) forecasts: Vec<Forecast>,
    pub(crate) marks: Vec<Mark>,
    /// Whether all objects that explain it could be read.
    is_complete: bool,
}

/// Explains an object of a namespace. The suite is in `system_namespace`.
pub(crate) async fn explain(
    cluster: &Cluster,
    system_namespace: &str,
    namespace: &str,
    subject: &Subject,
) -> anyhow::Result<Explained> {
    let found = reader::read(cluster, system_namespace, namespace, subject).await?;
    Ok(match found {
        Found::Vpa(facts) => {
            let data = plain(judge::explain(&facts));
            Explained {
                workload: workload(&data),
                marks: marks(&data),
                document: document::of_vpa(data),
                recommendations: judge::recommendations(&facts.vpa),
                forecasts: Vec::new(),
                is_complete: facts.missing.is_empty(),
            }
        }
        Found::Ehpa(facts) => {
            let data = plain(ehpa::explain(&facts));
            Explained {
                workload: workload(&data),
                marks: marks(&data),
                document: document::of_ehpa(data),
                recommendations: Vec::new(),
                forecasts: ehpa::forecasts(&facts),
                is_complete: facts.missing.is_empty(),
            }
        }
    })
}

/// The target `Deployment/web` as usage names it: `deployment/web`.
fn workload(explanation: &Value) -> String {
    let target = text(&explanation["target"]);
    let (kind, name) = target.split_once('/').unwrap_or(("", target));
    format!("{}/{name}", kind.to_lowercase())
}

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Outcome> {
    let explained = block_on(async {
        let cluster = args.installation.cluster.connect().await?;
        let namespace = args.namespace.as_ref().unwrap_or(&cluster.namespace);
        let system_namespace = &args.installation.system_namespace;
        explain(&cluster, system_namespace, namespace, &args.subject).await
    })?;
    output::print(&explained.document, &args.output)?;
    Ok(Outcome::of(explained.is_complete))
}
