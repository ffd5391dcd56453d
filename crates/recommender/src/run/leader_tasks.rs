//! Tasks that write or publish, which run only during a term of leadership.

use futures::future::{FutureExt as _, LocalBoxFuture, try_join_all};
use runtime::Leading;
use tokio_util::sync::CancellationToken;

type Run = Box<dyn Fn(Leading, CancellationToken) -> LocalBoxFuture<'static, anyhow::Result<()>>>;

/// The tasks of the leader.
pub(super) struct LeaderTasks {
    tasks: Vec<Run>,
    shutdown: CancellationToken,
}

impl LeaderTasks {
    pub(super) fn new(shutdown: CancellationToken) -> Self {
        Self {
            tasks: Vec::new(),
            shutdown,
        }
    }

    /// Adds a task, which `run` starts for each term. It ends at shutdown.
    pub(super) fn add<F>(&mut self, run: impl Fn(Leading, CancellationToken) -> F + 'static)
    where
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        let task = move |leading, shutdown| run(leading, shutdown).boxed_local();
        self.tasks.push(Box::new(task));
    }

    /// The work of one term. At its end the feed's subscribers are disconnected and unfinished work
    /// is dropped.
    pub(super) fn run(
        &self,
        leading: &Leading,
    ) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let tasks = self.tasks.iter();
        let started = tasks.map(|run| run(leading.clone(), self.shutdown.clone()));
        try_join_all(started.collect::<Vec<_>>()).map(|ended| ended.map(drop))
    }
}
