//! Lists of sizes, and the size that fits a CPU and a memory.

use model::{Cpu, Memory, Quantity};
use serde::Deserialize;
use sizing::Specifications;
use testing::vectors::each_case;

#[derive(Deserialize)]
struct Case {
    specification_config: String,
    error: bool,
    parsed: Option<Vec<[f64; 2]>>,
    queries: Option<Vec<Query>>,
}

#[derive(Debug, Deserialize)]
struct Query {
    cpu: Quantity,
    memory: Quantity,
    expect_cpu: Quantity,
    expect_memory: Quantity,
}

#[test]
fn vectors_crane_specifications() {
    each_case("crane/specifications", |number, case: Case| {
        let list = Specifications::parse(&case.specification_config);
        assert_eq!(
            list.is_err(),
            case.error,
            "case {number}: {:?}",
            case.specification_config
        );
        let Ok(list) = list else { return };
        let items: Vec<_> = list
            .items()
            .iter()
            .map(|item| [item.cores, item.gibibytes])
            .collect();
        assert_eq!(Some(items), case.parsed, "case {number}");
        for query in case.queries.unwrap_or_default() {
            // A missing fit is recorded as a pair of zeros.
            let fit = list.fit((&query.cpu).into(), (&query.memory).into());
            let (cpu, memory) = fit.unwrap_or((Cpu::default(), Memory::default()));
            let expected = (
                Cpu::from(&query.expect_cpu),
                Memory::from(&query.expect_memory),
            );
            assert_eq!((cpu, memory), expected, "case {number}: {query:?}");
        }
    });
}
