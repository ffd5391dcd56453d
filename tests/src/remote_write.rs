//! Writes samples into Prometheus, or into another store, by its remote-write protocol 1.0: a protocol
//! buffer in Snappy's block format, of which only uncompressed literals are used. Reads them by instant
//! queries.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use kube::{Client, Config};
use sandbox::Sandbox;

use crate::eventually;
use crate::prometheus::client;

/// By name, and so in the order that the protocol asks for.
type Labels<'a> = BTreeMap<&'a str, &'a str>;

const DAY: i64 = 86_400;
/// The longest literal of Snappy with a length of two bytes.
const MAX_LITERAL: usize = 1 << 16;

/// The CPU of a pod's container whose load rises each day at the same time.
#[derive(Debug)]
pub struct DailyCpu<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    pub container: &'a str,
    /// A moment of some day when the load rises, in seconds since 1970.
    pub rise: i64,
    /// Seconds of high load after that.
    pub busy: i64,
    /// Cores before and after.
    pub low: f64,
    /// Cores while it is high.
    pub high: f64,
}

pub struct Receiver {
    client: Client,
}

impl Receiver {
    pub fn of(sandbox: &Sandbox) -> Result<Self> {
        let client = client(sandbox)?;
        Ok(Self { client })
    }

    /// That of another store, without TLS.
    pub fn at(url: &str) -> Result<Self> {
        let client = Client::try_from(Config::new(url.parse()?))?;
        Ok(Self { client })
    }

    /// Writes a counter of CPU seconds, minute by minute.
    pub async fn write_daily_cpu(&self, cpu: &DailyCpu<'_>, from: i64, to: i64) -> Result<()> {
        let labels = [
            ("namespace", cpu.namespace),
            ("pod", cpu.pod),
            ("container", cpu.container),
        ];
        let mut seconds = 0.0;
        let samples = (from..=to).step_by(60).map(|at| {
            let is_busy = (at - cpu.rise).rem_euclid(DAY) < cpu.busy;
            seconds += 60.0 * if is_busy { cpu.high } else { cpu.low };
            (at, seconds)
        });
        self.write("container_cpu_usage_seconds_total", &labels, samples)
            .await
    }

    /// Writes the usage of a pod's container `app`: second, CPU seconds so far, and bytes.
    pub async fn write_usage(
        &self,
        [namespace, pod]: [&str; 2],
        samples: impl Iterator<Item = (i64, f64, f64)>,
    ) -> Result<()> {
        let labels = [("namespace", namespace), ("pod", pod), ("container", "app")];
        let samples = samples.map(|(at, cpu, bytes)| ((at, cpu), (at, bytes)));
        let (cpu, memory): (Vec<_>, Vec<_>) = samples.unzip();
        for (name, samples) in [
            ("container_cpu_usage_seconds_total", cpu),
            ("container_memory_working_set_bytes", memory),
        ] {
            self.write(name, &labels, samples.into_iter()).await?;
        }
        Ok(())
    }

    /// Writes one series of seconds and values, again where a connection ends meanwhile: the same samples
    /// count once.
    pub async fn write(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        samples: impl Iterator<Item = (i64, f64)>,
    ) -> Result<()> {
        let mut labels: Labels<'_> = labels.iter().copied().collect();
        labels.insert("__name__", name);
        let request = http::Request::post("/api/v1/write")
            .header("Content-Encoding", "snappy")
            .header("Content-Type", "application/x-protobuf")
            .header("X-Prometheus-Remote-Write-Version", "0.1.0")
            .body(snappy(&message(&series(&labels, samples), 1)))?;
        eventually(&format!("{labels:?} is written"), async || {
            self.client.request_text(request.clone()).await?;
            Ok(())
        })
        .await
    }

    /// The answer to an instant query, whose text is a metric's name.
    pub async fn query(&self, name: &str) -> Result<String> {
        let request = http::Request::get(format!("/api/v1/query?query={name}")).body(Vec::new())?;
        self.client
            .request_text(request)
            .await
            .with_context(|| format!("query {name}"))
    }
}

fn series(labels: &Labels<'_>, samples: impl Iterator<Item = (i64, f64)>) -> Vec<u8> {
    let mut series = Vec::new();
    for (name, value) in labels {
        series.extend(message(
            &[message(name.as_bytes(), 1), message(value.as_bytes(), 2)].concat(),
            1,
        ));
    }
    for (second, value) in samples {
        let mut sample = vec![1 << 3 | 1];
        sample.extend(value.to_le_bytes());
        sample.push(2 << 3);
        sample.extend(varint(second as u64 * 1000));
        series.extend(message(&sample, 2));
    }
    series
}

/// A field of a known length: text, or another message.
fn message(content: &[u8], field: u8) -> Vec<u8> {
    [
        &[field << 3 | 2],
        &varint(content.len() as u64)[..],
        content,
    ]
    .concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn snappy(content: &[u8]) -> Vec<u8> {
    let mut block = varint(content.len() as u64);
    for literal in content.chunks(MAX_LITERAL) {
        let length = (literal.len() - 1) as u16;
        block.push(61 << 2);
        block.extend(length.to_le_bytes());
        block.extend(literal);
    }
    block
}
