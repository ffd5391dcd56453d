//! `sandbox`: a real Kubernetes control plane on this machine.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    sandbox::Args::parse().run()
}
