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

use crate::cluster::{Cluster, ClusterArgs, block_on};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Document, OutputArgs};

pub(crate) use judge::Recommended;
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

/// An explanation.
pub(crate) struct Explained {
    /// The explanation as tables.
    pub(crate) document: Document,
    /// Recommended requests of a VPA.
    pub(crate) recommendations: Vec<Recommended>,
    /// Whether all objects that explain it could be read.
    is_complete: bool,
}

/// Explains an object of a namespace.
pub(crate) async fn explain(
    cluster: &Cluster,
    namespace: &str,
    subject: &Subject,
) -> Result<Explained, Failure> {
    Ok(match reader::read(cluster, namespace, subject).await? {
        Found::Vpa(facts) => {
            let explanation = judge::explain(&facts);
            Explained {
                document: document::document(&explanation),
                recommendations: explanation.recommendations,
                is_complete: facts.missing.is_empty(),
            }
        }
        Found::Ehpa(facts) => Explained {
            document: ehpa::document(&ehpa::explain(&facts)),
            recommendations: Vec::new(),
            is_complete: facts.missing.is_empty(),
        },
    })
}

/// Runs the command.
pub(crate) fn run(args: &ExplainArgs) -> Result<Outcome, Failure> {
    let explained = block_on(async {
        let cluster = args.cluster.connect().await?;
        let namespace = args.namespace.as_ref().unwrap_or(&cluster.namespace);
        explain(&cluster, namespace, &args.subject).await
    })?;
    output::print(&explained.document, &args.output)?;
    Ok(if explained.is_complete {
        Outcome::Done
    } else {
        Outcome::Partial
    })
}
