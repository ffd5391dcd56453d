//! Tasks that write or publish, which run only during a term of leadership.

use std::rc::Rc;

use futures::future::{FutureExt as _, LocalBoxFuture, try_join_all};
use tokio_util::sync::CancellationToken;

use crate::hold::Hold;
use crate::leader_term::Leading;

type Run = Box<dyn Fn(Leading, CancellationToken) -> LocalBoxFuture<'static, anyhow::Result<()>>>;

pub struct LeaderTasks {
    tasks: Vec<Run>,
    shutdown: CancellationToken,
}

impl LeaderTasks {
    /// No tasks. `shutdown` is that of the program.
    pub fn new(shutdown: CancellationToken) -> Self {
        Self {
            tasks: Vec::new(),
            shutdown,
        }
    }

    /// Adds a task, which `run` starts for each term. It ends at shutdown.
    pub fn add<F>(&mut self, run: impl Fn(Leading, CancellationToken) -> F + 'static)
    where
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        let task = move |leading, shutdown| run(leading, shutdown).boxed_local();
        self.tasks.push(Box::new(task));
    }

    pub fn add_with_hold<F>(
        &mut self,
        hold: &Hold,
        run: impl Fn(Leading, CancellationToken) -> F + 'static,
    ) where
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        let (hold, run) = (hold.clone(), Rc::new(run));
        self.add(move |leading: Leading, shutdown: CancellationToken| {
            let (run, ends) = (Rc::clone(&run), shutdown.clone());
            hold.clone()
                .run(ends, move || run(leading.clone(), shutdown.clone()))
        });
    }

    /// The work of one term. At its end the feed's subscribers are disconnected and unfinished work
    /// is dropped.
    pub fn run(&self, leading: &Leading) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let tasks = self.tasks.iter();
        let started = tasks.map(|run| run(leading.clone(), self.shutdown.clone()));
        try_join_all(started.collect::<Vec<_>>()).map(|ended| ended.map(drop))
    }
}
