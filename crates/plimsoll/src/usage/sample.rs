//! Bundled sample: two weeks of four machines of the Server Machine Dataset (see NOTICE), as if they
//! were workloads.

use super::ContainerUsage;
use super::rows::Rows;

const SAMPLE: &str = include_str!("../../data/sample.csv");

pub(super) fn read() -> Vec<ContainerUsage> {
    let mut rows = Rows::default();
    rows.read_csv(SAMPLE.as_bytes())
        .expect("a test reads the sample");
    rows.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_two_weeks_of_four_workloads() {
        let containers = read();
        assert_eq!(containers.len(), 4);
        for container in containers {
            let (start, end) = container.span().expect("samples");
            assert_eq!(end - start, 14 * 86400 - 300);
            assert_eq!(container.pods[0].cpu.len(), 14 * 288);
            assert_eq!(container.pods[0].memory.len(), 14 * 288);
        }
    }
}
