//! Requests to a running supervisor: one JSON line each way over its socket.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::component::Component;

/// Longest request.
const LINE_BYTES: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ControlRequest {
    Start(Component),
    /// End a component; it is not restarted.
    Stop(Component),
    /// Suspend a component with SIGSTOP.
    Pause(Component),
    Resume(Component),
    /// End everything.
    Down,
}

/// Sends a request and waits until it is done.
pub(crate) async fn send(socket: &Path, request: ControlRequest) -> Result<()> {
    let mut stream = UnixStream::connect(socket)
        .await
        .with_context(|| format!("reach the sandbox at {}", socket.display()))?;
    write_line(&mut stream, &request).await?;
    match read_line::<Result<(), String>>(&mut stream).await? {
        Ok(()) => Ok(()),
        Err(message) => bail!(message),
    }
}

pub(crate) async fn receive(stream: &mut UnixStream) -> Result<ControlRequest> {
    read_line(stream).await
}

pub(crate) async fn answer(stream: &mut UnixStream, outcome: Result<()>) -> Result<()> {
    write_line(stream, &outcome.map_err(|error| format!("{error:#}"))).await
}

async fn write_line(stream: &mut UnixStream, value: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(value).context("render a request")?;
    line.push(b'\n');
    stream
        .write_all(&line)
        .await
        .context("write to the supervisor's socket")
}

async fn read_line<T: for<'a> Deserialize<'a>>(stream: &mut UnixStream) -> Result<T> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES))
        .read_line(&mut line)
        .await
        .context("read from the supervisor's socket")?;
    serde_json::from_str(&line).context("the supervisor's socket was closed early")
}
