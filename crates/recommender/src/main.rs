//! The recommender's process: reads the command line and hands over to the library.

use recommender::{Args, PROGRAM, run};
use serving::http_endpoints::serve_endpoints;

fn main() -> std::process::ExitCode {
    let args: Args = PROGRAM.parse();
    let (common, threshold) = (args.common.clone(), args.klog.threshold());
    PROGRAM.run(&common, threshold, serve_endpoints, |manager| {
        run(args, manager)
    })
}
