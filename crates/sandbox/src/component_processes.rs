//! The components of a sandbox: their desired states and their supervision.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::component::Component;
use crate::component_commands::CommandContext;
use crate::component_process::{ComponentProcess, DesiredState, freeze};
use crate::control_socket::ControlRequest;
use crate::layout::Layout;
use crate::state_file::{Phase, Record};

pub(crate) struct ComponentProcesses {
    record: Arc<watch::Sender<Record>>,
    desired: BTreeMap<Component, watch::Sender<DesiredState>>,
    tasks: JoinSet<Result<()>>,
}

impl ComponentProcesses {
    /// No components yet; `record` gets their states.
    pub(crate) fn new(record: Arc<watch::Sender<Record>>) -> Self {
        Self {
            record,
            desired: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    pub(crate) fn start(&mut self, context: CommandContext<'_>, component: Component) {
        let (sender, desired) = watch::channel(DesiredState::Running);
        let process = ComponentProcess {
            component,
            command: context.command_line(component),
            record: Arc::clone(&self.record),
        };
        self.tasks.spawn(process.keep(desired));
        self.desired.insert(component, sender);
    }

    /// Returns the reason as soon as a component ends by itself.
    pub(crate) fn first_failure(
        &self,
        layout: &Layout,
    ) -> impl Future<Output = anyhow::Error> + use<> {
        let (mut record, layout) = (self.record.subscribe(), layout.clone());
        async move {
            let failed = |record: &Record| {
                record
                    .components
                    .iter()
                    .find(|(_, status)| status.restarts > 0)
                    .map(|(component, _)| *component)
            };
            let component = record
                .wait_for(|record| failed(record).is_some())
                .await
                .ok()
                .and_then(|record| failed(&record));
            let Some(component) = component else {
                return std::future::pending().await;
            };
            let log = layout.log(component);
            anyhow::anyhow!(
                "{component} ended by itself; the end of its log {}:\n{}",
                log.display(),
                log_tail(&log)
            )
        }
    }

    pub(crate) async fn handle(&self, request: ControlRequest) -> Result<()> {
        match request {
            ControlRequest::Start(component) => {
                self.set(component, DesiredState::Running, Phase::Running)
                    .await
            }
            ControlRequest::Stop(component) => {
                self.set(component, DesiredState::Stopped, Phase::Stopped)
                    .await
            }
            ControlRequest::Pause(component) => freeze(&self.record, component, true),
            ControlRequest::Resume(component) => freeze(&self.record, component, false),
            ControlRequest::Down => bail!("`down` concerns the whole sandbox"),
        }
    }

    async fn set(&self, component: Component, state: DesiredState, phase: Phase) -> Result<()> {
        let desired = self
            .desired
            .get(&component)
            .with_context(|| format!("this sandbox has no {component}"))?;
        desired.send_replace(state);
        let reached = |record: &Record| {
            record
                .components
                .get(&component)
                .is_some_and(|status| status.phase == phase)
        };
        self.record
            .subscribe()
            .wait_for(reached)
            .await
            .context("the supervisor is going down")?;
        Ok(())
    }

    /// Ends all components and waits until they are gone.
    pub(crate) async fn end(mut self) {
        for desired in std::mem::take(&mut self.desired).into_values() {
            desired.send_replace(DesiredState::Stopped);
        }
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended.context("join").and_then(|ended| ended) {
                tracing::error!(error = format!("{error:#}"), "cannot supervise a component");
            }
        }
    }
}

/// Bytes that are read from the end of the file.
const WINDOW_BYTES: u64 = 16 * 1024;

/// The last twelve lines of a file; empty when it cannot be read.
pub(crate) fn log_tail(path: &Path) -> String {
    last_lines(path, 12)
}

fn last_lines(path: &Path, lines: usize) -> String {
    let window = read_end(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&window);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn read_end(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(WINDOW_BYTES)))?;
    let mut window = Vec::new();
    file.take(WINDOW_BYTES).read_to_end(&mut window)?;
    Ok(window)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_the_last_lines_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(
            &path,
            format!("{}\nlast but one\nlast\n", "x".repeat(100_000)),
        )
        .unwrap();
        assert_eq!(last_lines(&path, 2), "last but one\nlast");
        assert_eq!(last_lines(&folder.path().join("none"), 2), "");
    }
}
