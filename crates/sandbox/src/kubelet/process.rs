//! One run of a hosted container: a local process that ends with the sandbox, and whose output goes
//! to the container's log.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{fs, io};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::BufReader;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::logs::Log;
use super::process_spec::ProcessSpec;
use super::stop::{Deadline, stop_due};
use crate::exec_wrapper;

/// The shortest time between SIGTERM and SIGKILL.
const SHORTEST_GRACE: Duration = Duration::from_secs(1);

/// Limit for the last output of an ended process.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// A started process. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pub(super) pid: u32,
    output: JoinSet<()>,
}

impl Process {
    pub(super) fn start(exec_wrapper: &Path, launch: &ProcessSpec, log: &Log) -> io::Result<Self> {
        let mut child = command(exec_wrapper, launch, &launch.arguments)?
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pid = child
            .id()
            .ok_or_else(|| io::Error::other("the process ended at once"))?;
        let mut output = JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            output.spawn(log.clone().copy("stdout", BufReader::new(stdout)));
        }
        if let Some(stderr) = child.stderr.take() {
            output.spawn(log.clone().copy("stderr", BufReader::new(stderr)));
        }
        Ok(Self { child, pid, output })
    }

    /// Waits for its end. Cancel-safe.
    pub(super) async fn wait(&mut self) -> i32 {
        let status = self.child.wait().await;
        let drained = async { while self.output.join_next().await.is_some() {} };
        if timeout(LAST_OUTPUT, drained).await.is_err() {
            tracing::debug!(
                pid = self.pid,
                "the output of an ended process is still open"
            );
        }
        status.map_or(-1, exit_code)
    }

    /// Asks it to end, and kills it at `latest`, or earlier if the deadline is earlier.
    pub(super) async fn end(&mut self, latest: Option<Instant>, deadline: &mut Deadline) -> i32 {
        self.terminate();
        tokio::select! {
            exit_code = self.wait() => return exit_code,
            () = async { tokio::join!(sleep(SHORTEST_GRACE), stop_due(deadline, latest)); } => {}
        }
        if let Err(error) = self.child.start_kill() {
            tracing::warn!(%error, pid = self.pid, "cannot kill a process");
        }
        self.wait().await
    }

    fn terminate(&self) {
        // After the child has been waited for there is no id any more, so the signal never reaches
        // another process.
        if let Some(pid) = self
            .child
            .id()
            .and_then(|pid| Pid::from_raw(pid.cast_signed()))
        {
            let _gone = kill_process(pid, Signal::TERM);
        }
    }
}

/// Runs a command of the same container to its end, for a probe or a hook.
pub(super) async fn run(
    exec_wrapper: &Path,
    launch: &ProcessSpec,
    arguments: &[String],
) -> Result<(), String> {
    let output = async {
        command(exec_wrapper, launch, arguments)?
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .await
    };
    match output.await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("command exited with {}", exit_code(status))),
        Err(error) => Err(error.to_string()),
    }
}

fn command(exec_wrapper: &Path, launch: &ProcessSpec, arguments: &[String]) -> io::Result<Command> {
    fs::create_dir_all(&launch.working_folder)?;
    let mut command = Command::from(exec_wrapper::command(exec_wrapper, None, &launch.program));
    command
        .args(arguments)
        .env_clear()
        .envs(&launch.environment)
        .current_dir(&launch.working_folder)
        .stdin(Stdio::null())
        // Ctrl-C on the terminal is for the sandbox, which then ends its pods in order.
        .process_group(0)
        .kill_on_drop(true);
    Ok(command)
}

/// Exit code as container runtimes report it: 128 plus the number of a signal.
fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[track_caller]
    fn check(wait_status: i32, expected: i32) {
        assert_eq!(exit_code(ExitStatus::from_raw(wait_status)), expected);
    }

    #[test]
    fn exit_codes_are_those_of_container_runtimes() {
        check(0, 0);
        check(3 << 8, 3);
        check(9, 137);
        check(15, 143);
    }
}
