//! The parent of all processes of a sandbox. It starts them, restarts them, handles requests, and
//! ends them all on request, when its owner is gone, or, through the kernel, when it is killed
//! itself.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::net::UnixListener;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::client::ready_client;
use crate::component_commands::CommandContext;
use crate::component_processes::ComponentProcesses;
use crate::configuration_files::prepare;
use crate::control_socket::{self, ControlRequest};
use crate::kubelet;
use crate::layout::Layout;
use crate::node::namespaces::Namespaces;
use crate::ports::Ports;
use crate::process_id::Process;
use crate::start_components::start;
use crate::startup_protocol::{ParentPipe, SandboxConfig, StartEvent};
use crate::state_file::{RealNode, Record};

/// Attempts to start: another program may take a chosen port before its component does.
const ATTEMPTS: usize = 3;
/// Message of Go programs about a port that is taken.
const PORT_TAKEN: &str = "address already in use";

/// Limit for the request after a connection is accepted.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Limit for hosted pods to end when the sandbox goes down; then they are killed.
const HOSTING_TIMEOUT: Duration = Duration::from_secs(10);

/// Cause of a sandbox's end.
enum End {
    Requested,
    OwnerGone,
}

/// Runs a sandbox until its end. The configuration is the first line of standard input, which then
/// serves as parent pipe.
pub(crate) fn supervise() -> Result<()> {
    // In a session of its own: Ctrl-C is for the owner, whose end closes the parent pipe.
    let _ = rustix::process::setsid();
    let mut input = BufReader::new(stdin());
    let mut line = String::new();
    input
        .read_line(&mut line)
        .context("read the configuration")?;
    let config: SandboxConfig = serde_json::from_str(&line).context("parse the configuration")?;
    let layout = Layout::of(&config.options.name)?;
    layout.create()?;
    log_to(&layout)?;
    // Before any other thread: it moves this process.
    let node = config
        .real_node
        .is_some()
        .then(|| {
            Namespaces::enter(
                &config.options.program,
                &config.options.name,
                &layout.state(),
            )
        })
        .transpose();
    let node = match node {
        Ok(node) => node,
        Err(error) => return fail(&layout, error),
    };
    let parent_pipe = ParentPipe::watch(input);
    // One thread for everything: children are tied to the thread that starts them, and this one
    // stays to the end.
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let outcome = runtime.block_on(run_with_retries(
        &config,
        &layout,
        node.as_ref(),
        parent_pipe,
    ));
    let outcome = match node.map_or(Ok(()), Namespaces::end) {
        Ok(()) => outcome,
        Err(error) => outcome.and(Err(error)),
    };
    match &outcome {
        Ok(End::Requested) => layout.remove()?,
        Ok(End::OwnerGone) => layout.remove_all_but_logs()?,
        Err(_) => {}
    }
    outcome.map(drop).or_else(|error| fail(&layout, error))
}

/// Reports an error to the owner, and removes all files but the logs.
fn fail(layout: &Layout, error: anyhow::Error) -> Result<()> {
    layout.remove_all_but_logs()?;
    send_event(&StartEvent::Failed(format!(
        "{error:#}\nAll logs are in {}",
        layout.logs().display()
    )));
    Err(error)
}

async fn run_with_retries(
    config: &SandboxConfig,
    layout: &Layout,
    node: Option<&Namespaces>,
    mut parent_pipe: ParentPipe,
) -> Result<End> {
    let mut terminated = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let listener = UnixListener::bind(layout.control_socket()).context("listen for requests")?;
    let mut attempt = 1;
    loop {
        let outcome = tokio::select! {
            outcome = run_attempt(config, layout, node, &listener, &mut parent_pipe) => outcome,
            _ = terminated.recv() => Ok(End::Requested),
        };
        match outcome {
            Err(error) if attempt < ATTEMPTS && format!("{error:#}").contains(PORT_TAKEN) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "a port was taken; starting again"
                );
                send_event(&StartEvent::Step(
                    "a port was taken; starting again with others".to_owned(),
                ));
                attempt += 1;
            }
            outcome => return outcome,
        }
    }
}

