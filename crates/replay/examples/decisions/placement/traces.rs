//! The machines of Bitbrains.

use std::path::Path;

use replay::Series;

use super::packing::Machine;
use crate::csv;

const CPU: &str = "vertical/bitbrains-rnd__60vms__cpu-millicores__300s.csv";
const MEMORY: &str = "vertical/bitbrains-rnd__60vms__mem-mib__300s.csv";
const PROVISIONED: &str = "vertical/bitbrains-rnd__meta.csv";

/// Reads the machines with usage of CPU and memory and a record of their provisioned amounts.
pub(crate) fn read(folder: &Path) -> Result<Vec<Machine>, String> {
    let text = |name: &str| csv::read(&folder.join(name));
    let series = |name| csv::series(&text(name)?, 1.0).map_err(|error| format!("{name}: {error}"));
    let (cpu, memory, provisioned) = (series(CPU)?, series(MEMORY)?, text(PROVISIONED)?);
    let amounts = |name: &str| {
        let row = provisioned
            .lines()
            .find(|row| row.split(',').next() == Some(name))?;
        let mut cells = row.split(',').skip(2);
        let mut next = || cells.next()?.parse::<f64>().ok();
        Some((1000.0 * next()?, next()?))
    };
    let machine = |(name, mut cpu): (String, Series)| {
        let (_, memory) = memory.iter().find(|(of, _)| *of == name)?;
        let mut memory = memory.clone();
        (cpu.provisioned, memory.provisioned) = amounts(&name)?;
        Some(Machine { cpu, memory })
    };
    let machines: Vec<Machine> = cpu.into_iter().filter_map(machine).collect();
    if machines.is_empty() {
        return Err(format!("{CPU} has no machine that {PROVISIONED} has"));
    }
    Ok(machines)
}
