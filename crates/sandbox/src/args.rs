//! The command line; every flag has an environment twin.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use tokio::runtime::Runtime;

use super::node::image_archive::Image;
use crate::component::Component;
use crate::echo_server::{self, EchoArgs};
use crate::kubernetes_version::{KubernetesVersion, VARIABLE};
use crate::node::{cgroups, init};
use crate::replay::Target;
use crate::sandbox::{NodeKind, Sandbox};
use crate::{commands, exec_wrapper, supervisor};

/// A real Kubernetes control plane on this machine, without a container engine.
#[derive(Debug, Parser)]
#[command(name = "sandbox", version)]
pub struct Args {
    /// Name of the sandbox. Several sandboxes can run at the same time.
    #[arg(
        long,
        global = true,
        env = "PLIMSOLL_SANDBOX_NAME",
        default_value = "default"
    )]
    name: String,
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start a sandbox; does nothing when it runs.
    Up(UpArgs),
    /// Stop a sandbox and remove its files; does nothing when it does not run.
    Down,
    /// Show the components of all sandboxes.
    Status,
    /// Print a component's log, or the folder of all logs.
    Logs {
        /// Component whose log is printed.
        component: Option<Component>,
    },
    /// Print KUBECONFIG and PATH for a shell: eval "$(sandbox env)".
    Env,
    /// Stop a component; it is not restarted.
    Stop {
        /// Component to stop.
        component: Component,
    },
    /// Start a component that was stopped.
    Start {
        /// Component to start.
        component: Component,
    },
    /// Suspend a component with SIGSTOP, as if its machine hung.
    Pause {
        /// Component to suspend.
        component: Component,
    },
    /// Resume a suspended component.
    Resume {
        /// Component to resume.
        component: Component,
    },
    /// Play a CSV trace as the usage of a workload's pods.
    Replay(PlayArgs),
    /// Make images of programs of this machine and import them to the real node.
    Import {
        /// Name and program: docker.io/plimsoll/updater:dev=target/debug/updater.
        #[arg(required = true, value_parser = image)]
        images: Vec<Image>,
    },
    /// Run kubectl against the sandbox: sandbox kubectl -- get pods.
    Kubectl {
        /// Arguments of kubectl.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run a sandbox; its configuration comes over standard input.
    #[command(hide = true)]
    Supervise,
    /// Serve the arguments and environment of this process, to try out hosted pods.
    #[command(hide = true, name = echo_server::SUBCOMMAND)]
    EchoServer(EchoArgs),
    /// Hold the namespaces of a real node.
    #[command(hide = true, name = init::SUBCOMMAND)]
    NodeInit { state: PathBuf },
    /// Remove the cgroups of a real node once standard input is closed.
    #[command(hide = true, name = cgroups::SUBCOMMAND)]
    RemoveCgroups { sandbox: String },
    /// Replace this process by a program that is killed when its parent ends.
    #[command(hide = true, name = exec_wrapper::SUBCOMMAND)]
    Exec {
        parent: i32,
        mounts_of: Option<u32>,
        #[arg(last = true, required = true)]
        program: Vec<OsString>,
    },
}

/// Arguments of `sandbox up`.
#[derive(Debug, clap::Args)]
pub(crate) struct UpArgs {
    /// Number of simulated nodes [default: 3, or none next to a real node].
    #[arg(long, env = "PLIMSOLL_SANDBOX_NODES", value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) nodes: Option<u16>,
    /// Kind of the node: `simulated`, or `real` with a kubelet and containers, which needs root.
    #[arg(long, env = "PLIMSOLL_SANDBOX_NODE", default_value = "simulated")]
    pub(crate) node: NodeKind,
    /// Version of Kubernetes: `oldest` or `newest` supported one, or its number, such as 1.33.
    #[arg(long, env = VARIABLE, default_value = "newest")]
    pub(crate) kubernetes_version: KubernetesVersion,
    /// Run a Prometheus too.
    #[arg(long, env = "PLIMSOLL_SANDBOX_PROMETHEUS")]
    pub(crate) prometheus: bool,
    /// Stay in the foreground; the sandbox stops with this process.
    #[arg(long, env = "PLIMSOLL_SANDBOX_FOREGROUND")]
    pub(crate) foreground: bool,
}

