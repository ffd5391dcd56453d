//! The adapter's process: reads the command line and hands over to the library.

use adapter::{Args, PROGRAM, run};

fn main() -> std::process::ExitCode {
    let args: Args = PROGRAM.parse();
    let common = args.common.clone();
    PROGRAM.run(&common, |chassis| run(args, chassis))
}
