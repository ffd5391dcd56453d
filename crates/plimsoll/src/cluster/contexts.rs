//! Several clusters at once: contexts of a kubeconfig, read at the same time.

use std::collections::BTreeMap;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use kube::config::Kubeconfig;
use rayon::ThreadPoolBuilder;
use rayon::iter::Either;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::ClusterArgs;
use crate::failure::{Failure, Outcome, exit_code};

/// Clusters that are read at the same time.
const MAX_READERS: usize = 4;

/// Flags for several clusters, in place of `--context`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ContextArgs {
    /// Contexts of several clusters, separated by commas. Four are read at the same time.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new(),
        conflicts_with = "context",
        help_heading = "Cluster"
    )]
    pub(crate) contexts: Vec<String>,
    /// All clusters of the kubeconfig. Of several contexts of a cluster, the current one counts, else
    /// the first.
    #[arg(long, conflicts_with_all = ["context", "contexts"], help_heading = "Cluster")]
    pub(crate) all_contexts: bool,
}

pub(crate) struct Answers<T> {
    /// Whether the flags ask for several clusters, so that the output names them.
    pub(crate) are_named: bool,
    /// Name of the context and result, in the order of the contexts. Without names there is one
    /// result, and its name is empty.
    pub(crate) found: Vec<(String, T)>,
    pub(crate) failed: Vec<(String, anyhow::Error)>,
}

impl ContextArgs {
    pub(crate) fn are_set(&self) -> bool {
        self.all_contexts || !self.contexts.is_empty()
    }

    /// Runs `read` for each cluster, for four of them at the same time. The error of one of several
    /// clusters is part of the answers, even if there is no other answer.
    pub(crate) fn read<T: Send + Sync>(
        &self,
        cluster: &ClusterArgs,
        read: impl Fn(&ClusterArgs) -> anyhow::Result<T> + Sync,
    ) -> anyhow::Result<Answers<T>> {
        if !self.are_set() {
            return Ok(Answers::one(read(cluster)?));
        }
        let names = self.names(&cluster.kubeconfig()?)?;
        let readers = ThreadPoolBuilder::new().num_threads(MAX_READERS).build()?;
        let (found, failed) = readers.install(|| {
            names.into_par_iter().partition_map(|name| {
                let context = Some(name.clone());
                match read(&ClusterArgs {
                    context,
                    ..cluster.clone()
                }) {
                    Ok(result) => Either::Left((name, result)),
                    Err(error) => Either::Right((name, error)),
                }
            })
        });
        Ok(Answers {
            are_named: true,
            found,
            failed,
        })
    }

    /// Contexts of different clusters. Unknown ones remain, so that the others are read.
    fn names(&self, kubeconfig: &Kubeconfig) -> anyhow::Result<Vec<String>> {
        let contexts = kubeconfig.contexts.iter();
        let clusters = contexts.filter_map(|it| {
            let context = it.context.as_ref()?;
            Some((it.name.as_str(), context.cluster.as_str()))
        });
        let mut names: Vec<&str> = self.contexts.iter().map(String::as_str).collect();
        if self.all_contexts {
            names = clusters.clone().map(|(name, _)| name).collect();
            names.sort_by_key(|name| Some(*name) != kubeconfig.current_context.as_deref());
        }
        let clusters: BTreeMap<&str, &str> = clusters.collect();
        let mut chosen: Vec<&str> = Vec::new();
        for name in names {
            let cluster = |name| clusters.get(name).copied().unwrap_or(name);
            let same = chosen.iter().find(|other| cluster(other) == cluster(name));
            match same {
                None => chosen.push(name),
                Some(_) if self.all_contexts => {}
                Some(other) => {
                    let message =
                        format!("--contexts: {other} and {name} are the same cluster: name one");
                    return Err(Failure::Usage(message).into());
                }
            }
        }
        if chosen.is_empty() {
            let message = "--all-contexts: the kubeconfig has no contexts".to_owned();
            return Err(Failure::Usage(message).into());
        }
        Ok(chosen.into_iter().map(str::to_owned).collect())
    }
}

impl<T> Answers<T> {
    /// The result of a cluster that is not named.
    pub(crate) fn one(result: T) -> Self {
        Self {
            are_named: false,
            found: vec![(String::new(), result)],
            failed: Vec::new(),
        }
    }

    /// The answers; without any, the worst error.
    pub(crate) fn some(mut self) -> anyhow::Result<Self> {
        if self.found.is_empty() {
            worst(std::mem::take(&mut self.failed))?;
        }
        Ok(self)
    }

