//! The process of the webhook.

use serving::http_endpoints::serve_endpoints;
use webhook::{Args, PROGRAM, run};

fn main() -> std::process::ExitCode {
    let args: Args = PROGRAM.parse();
    let (common, threshold) = (args.common.clone(), args.klog.threshold());
    PROGRAM.run(&common, threshold, serve_endpoints, |manager| {
        run(args, manager)
    })
}
