//! Shutdown of a program: after a signal, an error, or the unexpected end of a task.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use anyhow::anyhow;
use futures::FutureExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Cancels the token on the first SIGTERM or SIGINT. Exits at once on the second.
#[cfg(unix)]
pub fn on_signal(shutdown: CancellationToken) -> anyhow::Result<()> {
    use anyhow::Context as _;
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => ("SIGTERM", 143),
                _ = interrupt.recv() => ("SIGINT", 130),
            }
        };
        let (name, _) = next().await;
        shutdown.cancel();
        tracing::info!(
            signal = name,
            "shutting down; a second signal exits at once"
        );
        let (name, code) = next().await;
        tracing::warn!(signal = name, "exiting without waiting");
        std::process::exit(code);
    });
    Ok(())
}

/// Services run on Linux. The command-line tool, which shares this crate, runs on Windows too.
#[cfg(not(unix))]
pub fn on_signal(_: CancellationToken) -> anyhow::Result<()> {
    anyhow::bail!("this program needs a Unix system")
}

/// The tasks that a program cannot run without. Clones share them.
#[derive(Debug, Clone)]
pub struct Tasks {
    tracker: TaskTracker,
    shutdown: CancellationToken,
    /// Ends the tasks of [`Tasks::spawn_until_shutdown`].
    end: CancellationToken,
    failed: mpsc::Sender<anyhow::Error>,
}

impl Tasks {
    /// An empty set, and the receiver of the first error of a task.
    pub fn new(shutdown: CancellationToken) -> (Self, mpsc::Receiver<anyhow::Error>) {
        // One error is enough to end the process; later ones are only logged.
        let (failed, first_failure) = mpsc::channel(1);
        (
            Self {
                tracker: TaskTracker::new(),
                end: shutdown.clone(),
                shutdown,
                failed,
            },
            first_failure,
        )
    }

    /// Returns a handle whose [`Tasks::spawn_until_shutdown`] runs tasks until `end`, which is not
    /// before shutdown.
    pub(crate) fn until(&self, end: CancellationToken) -> Self {
        Self {
            end,
            ..self.clone()
        }
    }

    /// Spawns a task until shutdown. An error, a panic, or an early end shuts the program down.
    pub fn spawn(
        &self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        let Self {
            shutdown, failed, ..
        } = self.clone();
        self.tracker.spawn(async move {
            let error = match AssertUnwindSafe(task).catch_unwind().await {
                Ok(Ok(())) if shutdown.is_cancelled() => return,
                Ok(Ok(())) => anyhow!("task {name} ended unexpectedly"),
                Ok(Err(error)) => error.context(format!("task {name} failed")),
                Err(panic) => anyhow!("task {name} panicked: {}", message(&*panic)),
            };
            if let Err(unsent) = failed.try_send(error) {
                tracing::error!(error = %format_args!("{:#}", unsent.into_inner()), "another task failed");
            }
        });
    }

    /// Spawns an endless task that is dropped at shutdown, or at the end given to
    /// [`crate::Manager::until`].
    pub fn spawn_until_shutdown(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let end = self.end.clone();
        self.spawn(name, async move {
            end.run_until_cancelled(task).await;
            Ok(())
        });
    }

    /// Waits up to `deadline` for all tasks. Returns the number of unfinished ones.
    pub async fn drain(&self, deadline: Duration) -> usize {
        self.tracker.close();
        match tokio::time::timeout(deadline, self.tracker.wait()).await {
            Ok(()) => 0,
            Err(_) => self.tracker.len(),
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
        expected: &str,
    ) {
        let (tasks, mut failures) = Tasks::new(CancellationToken::new());
        tasks.spawn("pod watch", task);
        assert_eq!(format!("{:#}", failures.recv().await.unwrap()), expected);
    }

    #[tokio::test]
    async fn a_task_that_ends_too_early_is_a_failure() {
        check(async { Ok(()) }, "task pod watch ended unexpectedly").await;
        check(
            async { Err(anyhow!("no such file")) },
            "task pod watch failed: no such file",
        )
        .await;
        check(
            async { panic!("index {}", 7) },
            "task pod watch panicked: index 7",
        )
        .await;
    }

    #[tokio::test]
    async fn a_task_that_ends_after_shutdown_is_not() {
        let shutdown = CancellationToken::new();
        let (tasks, mut failures) = Tasks::new(shutdown.clone());
        let seen = shutdown.clone();
        tasks.spawn("pod watch", async move {
            seen.cancelled().await;
            Ok(())
        });
        shutdown.cancel();
        assert_eq!(tasks.drain(Duration::from_mins(1)).await, 0);
        drop(tasks);
        assert!(failures.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_task_with_a_later_end_runs_after_shutdown() {
        let shutdown = CancellationToken::new();
        let (tasks, mut failures) = Tasks::new(shutdown.clone());
        let end = CancellationToken::new();
        let (sender, mut steps) = mpsc::channel(1);
        tasks
            .until(end.clone())
            .spawn_until_shutdown(
                "watches",
                async move { while sender.send(()).await.is_ok() {} },
            );
        shutdown.cancel();
        for _ in 0..10 {
            assert_eq!(steps.recv().await, Some(()));
        }
        end.cancel();
        assert_eq!(tasks.drain(Duration::from_mins(1)).await, 0);
        drop(tasks);
        assert!(failures.recv().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn draining_stops_waiting_at_its_deadline() {
        let (tasks, _failures) = Tasks::new(CancellationToken::new());
        tasks.spawn("stuck", std::future::pending());
        assert_eq!(tasks.drain(Duration::from_secs(20)).await, 1);
    }
}
