//! With `apiServerClientCaFile`, other clients are refused.

use anyhow::{Result, ensure};
use serving::certificates::{ManagedConfig, RotationPolicy, Source};
use serving::tls::ServingProfile;
use webhook::serve::LIMITS;

use crate::api_server::ApiServer;
use crate::ca::Ca;
use crate::client::{Connection, trusting, trusting_as};
use crate::fixture::{NAME, Replica};
use crate::rotation::{bundles, managed};

#[tokio::test(flavor = "multi_thread")]
async fn connections_without_the_api_servers_certificate_are_refused() -> Result<()> {
    let (api_server, folder) = (ApiServer::default(), tempfile::tempdir()?);
    let (clients, others) = (Ca::new("clients")?, Ca::new("others")?);
    let path = folder.path().join("ca");
    std::fs::write(&path, &clients.pem)?;
    let Source::Managed(source) = managed(&api_server, RotationPolicy::default()) else {
        anyhow::bail!("not managed")
    };
    let serving = ServingProfile {
        client_authorities: Some(path),
        ..ServingProfile::default()
    };
    let source = Source::Managed(Box::new(ManagedConfig { serving, ..*source }));
    let mut replica = Replica::start(source, &api_server, LIMITS).await?;
    replica.in_effect.wait_for(|is| *is).await?;
    let bundle = bundles(&api_server)?.concat();

    let asks = async |connector| {
        let mut connection = Connection::open(replica.address, NAME, &connector).await?;
        connection.admit("1").await
    };
    let without = asks(trusting(&bundle)?).await;
    ensure!(without.is_err(), "without a certificate");
    let other = asks(trusting_as(&bundle, others.issue(None)?)?).await;
    ensure!(other.is_err(), "with a certificate of another CA");
    asks(trusting_as(&bundle, clients.issue(None)?)?).await?;
    Ok(())
}
