//! Compiles KEDA's gRPC protocol: the client, and the server that replaces the operator in tests.

use std::error::Error;

const ROOT: &str = "../../proto";
const FILE: &str = "keda/metrics.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={ROOT}/{FILE}");
    let description = protox::compile([FILE], [ROOT])?;
    tonic_prost_build::configure().compile_fds(description)?;
    Ok(())
}
