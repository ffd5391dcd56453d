//! Usage of tests, and the bundled sample.

use super::*;

/// Usage of the container `app` of a workload in the namespace `shop`.
pub(crate) fn usage(workload: &str, requests: Resources, pods: &[PodUsage]) -> ContainerUsage {
    ContainerUsage {
        id: ContainerId::new("shop", workload, "app"),
        requests,
        pods: pods.to_vec(),
        ..ContainerUsage::default()
    }
}

pub(crate) fn resources(millicores: Option<i64>, bytes: Option<i64>) -> Resources {
    Resources {
        cpu: millicores.map(Cpu::from_millicores),
        memory: bytes.map(Memory::from_bytes),
    }
}

/// Days of the same usage every five minutes; no samples without an amount.
pub(crate) fn constant(days: i64, cpu: Option<f64>, memory: Option<f64>) -> PodUsage {
    let samples = |amount: Option<f64>| {
        let slots = 0..288 * days;
        slots
            .filter_map(|slot| Some((300 * slot, amount?)))
            .collect()
    };
    PodUsage {
        cpu: samples(cpu),
        memory: samples(memory),
        has_ended: false,
    }
}

#[test]
fn the_sample_is_two_weeks_of_four_workloads() {
    let mut rows = Rows::default();
    rows.read_csv(SAMPLE.as_bytes()).expect("the sample");
    let containers = rows.finish();
    assert_eq!(containers.len(), 4);
    for container in containers {
        let (start, end) = container.span().expect("samples");
        assert_eq!(end - start, 14 * 86400 - 300);
        assert_eq!(container.pods[0].cpu.len(), 14 * 288);
        assert_eq!(container.pods[0].memory.len(), 14 * 288);
    }
}
