//! Starts a supervisor and listens to it until its sandbox is up, unless one of this name is up
//! already.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::layout::Layout;
use crate::lock::lock;
use crate::log_tail::log_tail;
use crate::module::{CONTROL_PLANE, PROMETHEUS};
use crate::programs::ensure_built;
use crate::record::Record;
use crate::sandbox::Options;
use crate::supervisor_protocol::{DETACH, SandboxConfig, StartEvent};
use crate::take_down::{DOWN_TIMEOUT, remove_stale};

/// Pause between two looks at a sandbox that is going down.
const POLL: Duration = Duration::from_millis(50);
/// How much of the supervisor's log is shown when it dies without a word.
const SHOWN_LINES: usize = 12;

/// The supervisor of a sandbox that goes down with this process; closing its input cuts the pipe.
#[derive(Debug)]
pub(crate) struct OwnedSupervisor {
    pipe: ChildStdin,
    supervisor: Child,
}

impl OwnedSupervisor {
    /// Lets the sandbox live on.
    pub(crate) fn detach(mut self) -> Result<()> {
        writeln!(self.pipe, "{DETACH}").context("detach the sandbox")
    }

    /// Waits for the end of a supervisor that was told to end.
    pub(crate) fn wait(mut self) -> Result<()> {
        self.supervisor
            .wait()
            .context("wait for the supervisor")
            .map(drop)
    }
}

/// Brings a sandbox up; blocks until it is. The second part is missing when it was up already.
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

/// The record of a sandbox that is up. One that is going down is waited for.
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
    let control_plane = ensure_built(&CONTROL_PLANE, &options.program)?;
    let prometheus = options
        .prometheus
        .then(|| ensure_built(&PROMETHEUS, &options.program))
        .transpose()?;
    Ok(SandboxConfig {
        name: options.name,
        nodes: options.nodes,
        sandbox: options.program,
        control_plane,
        prometheus,
        hosted_programs: options.hosted_programs,
        restart_back_off: options.restart_back_off,
    })
}

fn spawn_supervisor(
    config: &SandboxConfig,
    layout: &Layout,
    step: &mut dyn FnMut(&str),
) -> Result<OwnedSupervisor> {
    layout.create()?;
    let log = File::create(layout.supervisor_log()).context("create the supervisor's log")?;
    let mut supervisor = Command::new(&config.sandbox)
        .arg("supervise")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .with_context(|| format!("start {}", config.sandbox.display()))?;
    let mut pipe = supervisor
        .stdin
        .take()
        .context("no pipe to the supervisor")?;
    let events = supervisor
        .stdout
        .take()
        .context("no pipe from the supervisor")?;
    let line = serde_json::to_string(config).context("render the config")?;
    writeln!(pipe, "{line}").context("send the config")?;
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
            .with_context(|| format!("the supervisor said {line:?}"))?
        {
            StartEvent::Step(what) => step(&what),
            StartEvent::Ready => return Ok(()),
            StartEvent::Failed(why) => bail!("the sandbox did not come up: {why}"),
        }
    }
    let log = layout.supervisor_log();
    bail!(
        "the supervisor died; the end of its log {}:\n{}",
        log.display(),
        log_tail(&log, SHOWN_LINES)
    )
}