/// Arguments of `sandbox play`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlayArgs {
    /// CSV file with the columns `unix_seconds`, `cpu_millicores` and `memory_mib`, of which one of the
    /// last two may be missing; an empty cell keeps the last value.
    pub(crate) file: PathBuf,
    /// Workload whose pods play the trace: deployment/NAME, statefulset/NAME, ...
    #[arg(long, env = "PLIMSOLL_SANDBOX_TARGET")]
    pub(crate) target: Target,
    /// Namespace of the workload.
    #[arg(
        long,
        short,
        env = "PLIMSOLL_SANDBOX_NAMESPACE",
        default_value = "default"
    )]
    pub(crate) namespace: String,
    /// Seconds of the trace per second of real time.
    #[arg(long, env = "PLIMSOLL_SANDBOX_SPEED", default_value_t = 1.0)]
    pub(crate) speed: f64,
    /// Start again at the end of the trace.
    #[arg(long = "loop", env = "PLIMSOLL_SANDBOX_LOOP")]
    pub(crate) repeat: bool,
}

impl Args {
    pub fn run(self) -> ExitCode {
        match self.try_run() {
            Ok(code) => code,
            Err(error) => {
                eprintln!("Error: {error:#}");
                ExitCode::FAILURE
            }
        }
    }

    fn try_run(self) -> Result<ExitCode> {
        let Self { name, command } = self;
        let done = match command {
            Verb::Pause { component } => block_on(Sandbox::attach(&name)?.pause(component)),
            Verb::Resume { component } => block_on(Sandbox::attach(&name)?.resume(component)),
            Verb::Replay(args) => block_on(commands::play(&name, args)),
            Verb::Supervise => supervisor::supervise(),
            Verb::Exec {
                parent,
                mounts_of,
                program,
            } => {
                let (program, arguments) = program.split_first().context("no program")?;
                exec_wrapper::become_program(parent, mounts_of, program, arguments)
            }
            Verb::NodeInit { state } => init::run(&state),
            Verb::RemoveCgroups { sandbox } => cgroups::clean(&sandbox),
            Verb::EchoServer(args) => block_on(echo_server::echo(args)),
            Verb::Status => commands::status(),
            Verb::Logs { component } => commands::logs(&name, component),
            Verb::Env => commands::env(&name),
            Verb::Import { images } => block_on(Sandbox::attach(&name)?.import(images)),
            Verb::Kubectl { arguments } => commands::kubectl(&name, &arguments),
            Verb::Up(args) => block_on(commands::up(name, args)),
            Verb::Down => block_on(commands::down(&name)),
            Verb::Stop { component } => block_on(Sandbox::attach(&name)?.stop(component)),
            Verb::Start { component } => block_on(Sandbox::attach(&name)?.start(component)),
        };
        done.map(|()| ExitCode::SUCCESS)
    }
}

fn image(text: &str) -> Result<Image> {
    let (name, program) = text.split_once('=').context("not NAME=PROGRAM")?;
    Image::of_program(name, Path::new(program))
}

fn block_on(work: impl Future<Output = Result<()>>) -> Result<()> {
    Runtime::new().context("start the runtime")?.block_on(work)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_flag_has_an_environment_twin() {
        let mut commands = vec![Args::command()];
        while let Some(command) = commands.pop() {
            for flag in command
                .get_arguments()
                .filter(|argument| argument.get_long().is_some())
            {
                let twin = flag
                    .get_env()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default();
                assert!(
                    twin.starts_with("PLIMSOLL_SANDBOX_"),
                    "{} of {}",
                    flag.get_id(),
                    command.get_name()
                );
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
