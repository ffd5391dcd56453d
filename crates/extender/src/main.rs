//! The process of the extender.

use extender::{Args, PROGRAM, run};
use runtime::Severity;
use serving::http_endpoints::serve_endpoints;

fn main() -> std::process::ExitCode {
    let args: Args = PROGRAM.parse();
    let common = args.common.clone();
    PROGRAM.run(&common, Severity::Info, serve_endpoints, |manager| {
        run(args, manager)
    })
}
