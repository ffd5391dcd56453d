//! CPU throttling of containers, by the series of cAdvisor in Prometheus.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::ContainerRef;
use sources::error_chain::with_causes;
use sources::prometheus::{
    Connection, InstantSample, Prometheus, PrometheusError, limit_changes, throttling,
};
use tokio::time::timeout;

/// Time of the periods that count: two scrapes of the usual half a minute.
const RANGE: Duration = Duration::from_mins(1);
/// A smaller share is no harm.
const LEAST: f64 = 0.01;
/// A round of usage waits no longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shares of CPU periods, up to 1, by the containers that were throttled in more than 1 % of theirs.
pub(crate) type Throttled = HashMap<ContainerRef, f64>;

#[derive(Clone)]
pub(crate) struct ThrottlingSource {
    pub(crate) connection: Connection,
    /// The only namespace that counts, if there is one.
    pub(crate) namespace: Option<String>,
}

impl ThrottlingSource {
    /// Reads the present shares; none if that fails, which is logged.
    pub(crate) async fn read(&self) -> Throttled {
        let read = timeout(PATIENCE, Box::pin(self.query())).await;
        let read = read.unwrap_or(Err(PrometheusError::Timeout(PATIENCE)));
        let samples = read.inspect_err(|error| {
            let error = with_causes(error);
            tracing::warn!(
                error,
                "cannot read CPU throttling; usage counts as measured"
            );
        });
        let samples = samples.unwrap_or_default();
        samples.into_iter().filter_map(of_container).collect()
    }

    async fn query(&self) -> Result<Vec<InstantSample>, PrometheusError> {
        let store = Prometheus::connect(&self.connection, Arc::new(|_| ())).await?;
        let by = ["namespace", "pod", "container"];
        let namespace = self.namespace.as_deref();
        let share = throttling(&by, namespace, RANGE);
        // Periods before a resize say nothing about the present limit.
        let resized = limit_changes(&by, namespace, RANGE);
        let query = format!("{share} > {LEAST} unless {resized} > 0");
        store.query(&query, PATIENCE).await
    }
}

fn of_container(sample: InstantSample) -> Option<(ContainerRef, f64)> {
    let InstantSample {
        mut labels, value, ..
    } = sample;
    let container = ContainerRef {
        namespace: labels.remove("namespace")?,
        pod: labels.remove("pod")?,
        container: labels.remove("container")?,
    };
    value
        .is_finite()
        .then(|| (container, value.clamp(0.0, 1.0)))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn shares_belong_to_containers_and_numbers_alone_count() {
        let check = |labels: &[&str], value: f64, expected: Option<f64>| {
            let labels = labels.iter().map(|it| ((*it).to_owned(), "a".to_owned()));
            let labels = labels.collect();
            let at = Timestamp::UNIX_EPOCH;
            let found = of_container(InstantSample { labels, at, value });
            assert_eq!(found.map(|(_, share)| share), expected, "{value}");
        };
        let all = ["namespace", "pod", "container"];
        check(&all, 0.5, Some(0.5));
        check(&all, 1.2, Some(1.0));
        check(&all, f64::NAN, None);
        check(&all[..2], 0.5, None);
    }
}