    /// Names the clusters without an answer on the standard error.
    pub(crate) fn outcome(&self) -> Outcome {
        for (name, error) in &self.failed {
            eprintln!("left out: {name}: {error:#}");
        }
        Outcome::of(self.failed.is_empty())
    }

    /// Adds them to the JSON of several clusters.
    pub(crate) fn add_left_out(&self, data: &mut Value) {
        let failed = self.failed.iter();
        let failed =
            failed.map(|(name, error)| json!({"cluster": name, "error": format!("{error:#}")}));
        data["leftOut"] = failed.collect();
    }
}

/// Returns the error with the highest exit code, and prints the others.
pub(crate) fn worst(failed: Vec<(String, anyhow::Error)>) -> anyhow::Result<()> {
    let errors = failed.into_iter();
    let mut errors: Vec<_> = errors.map(|(name, error)| error.context(name)).collect();
    errors.sort_by_key(exit_code);
    let Some(worst) = errors.pop() else {
        return Ok(());
    };
    for error in errors {
        eprintln!("error: {error:#}");
    }
    Err(worst)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::json::tests::parse;

    /// The contexts `admin` and `dev` of the cluster `a`, and `b` of the cluster `b`.
    fn check(contexts: &[&str], current: &str, expected: Result<&[&str], &str>) {
        let context = |name: &str, cluster: &str| json!({"name": name, "context": {"cluster": cluster, "user": "me"}});
        let kubeconfig = parse(json!({
            "current-context": current,
            "contexts": [context("admin", "a"), context("b", "b"), context("dev", "a")],
        }));
        let args = ContextArgs {
            contexts: contexts.iter().map(|name| (*name).to_owned()).collect(),
            all_contexts: contexts.is_empty(),
        };
        let names = args.names(&kubeconfig).map_err(|error| error.to_string());
        let expected = expected.map(|names| names.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(names, expected.map_err(str::to_owned));
    }

    #[test]
    fn no_cluster_counts_twice() {
        check(&[], "", Ok(&["admin", "b"]));
        check(&[], "dev", Ok(&["dev", "b"]));
        check(&["b", "dev"], "admin", Ok(&["b", "dev"]));
        // The others are read; reading this one is an error.
        check(&["gone", "b"], "b", Ok(&["gone", "b"]));
        let error = "--contexts: dev and admin are the same cluster: name one";
        check(&["dev", "admin"], "b", Err(error));
        check(
            &["b", "b"],
            "b",
            Err("--contexts: b and b are the same cluster: name one"),
        );
    }

    #[test]
    fn results_are_in_the_order_of_the_contexts_and_at_most_four_are_read_at_once() {
        let names: Vec<String> = (0..9).map(|index| format!("c{index}")).collect();
        let args = ContextArgs {
            contexts: names.clone(),
            all_contexts: false,
        };
        let file = crate::cluster::tests::kubeconfig("http://127.0.0.1:1");
        let cluster = ClusterArgs {
            kubeconfig: Some(file.path().to_owned()),
            context: None,
        };
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Each of the first four waits until all four run.
        let gate = std::sync::Barrier::new(MAX_READERS);
        let read = |cluster: &ClusterArgs| {
            let name = cluster.context.clone().unwrap_or_default();
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            if name.as_str() < "c4" {
                gate.wait();
            }
            running.fetch_sub(1, Ordering::SeqCst);
            anyhow::ensure!(name != "c5", "gone");
            Ok(name)
        };
        let answers = args.read(&cluster, read).expect("answers");
        assert_eq!(most.into_inner(), MAX_READERS);
        let found: Vec<&String> = answers.found.iter().map(|it| &it.0).collect();
        let expected: Vec<&String> = names.iter().filter(|it| *it != "c5").collect();
        assert_eq!(found, expected);
        assert!(answers.found.iter().all(|(name, answer)| name == answer));
        assert_eq!(answers.failed[0].0, "c5");
    }

    #[test]
    fn the_worst_error_has_the_highest_exit_code() {
        let unreachable = Failure::Unreachable(anyhow::anyhow!("no route"));
        let failed = vec![
            ("a".to_owned(), unreachable.into()),
            ("b".to_owned(), anyhow::anyhow!("refused")),
        ];
        let error = worst(failed).expect_err("an error");
        assert_eq!(exit_code(&error), 5);
        assert_eq!(format!("{error:#}"), "a: no route");
    }
}
