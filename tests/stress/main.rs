//! The part of the program `stress` that upstream's resource consumer calls in its container:
//! `stress -m WORKERS --vm-bytes SIZE --vm-hang 0 -t SECONDS` holds memory for some time.

use std::env;
use std::hint::black_box;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let (mut workers, mut size, mut seconds) = (1, 0, 0);
    let mut arguments = env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments
            .next()
            .with_context(|| format!("{flag} without a value"))?;
        match &*flag {
            "-m" => workers = value.parse()?,
            "--vm-bytes" => size = bytes(&value)?,
            "-t" => seconds = value.parse()?,
            _ => {}
        }
    }
    // Not zero, so that each page is in use.
    let held = vec![1_u8; workers * size];
    sleep(Duration::from_secs(seconds));
    black_box(held);
    Ok(())
}

/// A number with K, M or G, which are powers of 1024.
fn bytes(text: &str) -> Result<usize> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        unit => anyhow::bail!("no unit of bytes: {unit}"),
    };
    Ok(digits.parse::<usize>()? * unit)
}
