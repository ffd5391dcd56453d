//! The updater's process: parses the command line and runs the library.

use serving::http_endpoints::serve_endpoints;
use updater::{Args, PROGRAM, run};

fn main() -> std::process::ExitCode {
    let args: Args = PROGRAM.parse();
    let (common, threshold) = (args.common.clone(), args.klog.threshold());
    PROGRAM.run(&common, threshold, serve_endpoints, |manager| {
        run(args, manager)
    })
}
