//! The stop switch: while the `ConfigMap` exists, the updater evicts and resizes no pod.

use std::collections::BTreeSet;

use anyhow::anyhow;
use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::check::Unread;
use crate::check::reader::deployments;
use crate::cluster::{Answers, Cluster, ClusterArgs, ContextArgs, block_on, list, worst};
use crate::failure::Outcome;
use crate::installation::{InstallationArgs, ObjectName, Program, SELECTOR, programs, stop_switch};
use crate::output::print_text;

const MAX_REASON: usize = 1024;

#[derive(Clone, Debug, Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub(crate) switch: SwitchArgs,
    /// Reason for operators, at most 1,024 bytes; `check` and `status` show it.
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = reason)]
    pub(crate) reason: String,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SwitchArgs {
    #[command(flatten)]
    pub(crate) installation: InstallationArgs,
    #[command(flatten)]
    pub(crate) contexts: ContextArgs,
    /// Print what would be done, and send it to the API server as a dry run.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

fn reason(text: &str) -> Result<String, String> {
    let length = text.len();
    if length > MAX_REASON {
        return Err(format!("{length} bytes, at most {MAX_REASON} are allowed"));
    }
    Ok(text.to_owned())
}

pub(crate) fn stop(args: &StopArgs) -> anyhow::Result<Outcome> {
    let params = PostParams {
        dry_run: args.switch.dry_run,
        ..PostParams::default()
    };
    args.switch.run("stopped", async |cluster, name| {
        let mut object = json!({
            "metadata": {"name": name.name, "labels": {"app.kubernetes.io/part-of": "plimsoll"}},
            "data": {},
        });
        if !args.reason.is_empty() {
            object["data"]["reason"] = json!(args.reason);
        }
        let object = serde_json::from_value(object)?;
        let api = cluster.within::<ConfigMap>(&name.namespace);
        match api.create(&params, &object).await {
            Ok(_) => Ok(format!(
                "stopped: created the ConfigMap {name}, and no pod is evicted or resized{}",
                suffix(params.dry_run)
            )),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                Ok(format!("already stopped: the ConfigMap {name} exists"))
            }
            Err(error) => Err(failure("create", &name, &cluster, error)),
        }
    })
}

pub(crate) fn go(args: &SwitchArgs) -> anyhow::Result<Outcome> {
    let params = DeleteParams {
        dry_run: args.dry_run,
        ..DeleteParams::default()
    };
    args.run("not stopped", async |cluster, name| {
        let api = cluster.within::<ConfigMap>(&name.namespace);
        match api.delete(&name.name, &params).await {
            Ok(_) => Ok(format!(
                "continued: deleted the ConfigMap {name}, and pods are evicted and resized again{}",
                suffix(params.dry_run)
            )),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                Ok(format!("not stopped: there is no ConfigMap {name}"))
            }
            Err(error) => Err(failure("delete", &name, &cluster, error)),
        }
    })
}

impl SwitchArgs {
    /// Turns the switch of each cluster, and prints the line of each, with the number of those that
    /// are in `state` then.
    fn run(
        &self,
        state: &str,
        turn: impl AsyncFn(Cluster, ObjectName) -> anyhow::Result<String> + Sync,
    ) -> anyhow::Result<Outcome> {
        let cluster = &self.installation.cluster;
        let answers = self.contexts.read(cluster, |cluster| {
            block_on(async {
                let (cluster, name) = self.switch(cluster).await?;
                turn(cluster, name).await
            })
        })?;
        let Answers {
            are_named,
            found,
            failed,
        } = answers;
        if !are_named {
            let lines = found.into_iter().map(|(_, line)| line + "\n");
            return print_text(lines.collect::<String>());
        }
        let lines = found.iter().map(|(name, line)| format!("{name}: {line}\n"));
        let lines: String = lines.collect();
        let clusters = found.len() + failed.len();
        let dry_run = suffix(self.dry_run);
        let done = found.len();
        let outcome = print_text(format!(
            "{lines}{done} of {clusters} clusters are {state}{dry_run}\n"
        ))?;
        worst(failed)?;
        Ok(outcome)
    }

    /// The switch that the updater of a cluster reads, and the cluster.
    async fn switch(&self, args: &ClusterArgs) -> anyhow::Result<(Cluster, ObjectName)> {
        let cluster = args.connect().await?;
        cluster.version().await?;
        let namespace = &self.installation.system_namespace;
        match deployments(&cluster, namespace).await {
            Ok(deployments) => {
                let mut programs = programs(&deployments).into_iter();
                if !programs.any(|program| program.name == "updater") {
                    return Err(no_updater(&cluster, namespace).await);
                }
            }
            Err(Unread { reason, .. }) => {
                let server = &cluster.server;
                eprintln!(
                    "warning: {server}: {reason}, so it is not known whether an updater is there"
                );
            }
        }
        Ok((cluster, stop_switch(namespace)))
    }
}

/// Error of a namespace without an updater, with those that have one, as far as they may be read.
async fn no_updater(cluster: &Cluster, namespace: &str) -> anyhow::Error {
    let selected = ListParams::default().labels(SELECTOR);
    let found: Vec<Deployment> = list(&cluster.all(), &selected).await.unwrap_or_default();
    let updaters = programs(&found).into_iter();
    let updaters = updaters.filter(|program| program.name == "updater");
    let elsewhere: BTreeSet<&str> = updaters.map(Program::namespace).collect();
    let elsewhere: Vec<&str> = elsewhere.into_iter().collect();
    let remedy = if elsewhere.is_empty() {
        "name its namespace with --system-namespace".to_owned()
    } else {
        format!("use --system-namespace={}", elsewhere.join(" or "))
    };
    anyhow!("nothing was done: the namespace {namespace} has no updater; {remedy}")
}

fn suffix(dry_run: bool) -> &'static str {
    if dry_run { " (dry run)" } else { "" }
}

fn failure(verb: &str, name: &ObjectName, cluster: &Cluster, error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.code != 401 => anyhow!(
            "cannot {verb} the ConfigMap {name}: {}",
            status.message.trim_end_matches('.')
        ),
        error => cluster.failed(&format!("the ConfigMap {name}"))(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_bounded() {
        assert_eq!(reason("upgrade"), Ok("upgrade".to_owned()));
        let error = reason(&"a".repeat(1025)).expect_err("too long");
        assert_eq!(error, "1025 bytes, at most 1024 are allowed");
    }
}
