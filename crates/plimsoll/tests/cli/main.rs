//! The program as users call it: outputs as golden files, errors and exit codes.
//!
//! `UPDATE_GOLDEN=1 cargo test -p plimsoll` writes the files anew.

mod api_server;
mod clusters;
mod errors;
mod golden;
mod merge;
mod program;
mod proxy;
