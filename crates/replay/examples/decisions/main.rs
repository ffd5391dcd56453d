//! Tables of decisions on recorded series, in Markdown.
//!
//! `cargo run --release -p replay --example decisions -- TABLES TRACES [PLOTS [HALF]]`
//!
//! | tables | contents | series in `TRACES` |
//! |---|---|---|
//! | `sizes` | sizing policies, differences at equal risk | `vertical`, `adversarial` |
//! | `horizontal` | violations of the HPA and of predicted metrics at equal pods | `horizontal` |
//! | `vpa-with-hpa` | a VPA and an HPA on the same metric | `horizontal` |
//! | `placement` | fewest nodes by scheduler and sizing policy, rebalancing | `vertical` |
//!
//! Plots are written to the folder `PLOTS`, if that is given. `HALF` is the scored part of the series
//! in `horizontal` and `placement`: `second` (default), or `first`, on which settings were chosen.

mod bootstrap;
mod csv;
mod horizontal;
mod lines;
mod placement;
mod price_of_failure;
mod sizes;
mod vpa_with_hpa;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str =
    "usage: decisions sizes|horizontal|vpa-with-hpa|placement TRACES [PLOTS [first|second]]";

/// Folder of the plots; `None` without plots.
#[derive(Clone, Copy)]
struct Plots<'a>(Option<&'a str>);

impl Plots<'_> {
    fn are_wanted(self) -> bool {
        self.0.is_some()
    }

    fn write(self, name: &str, svg: &str) -> Result<(), String> {
        let Some(folder) = self.0 else {
            return Ok(());
        };
        let path = Path::new(folder).join(name);
        let written = std::fs::write(&path, svg);
        written.map_err(|error| format!("{}: {error}", path.display()))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Err(error) = run(&arguments) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run(arguments: &[&str]) -> Result<(), String> {
    let [tables, traces, rest @ ..] = arguments else {
        return Err(USAGE.to_owned());
    };
    let plots = Plots(rest.first().copied().filter(|plots| !plots.is_empty()));
    let is_first = match rest.get(1) {
        None | Some(&("" | "second")) => false,
        Some(&"first") => true,
        Some(other) => return Err(format!("{other} is neither first nor second")),
    };
    let traces = Path::new(traces);
    match *tables {
        "sizes" => sizes::print(traces, plots),
        "horizontal" => horizontal::print(traces, plots, is_first),
        "vpa-with-hpa" => vpa_with_hpa::print(traces, plots),
        "placement" => placement::print(traces, plots, is_first),
        _ => Err(USAGE.to_owned()),
    }
}
