//! gRPC server of the feed: publishes decisions.

use std::sync::Arc;

use anyhow::Context as _;
use feed::server::{CurrentTls, ReportSink};
use feed::{Forecast, Publisher, Recommendation, Server, ServerLimits};
use jiff::Timestamp;
use runtime::address::listen_ip_from_environment;
use runtime::{ListenAddress, LogOnce, Manager};
use serving::advertised_address;
use serving::tls::{RELOAD_PERIOD, ServingTls, TlsFiles};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use vertical::applied::Report;
use vertical::recommender_state::Decision;
use view::ObjectKey;

use crate::config::FeedConfig;
use crate::ingest::SharedState;

pub(crate) struct FeedServer {
    pub(crate) publisher: Publisher,
    pub(crate) forecasts: Publisher<Forecast>,
    /// Address for the Lease.
    pub(crate) address: String,
}

/// Client that may report what it did: no other program acts on recommendations.
const REPORTING_CLIENT: &str = "plimsoll-updater";

impl FeedServer {
    /// Starts the feed, unless it is disabled. It serves once its certificates exist, which may be
    /// later than the start of the program.
    pub(crate) fn start(
        config: FeedConfig,
        shared: &SharedState,
        manager: &Manager,
    ) -> anyhow::Result<Option<Self>> {
        let Some(folder) = config.cert_dir else {
            return Ok(None);
        };
        let files = TlsFiles::in_folder(&folder);
        let listen = config.address.or_host(listen_ip_from_environment()?);
        let metrics = feed::Metrics::register(&manager.registry)?;
        let feed = Self {
            publisher: Publisher::default().with_metrics(&metrics),
            forecasts: Publisher::default().with_metrics(&metrics),
            address: advertised_address(&config.advertised_host, listen)?,
        };
        let (publisher, forecasts) = (feed.publisher.clone(), feed.forecasts.clone());
        let reporting = REPORTING_CLIENT.parse()?;
        let reports = report_sink(shared.clone());
        let server = |tls| Server {
            publisher,
            forecasts,
            reports,
            tls,
            allowed: config.allowed_clients,
            reporting,
            limits: ServerLimits::default(),
            metrics,
        };
        let serving = serve(listen, files, server, manager.shutdown.clone());
        manager.tasks.spawn("feed", serving);
        Ok(Some(feed))
    }
}

/// Serves from the time at which the certificates exist.
async fn serve(
    listen: ListenAddress,
    files: TlsFiles,
    server: impl FnOnce(CurrentTls) -> Server,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let Some(tls) = shutdown.run_until_cancelled(certificates(files)).await else {
        return Ok(());
    };
    let listener: TcpListener = listen
        .bind()
        .await
        .with_context(|| format!("cannot listen on feed.address={listen}"))?;
    tracing::info!(address = %listener.local_addr()?, "serving the feed");
    let current = tls.clone();
    let server = server(Arc::new(move || current.config()));
    tokio::select! {
        ended = server.serve(listener, shutdown) => Ok(ended?),
        () = tls.follow_files(RELOAD_PERIOD) => Ok(()),
    }
}

/// Waits until the files can be loaded. A lasting error is logged once.
async fn certificates(files: TlsFiles) -> ServingTls {
    let mut logged = LogOnce::default();
    loop {
        match ServingTls::load(files.clone()).await {
            Ok(tls) => return tls,
            Err(error) => {
                if let Some(error) = logged.update(Some(error.to_string())) {
                    let certificate = files.certificate.display();
                    let private_key = files.private_key.display();
                    tracing::warn!(error, %certificate, %private_key, "not serving the feed: its certificates cannot be loaded");
                }
            }
        }
        tokio::time::sleep(RELOAD_PERIOD).await;
    }
}

fn report_sink(shared: SharedState) -> ReportSink {
    Arc::new(move |reports| {
        let reports = reports.into_iter().map(|report| Report {
            key: ObjectKey::new(report.namespace, report.name),
            uid: report.uid,
            applied: report.applied,
            reason: report.reason,
            message: report.message,
        });
        if shared.lock().reported(reports, Timestamp::now()) {
            shared.changed();
        }
    })
}

pub(crate) fn recommendation(decision: &Decision) -> Recommendation {
    let Decision { vpa, status, .. } = decision;
    Recommendation {
        uid: vpa.uid().to_owned(),
        namespace: vpa.key.namespace.clone(),
        name: vpa.key.name.clone(),
        observed_generation: status.observed_generation,
        recommendation: status.recommendation.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use api::vpa::VerticalPodAutoscalerStatus;
    use serde_json::json;
    use vertical::refresh::StatusChange;

    use super::*;
    use crate::fixture;

    #[test]
    fn the_published_recommendation_is_the_one_that_is_written() {
        let recommendation = json!({"containerRecommendations": [
            {"containerName": "main", "target": {"cpu": "250m", "memory": "1Ki"}},
        ]});
        let status: VerticalPodAutoscalerStatus = serde_json::from_value(
            json!({"observedGeneration": 7, "recommendation": recommendation}),
        )
        .expect("a status");
        let decision = Decision {
            vpa: Arc::new(fixture::vpa("web", &json!({"metadata": {"uid": "u1"}}))),
            status: status.clone(),
            pods: 1,
            unsupported: false,
            change: StatusChange::Decision,
        };
        let published = super::recommendation(&decision);
        let named = [&published.uid, &published.namespace, &published.name];
        assert_eq!(named, ["u1", "shop", "web"]);
        assert_eq!(published.observed_generation, 7);
        assert_eq!(Some(published.recommendation), status.recommendation);
    }
}
