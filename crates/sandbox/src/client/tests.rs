use anyhow::ensure;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Answers the first request of each connection, and closes it when the second arrives.
async fn close_at_second_requests(listener: TcpListener) -> Result<()> {
    loop {
        let (mut connection, _) = listener.accept().await?;
        let mut request = [0; 4096];
        ensure!(connection.read(&mut request).await? > 0, "no request");
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        connection.write_all(answer).await?;
        // The client may be gone instead.
        drop(connection.read(&mut request).await);
    }
}

#[tokio::test]
async fn a_request_on_a_closed_connection_is_sent_again() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let server = tokio::spawn(close_at_second_requests(listener));
    let mut config = Config::new(url.parse()?);
    config.default_retry = false;
    for is_repeated in [true, false] {
        let client = if is_repeated {
            with_config(config.clone())?
        } else {
            Client::try_from(config.clone())?
        };
        let mut answers = Vec::new();
        for _ in 0..3 {
            let request = Request::post("/").body(b"{}".to_vec())?;
            answers.push(client.request_text(request).await.is_ok());
        }
        assert_eq!(
            answers,
            [true, is_repeated, true],
            "repeated: {is_repeated}"
        );
    }
    server.abort();
    Ok(())
}
