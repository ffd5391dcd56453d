//! The subcommands and their output.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{copy, stdout};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::{PlayArgs, UpArgs};
use crate::component::Component;
use crate::layout::Layout;
use crate::programs::this_program;
use crate::replay::Replay;
use crate::sandbox::{NodeKind, Sandbox};
use crate::startup_protocol::Options;
use crate::state_file::{Phase, Record};
use crate::take_down;
use crate::trace::Trace;

/// Exit code that a shell shows for a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

pub(crate) async fn up(name: String, args: UpArgs) -> Result<()> {
    let UpArgs {
        nodes,
        node,
        kubernetes_version,
        prometheus,
        foreground,
    } = args;
    let real_node = node == NodeKind::Real;
    let options = Options {
        nodes: nodes.unwrap_or(if real_node { 0 } else { 3 }),
        real_node,
        prometheus,
        kubernetes_version,
        ..Options::new(&name, this_program()?)
    };
    // Both are listened for until the end: a signal between two listeners would be lost.
    let mut interrupted = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let mut terminated = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let started = std::time::Instant::now();
    let mut up = tokio::select! {
        up = Sandbox::up(options, |step| eprintln!("  {step}")) => up?,
        // Everything that was started ends with this process; a half-started sandbox is waited for.
        _ = interrupted.recv() => give_up(&name).await,
        _ = terminated.recv() => give_up(&name).await,
    };
    if !up.is_owned() {
        eprintln!("Sandbox {name:?} is already up");
        return Ok(());
    }
    eprintln!(
        "Sandbox {name:?} is up ({:.1} s); `eval \"$(sandbox env --name {name})\"` points kubectl at it",
        started.elapsed().as_secs_f64()
    );
    if !foreground {
        return up.detach();
    }
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    up.down().await
}

async fn give_up(name: &str) -> ! {
    let code = match take_down::down(name).await {
        Ok(_) => INTERRUPTED,
        Err(error) => {
            eprintln!("Error: {error:#}");
            1
        }
    };
    // A build, or a wait for another process, cannot be aborted in any other way.
    std::process::exit(code)
}

pub(crate) async fn down(name: &str) -> Result<()> {
    let was_up = take_down::down(name).await?;
    eprintln!(
        "Sandbox {name:?} {}",
        if was_up { "is down" } else { "was not up" }
    );
    Ok(())
}

pub(crate) async fn play(name: &str, args: PlayArgs) -> Result<()> {
    let PlayArgs {
        file,
        target,
        namespace,
        speed,
        repeat,
    } = args;
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let trace = Trace::parse(&text).with_context(|| format!("parse {}", file.display()))?;
    let seconds = trace.duration_seconds() / speed;
    eprintln!(
        "Playing {} for {target} at {speed} times its speed: {seconds:.0} s{}",
        file.display(),
        if repeat { ", again and again" } else { "" }
    );
    let client = Sandbox::attach(name)?.client().await?;
    let play = Replay {
        trace,
        target,
        namespace,
        speed,
        repeat,
    };
    tokio::select! {
        played = play.run(client, CancellationToken::new()) => played,
        _ = ctrl_c() => Ok(()),
    }
}

pub(crate) fn status() -> Result<()> {
    let mut shown = 0;
    for name in Layout::names()? {
        let Some(record) = Record::read(&Layout::of(&name)?) else {
            continue;
        };
        print!("{}", describe(&name, &record));
        shown += 1;
    }
    if shown == 0 {
        println!("no sandbox is up");
    }
    Ok(())
}

fn describe(name: &str, record: &Record) -> String {
    let state = if record.ready {
        "up"
    } else {
        "starting or going down"
    };
    if !record.is_alive() {
        return format!("{name}: dead; `sandbox down --name {name}` clears it away\n");
    }
    let components = record.components.iter().map(|(component, status)| {
        let phase = match status.phase {
            Phase::Stopped => "stopped",
            Phase::Running => "running",
            Phase::Paused => "paused",
            Phase::BackingOff => "backing off",
        };
        let pid = status
            .process
            .as_ref()
            .map_or_else(|| "-".to_owned(), |process| process.pid.to_string());
        let exit = status
            .last_exit
            .as_ref()
            .map(|exit| format!(", last {exit}"))
            .unwrap_or_default();
        let restarts = status.restarts;
        format!("  {component:<24} {phase:<12} pid {pid:<8} {restarts} restarts{exit}\n")
    });
    format!(
        "{name}: {state}, https://127.0.0.1:{}\n{}",
        record.ports.api_server,
        components.collect::<String>()
    )
}

pub(crate) fn logs(name: &str, component: Option<Component>) -> Result<()> {
    let layout = Layout::of(name)?;
    let Some(component) = component else {
        println!("{}", layout.logs().display());
        return Ok(());
    };
    let path = layout.log(component);
    let mut log = File::open(&path).with_context(|| format!("open {}", path.display()))?;
    copy(&mut log, &mut stdout())
        .context("print the log")
        .map(drop)
}

pub(crate) fn env(name: &str) -> Result<()> {
    let sandbox = Sandbox::attach(name)?;
    println!(
        "export KUBECONFIG={}",
        quote(&sandbox.kubeconfig().to_string_lossy())
    );
    println!(
        "export PATH={}:\"$PATH\"",
        quote(&sandbox.programs().to_string_lossy())
    );
    Ok(())
}

/// Quotes text for a POSIX shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

pub(crate) fn kubectl(name: &str, arguments: &[OsString]) -> Result<()> {
    let sandbox = Sandbox::attach(name)?;
    let error = Command::new(sandbox.kubectl())
        .args(arguments)
        .env("KUBECONFIG", sandbox.kubeconfig())
        .exec();
    Err(error).context("run kubectl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
    }
}
