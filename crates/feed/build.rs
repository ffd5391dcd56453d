//! Compiles the protocol to Rust and keeps its descriptor for the reflection service.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const ROOT: &str = "../../proto";
const FILE: &str = "plimsoll/feed/v1/feed.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={ROOT}/{FILE}");
    let description = protox::Compiler::new([ROOT])?
        .include_source_info(true)
        .open_file(FILE)?
        .file_descriptor_set();
    let encoded = protox::prost::Message::encode_to_vec(&description);
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("feed.bin"), encoded)?;
    tonic_prost_build::configure().compile_fds(description)?;
    Ok(())
}
