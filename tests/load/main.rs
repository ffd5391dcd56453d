//! A program for end-to-end tests on a real kubelet: it holds memory and uses CPU for real, starts
//! slowly or ignores SIGTERM, as flags and requests say.
//!
//! Each parameter is a flag (`--memory-mib=100`) and, while the program runs, a parameter of
//! `/set` (`/set?memory-mib=100`). `/status` answers the state as JSON, `/metrics` is for Prometheus,
//! `/ready` and `/live` are for probes. Flags without a parameter: `--port` (default 8080) and
//! `--start-after-seconds`, the time until the program listens (default 0).
//!
//! Only the standard library serves, so that a container with this program starts within
//! milliseconds and its own memory does not matter next to what it holds.

mod cpu;
mod memory;
mod parameters;
mod server;
mod state;

use std::net::{Ipv4Addr, TcpListener};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::parameters::Flags;
use crate::state::State;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let flags = Flags::parse(std::env::args().skip(1)).map_err(anyhow::Error::msg)?;
    let state: &'static State = Box::leak(Box::default());
    state.apply(&flags.parameters);
    end_on_sigterm(state)?;
    println!("load: started");
    cpu::start_threads(state)?;
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(flags.start_after_seconds));
        if let Err(error) = listen(flags.port, state) {
            eprintln!("load: {error:#}");
            std::process::exit(1);
        }
    });
    memory::hold(state)
}

fn listen(port: u16, state: &'static State) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
        .with_context(|| format!("listen on port {port}"))?;
    let address = listener.local_addr().context("address of the listener")?;
    server::serve(listener, state)?;
    println!("load: listening on {address}");
    Ok(())
}

/// Handles SIGTERM in a thread. The first process of a container ignores signals that it has no
/// handler for, so the ordinary end needs one. tokio, because the workspace has it: std handles no
/// signals.
fn end_on_sigterm(state: &'static State) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("start the signal handler")?;
    let guard = runtime.enter();
    let mut signals = signal(SignalKind::terminate()).context("handle SIGTERM")?;
    drop(guard);
    thread::spawn(move || runtime.block_on(wait_for_sigterm(&mut signals, state)));
    Ok(())
}

async fn wait_for_sigterm(signals: &mut Signal, state: &State) {
    while signals.recv().await.is_some() {
        if state.receive_sigterm() {
            println!("load: ignoring SIGTERM");
        } else {
            println!("load: ending on SIGTERM");
            std::process::exit(0);
        }
    }
}
