//! Starts a supervisor and reads its events until its sandbox is up, unless one of this name is up
//! already.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::component_processes::log_tail;
use super::state_file::{Record, lock};
use crate::go_module::{CONTAINER_RUNTIME, NODE, PROMETHEUS};
use crate::kubernetes_version::KubernetesVersion;
use crate::layout::Layout;
use crate::node::images;
use crate::node::requirements::missing_for_real_node;
use crate::programs::{self, ensure_built};
use crate::startup_protocol::{DETACH, NodeFolders, Options, SandboxConfig, StartEvent};
use crate::take_down::{DOWN_TIMEOUT, remove_stale};

/// Pause between two reads of the record of a sandbox that is going down.
const POLL: Duration = Duration::from_millis(50);

/// The supervisor of a sandbox that goes down with this process, when its standard input closes.
#[derive(Debug)]
pub(crate) struct OwnedSupervisor {
    pipe: ChildStdin,
    supervisor: Child,
}

impl OwnedSupervisor {
    /// Keeps the sandbox running after this process.
    pub(crate) fn detach(mut self) -> Result<()> {
        writeln!(self.pipe, "{DETACH}").context("detach the sandbox")
    }

    /// Waits for the end of a supervisor that was asked to end.
    pub(crate) fn wait(mut self) -> Result<()> {
        self.supervisor
            .wait()
            .context("wait for the supervisor")
            .map(drop)
    }
}

/// Brings a sandbox up; blocks until it is. The supervisor is `None` when it was up already.
pub(crate) fn bring_up(
    options: Options,
    layout: &Layout,
    step: &mut dyn FnMut(&str),
) -> Result<(Record, Option<OwnedSupervisor>)> {
    let _lock = lock(layout)?;
    if let Some(record) = running(layout)? {
        return Ok((record, None));
    }
    remove_stale(layout)?;
    let owned = spawn_supervisor(&config(options)?, layout, step)?;
    let record = Record::read(layout).context("read the record of the sandbox")?;
    Ok((record, Some(owned)))
}

/// The record of a sandbox that is up, if any. Waits for one that is going down.
fn running(layout: &Layout) -> Result<Option<Record>> {
    let deadline = Instant::now() + DOWN_TIMEOUT;
    while let Some(record) = Record::read(layout).filter(Record::is_alive) {
        if record.ready {
            return Ok(Some(record));
        }
        ensure!(
            Instant::now() < deadline,
            "sandbox {:?} is neither up nor down; `sandbox down --name {0}` ends it",
            layout.name()
        );
        sleep(POLL);
    }
    Ok(None)
}

fn config(options: Options) -> Result<SandboxConfig> {
    let real_node = options.real_node.then(|| real_node(&options)).transpose()?;
    ensure!(
        options.nodes > 0 || options.real_node,
        "a sandbox has at least one node"
    );
    let control_plane = options.kubernetes_version.ensure_built(&options.program)?;
    let prometheus = options
        .prometheus
        .then(|| ensure_built(&PROMETHEUS, &options.program))
        .transpose()?;
    Ok(SandboxConfig {
        options,
        real_node,
        control_plane,
        prometheus,
    })
}

/// Checks what a real node needs, and builds its programs.
fn real_node(options: &Options) -> Result<NodeFolders> {
    let missing = missing_for_real_node();
    ensure!(
        missing.is_empty(),
        "a real node cannot run here: {}",
        missing.join("; ")
    );
    ensure!(
        options.kubernetes_version == KubernetesVersion::Newest,
        "a real node runs Kubernetes {} only",
        KubernetesVersion::Newest
    );
    Ok(NodeFolders {
        node: ensure_built(&NODE, &options.program)?,
        container_runtime: ensure_built(&CONTAINER_RUNTIME, &options.program)?,
        pause_image: images::pause_archive(&programs::cache()?)?,
    })
}

fn spawn_supervisor(
    config: &SandboxConfig,
    layout: &Layout,
    step: &mut dyn FnMut(&str),
) -> Result<OwnedSupervisor> {
    layout.create()?;
    let log = File::create(layout.supervisor_log()).context("create the supervisor's log")?;
    let mut supervisor = Command::new(&config.options.program)
        .arg("supervise")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .with_context(|| format!("start {}", config.options.program.display()))?;
    let mut pipe = supervisor
        .stdin
        .take()
        .context("no pipe to the supervisor")?;
    let events = supervisor
        .stdout
        .take()
        .context("no pipe from the supervisor")?;
    let line = serde_json::to_string(config).context("render the configuration")?;
    writeln!(pipe, "{line}").context("send the configuration")?;
    if let Err(error) = await_ready(events, layout, step) {
        drop(pipe);
        supervisor.wait().context("wait for the supervisor")?;
        return Err(error);
    }
    Ok(OwnedSupervisor { pipe, supervisor })
}

fn await_ready(events: ChildStdout, layout: &Layout, step: &mut dyn FnMut(&str)) -> Result<()> {
    for line in BufReader::new(events).lines().map_while(Result::ok) {
        match serde_json::from_str(&line)
            .with_context(|| format!("parse the supervisor's event {line:?}"))?
        {
            StartEvent::Step(text) => step(&text),
            StartEvent::Ready => return Ok(()),
            StartEvent::Failed(error) => bail!("the sandbox did not start: {error}"),
        }
    }
    let log = layout.supervisor_log();
    bail!(
        "the supervisor ended unexpectedly; the end of its log {}:\n{}",
        log.display(),
        log_tail(&log)
    )
}