async fn run_attempt(
    config: &SandboxConfig,
    layout: &Layout,
    node: Option<&Namespaces>,
    listener: &UnixListener,
    parent_pipe: &mut ParentPipe,
) -> Result<End> {
    layout.forget_attempt()?;
    let ports = node.map_or_else(Ports::choose, |node| Ok(node.host_ports.ports.clone()))?;
    let authority_pem = prepare(config, layout, &ports)?;
    let record = Arc::new(watch::Sender::new(new_record(config, &ports, node)?));
    record.borrow().write(layout)?;
    let writer = tokio::spawn(write_changes(layout.clone(), record.subscribe()));
    let mut processes = ComponentProcesses::new(Arc::clone(&record));
    let programs = config.control_plane.kubernetes.join("bin");
    let audit_log = layout.audit_log(config.options.audit_logs.as_deref());
    let context = CommandContext {
        sandbox: &config.options.program,
        programs: &programs,
        layout,
        ports: &ports,
        audit_log: &audit_log,
        real_node: node.map(Namespaces::init),
    };
    let forward = async {
        match node {
            Some(node) => node.host_ports.forward().await,
            None => std::future::pending().await,
        }
    };
    let cancel = CancellationToken::new();
    let mut hosting = tokio::spawn(host_pods(
        config.clone(),
        layout.clone(),
        ports.api_server,
        cancel.clone(),
    ));
    let outcome = tokio::select! {
        outcome = run(config, context, &mut processes, &authority_pem, listener, &record) => outcome,
        forwarded = forward => forwarded.and(Err(anyhow!("the forwarding of ports ended unexpectedly"))),
        () = parent_pipe.closed() => Ok(End::OwnerGone),
        hosting = &mut hosting => hosting.context("join").flatten().and(Err(anyhow!("hosting of pods ended unexpectedly"))),
    };
    record.send_modify(|record| record.ready = false);
    cancel.cancel();
    if !hosting.is_finished() && timeout(HOSTING_TIMEOUT, &mut hosting).await.is_err() {
        tracing::warn!("hosted pods did not end in time; killing them");
        hosting.abort();
    }
    processes.end().await;
    writer.abort();
    outcome
}

/// Starts all components and handles requests until the one to go down.
async fn run(
    config: &SandboxConfig,
    context: CommandContext<'_>,
    processes: &mut ComponentProcesses,
    authority_pem: &str,
    listener: &UnixListener,
    record: &watch::Sender<Record>,
) -> Result<End> {
    Box::pin(start(config, context, processes, authority_pem, |step| {
        send_event(&StartEvent::Step(step.to_owned()));
    }))
    .await?;
    record.send_modify(|record| record.ready = true);
    record.borrow().write(context.layout)?;
    send_event(&StartEvent::Ready);
    handle_requests(listener, processes, context.layout, record).await;
    Ok(End::Requested)
}

/// Hosts pods once the API server is ready.
async fn host_pods(
    config: SandboxConfig,
    layout: Layout,
    api_server_port: u16,
    cancel: CancellationToken,
) -> Result<()> {
    let client = tokio::select! {
        client = ready_client(&layout) => client?,
        () = cancel.cancelled() => return Ok(()),
    };
    Box::pin(kubelet::run(
        client,
        config,
        &layout,
        api_server_port,
        cancel,
    ))
    .await
    .context("host pods")
}

async fn handle_requests(
    listener: &UnixListener,
    processes: &ComponentProcesses,
    layout: &Layout,
    record: &watch::Sender<Record>,
) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            continue;
        };
        let Ok(Ok(request)) = timeout(REQUEST_TIMEOUT, control_socket::receive(&mut stream)).await
        else {
            continue;
        };
        let outcome = if request == ControlRequest::Down {
            Ok(())
        } else {
            processes.handle(request).await
        };
        // The record shows the result before the answer is sent.
        let outcome = outcome.and_then(|()| record.borrow().write(layout));
        if let Err(error) = control_socket::answer(&mut stream, outcome).await {
            tracing::warn!(
                error = format!("{error:#}"),
                "cannot answer a control request"
            );
        }
        if request == ControlRequest::Down {
            return;
        }
    }
}

fn new_record(config: &SandboxConfig, ports: &Ports, node: Option<&Namespaces>) -> Result<Record> {
    Ok(Record {
        supervisor: Process::find(std::process::id()).context("find this process in /proc")?,
        ports: ports.clone(),
        programs: config.control_plane.kubernetes.join("bin"),
        real_node: real_node(config, node),
        ready: false,
        components: BTreeMap::new(),
    })
}

fn real_node(config: &SandboxConfig, node: Option<&Namespaces>) -> Option<RealNode> {
    Some(RealNode {
        init: Process::find(node?.init())?,
        sandbox: config.options.program.clone(),
        container_runtime: config.real_node.as_ref()?.container_runtime.join("bin"),
    })
}

async fn write_changes(layout: Layout, mut record: watch::Receiver<Record>) {
    while record.changed().await.is_ok() {
        let current = record.borrow_and_update().clone();
        if let Err(error) = current.write(&layout) {
            tracing::warn!(error = format!("{error:#}"), "cannot write the record");
        }
    }
}

fn log_to(layout: &Layout) -> Result<()> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(layout.supervisor_log())
        .context("open the supervisor's log")?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_writer(Mutex::new(file))
        .with_ansi(false)
        .with_env_filter(filter)
        .init();
    Ok(())
}

/// Sends an event to the owner, which may not read any more.
fn send_event(event: &StartEvent) {
    let Ok(line) = serde_json::to_string(event) else {
        return;
    };
    let _ = writeln!(stdout(), "{line}");
}
