//! The recommendation of a workload, the caps on it, and the pods that do not have it yet; the metrics
//! of an EHPA and why its replicas do not change. From the objects of the API server, with the rights
//! of the user.

mod document;
mod ehpa;
mod facts;
mod judge;
mod lines;
mod policy;
mod reader;
mod subject;
#[cfg(test)]
mod tests;

use clap::Args;

use crate::cluster::{ClusterArgs, block_on};
use crate::failure::{Failure, Outcome};
use crate::output::{self, OutputArgs};

use reader::Found;
use subject::Subject;

/// Flags of `explain`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Object as KIND/NAME: a VPA, an EHPA, a workload that one of them targets, or a pod of such a
    /// workload.
    #[arg(value_name = "KIND/NAME")]
    pub(crate) subject: Subject,
    /// Namespace; the default is the one of the context.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Connection.
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Output.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Runs the command.
pub(crate) fn run(args: &ExplainArgs) -> Result<Outcome, Failure> {
    let found = block_on(async {
        let cluster = args.cluster.connect().await?;
        let namespace = args.namespace.as_ref().unwrap_or(&cluster.namespace);
        reader::read(&cluster, namespace, &args.subject).await
    })?;
    let (document, is_complete) = match &found {
        Found::Vpa(facts) => {
            let explanation = judge::explain(facts);
            (document::document(&explanation), facts.missing.is_empty())
        }
        Found::Ehpa(facts) => {
            let explanation = ehpa::explain(facts);
            (ehpa::document(&explanation), facts.missing.is_empty())
        }
    };
    output::print(&document, &args.output)?;
    Ok(if is_complete {
        Outcome::Done
    } else {
        Outcome::Partial
    })
}
