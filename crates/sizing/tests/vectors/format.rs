//! Published quantities.

use model::{Cpu, Memory};
use serde::Deserialize;
use sizing::{Config, quantity_format};
use testing::vectors::each_row;

#[derive(Deserialize)]
struct Row {
    cpu_millicores: i64,
    memory_bytes: i64,
    humanize_memory: bool,
    round_cpu_millicores: i64,
    round_memory_bytes: i64,
    expect: Published,
}

#[derive(Deserialize)]
struct Published {
    cpu: String,
    memory: String,
}

fn check(row: &Row) {
    let config = Config {
        humanize_memory: row.humanize_memory,
        round_cpu_millicores: row.round_cpu_millicores,
        round_memory_bytes: row.round_memory_bytes,
        ..Config::default()
    };
    let cpu = quantity_format::cpu(&config, Cpu::from_millicores(row.cpu_millicores));
    assert_eq!(
        cpu.to_string(),
        row.expect.cpu,
        "{} millicores in steps of {}",
        row.cpu_millicores,
        row.round_cpu_millicores
    );
    let memory = quantity_format::memory(&config, Memory::from_bytes(row.memory_bytes));
    assert_eq!(
        memory.to_string(),
        row.expect.memory,
        "{} bytes in steps of {}",
        row.memory_bytes,
        row.round_memory_bytes
    );
}

#[test]
fn vectors_format() {
    each_row("vpa/format", |_, row| check(&row));
}
