//! The server of a program's endpoints (/metrics, health, readiness) on `--address`.

use runtime::http_endpoints::EndpointPort;
use tokio::task::JoinHandle;

use crate::http_server::{Limits, serve};
use crate::tls::{RELOAD_PERIOD, ServingTls, TlsFiles};

/// Serves the endpoints with [`Limits::default`]: full connection slots must not starve the
/// kubelet's probes. Over TLS where the port has certificate files, which are reloaded.
///
/// An error means that the certificate files cannot be used.
pub async fn serve_endpoints(port: EndpointPort) -> anyhow::Result<JoinHandle<()>> {
    let EndpointPort {
        listener,
        router,
        certificate_folder,
        tasks,
        shutdown,
    } = port;
    let tls = match certificate_folder {
        Some(folder) => {
            let files = TlsFiles {
                authorities: None,
                ..TlsFiles::in_folder(&folder)
            };
            let tls = ServingTls::load(files).await?;
            tasks.spawn_until_shutdown(
                "certificate reload",
                tls.clone().follow_files(RELOAD_PERIOD),
            );
            Some(tls.current())
        }
        None => None,
    };
    let limits = Limits::default();
    Ok(tokio::spawn(serve(listener, router, tls, limits, shutdown)))
}
