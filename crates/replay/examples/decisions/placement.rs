//! Tables of pods packed on nodes: the fewest nodes that each scheduler needs, by sizing policy, and
//! the effect of rebalancing. The series are those of Bitbrains.

mod packing;
mod search;
mod table;
#[cfg(test)]
mod tests;
mod traces;
mod ways;

use std::path::Path;

use crate::Plots;

pub(crate) fn print(folder: &Path, plots: Plots<'_>, is_first: bool) -> Result<(), String> {
    let machines = traces::read(folder)?;
    let inputs = search::Inputs::new(&machines, usize::from(!is_first));
    table::print(&inputs);
    if plots.are_wanted() {
        for (name, plot) in table::plots(&inputs) {
            plots.write(&name, &plot)?;
        }
    }
    Ok(())
}
