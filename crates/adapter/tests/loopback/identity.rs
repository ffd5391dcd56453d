//! Who is believed to be whom. What the API server is then asked shows as whom a caller is taken.

use std::time::{Duration, Instant, SystemTime};

use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};

use crate::authority::{Authority, Identity, Says};
use crate::stage::{QUEUE, Stage, configuration};

/// Headers with which somebody claims to be an administrator.
const CLAIM: [&str; 2] = [
    "X-Remote-User: system:admin",
    "X-Remote-Group: system:masters",
];

/// The user and the groups that the API server was asked about last.
fn taken_for(stage: &Stage) -> (String, Vec<String>) {
    let asked = stage.api.reviews();
    let spec = asked.last().expect("nothing was asked");
    let groups = spec["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| group.as_str().unwrap().to_owned());
    (
        spec["user"].as_str().expect("a user").to_owned(),
        groups.collect(),
    )
}

async fn check_taken_for(
    stage: &Stage,
    shown: Option<&Identity>,
    headers: &[&str],
    user: &str,
    groups: &[&str],
) {
    assert_eq!(
        stage.connect(shown).await.queue(headers).await,
        403,
        "{user}"
    );
    let (name, belongs_to) = taken_for(stage);
    assert_eq!(
        (
            name.as_str(),
            belongs_to.iter().map(String::as_str).collect::<Vec<_>>()
        ),
        (user, groups.to_vec())
    );
}

async fn check_refused(stage: &Stage, shown: &Identity, headers: &[&str]) {
    let (code, body) = stage.connect(Some(shown)).await.get(QUEUE, headers).await;
    assert_eq!(code, 401, "{body}");
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&status["kind"], &status["reason"]),
        (&json!("Status"), &json!("Unauthorized"))
    );
    assert_eq!(stage.api.reviews(), Vec::<Value>::new());
}

#[tokio::test]
async fn whoever_shows_nothing_is_nobody_whatever_the_headers_claim() {
    let stage = Stage::new(&[]).await;
    check_taken_for(
        &stage,
        None,
        &CLAIM,
        "system:anonymous",
        &["system:unauthenticated"],
    )
    .await;
    let stage = Stage::new(&["--anonymous-auth=false"]).await;
    assert_eq!(stage.connect(None).await.queue(&CLAIM).await, 401);
    assert_eq!(stage.api.reviews(), Vec::<Value>::new());
}

#[tokio::test]
async fn an_ordinary_client_is_who_its_certificate_says_whatever_the_headers_claim() {
    let stage = Stage::new(&[]).await;
    let says = Says {
        common_name: "jane",
        organizations: &["team-a"],
        ..Says::default()
    };
    let jane = stage.clients.issue(&says);
    check_taken_for(
        &stage,
        Some(&jane),
        &CLAIM,
        "jane",
        &["team-a", "system:authenticated"],
    )
    .await;
}

#[tokio::test]
async fn where_one_authority_signs_for_both_the_name_tells_them_apart() {
    let stage = Stage::with(&[], |proxies, _| {
        Some(configuration(
            &proxies.pem(),
            &proxies.pem(),
            r#"["front-proxy-client"]"#,
        ))
    })
    .await;
    let jane = stage.proxies.client("jane");
    check_taken_for(
        &stage,
        Some(&jane),
        &CLAIM,
        "jane",
        &["system:authenticated"],
    )
    .await;
    let proxied = ["X-Remote-User: joe"];
    let proxy = stage.proxies.client("front-proxy-client");
    check_taken_for(
        &stage,
        Some(&proxy),
        &proxied,
        "joe",
        &["system:authenticated"],
    )
    .await;
}

#[tokio::test]
async fn a_certificate_of_the_proxies_authority_with_another_name_is_refused() {
    let stage = Stage::new(&[]).await;
    check_refused(&stage, &stage.proxies.client("somebody"), &CLAIM).await;
    // Unless the caller has something else to show.
    let token = ["Authorization: Bearer token-of-joe", CLAIM[0]];
    let somebody = stage.proxies.client("somebody");
    check_taken_for(
        &stage,
        Some(&somebody),
        &token,
        "joe",
        &["of-tokens", "system:authenticated"],
    )
    .await;
}

#[tokio::test]
async fn any_name_will_do_where_none_is_listed() {
    let stage = Stage::with(&[], |proxies, clients| {
        Some(configuration(&proxies.pem(), &clients.pem(), "[]"))
    })
    .await;
    let somebody = stage.proxies.client("somebody");
    check_taken_for(
        &stage,
        Some(&somebody),
        &["X-Remote-User: joe"],
        "joe",
        &["system:authenticated"],
    )
    .await;
}

#[tokio::test]
async fn certificates_that_prove_nothing_are_refused() {
    let stage = Stage::new(&[]).await;
    let named = Says {
        common_name: "front-proxy-client",
        ..Says::default()
    };
    let own = Authority::new("proxies");
    for (why, identity) in [
        ("an authority of one's own", own.issue(&named)),
        (
            "one's own below one's own",
            own.below("below").issue(&named),
        ),
        (
            "over",
            stage.proxies.issue(&Says {
                has_ended: true,
                ..named
            }),
        ),
        (
            "for servers",
            stage.proxies.issue(&Says {
                purposes: &[ExtendedKeyUsagePurpose::ServerAuth],
                ..named
            }),
        ),
        (
            "a client that is over",
            stage.clients.issue(&Says {
                has_ended: true,
                ..named
            }),
        ),
    ] {
        println!("{why}");
        check_refused(&stage, &identity, &CLAIM).await;
    }
}

#[tokio::test]
async fn a_certificate_that_does_not_say_what_it_is_for_and_one_with_another_between_are_accepted()
{
    let stage = Stage::new(&[]).await;
    let named = Says {
        common_name: "front-proxy-client",
        ..Says::default()
    };
    let between = stage.proxies.below("below").issue(&named);
    for (identity, user) in [
        (
            stage.proxies.issue(&Says {
                purposes: &[],
                ..named
            }),
            "joe",
        ),
        (between, "jane"),
    ] {
        let said = format!("X-Remote-User: {user}");
        check_taken_for(
            &stage,
            Some(&identity),
            &[&said],
            user,
            &["system:authenticated"],
        )
        .await;
    }
}

#[tokio::test]
async fn groups_and_all_else_that_the_proxy_says_reach_the_api_server() {
    let stage = Stage::new(&[]).await;
    let said = [
        "X-REMOTE-USER: joe",
        "x-remote-uid: 17",
        "X-Remote-Group: a",
        "x-Remote-group: b",
        "X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id: JTI=1",
    ];
    assert_eq!(stage.proxy().await.queue(&said).await, 403);
    let asked = stage.api.reviews();
    let spec = asked.last().unwrap();
    assert_eq!(spec["user"], "joe");
    assert_eq!(spec["uid"], "17");
    assert_eq!(spec["groups"], json!(["a", "b", "system:authenticated"]));
    assert_eq!(
        spec["extra"],
        json!({"authentication.kubernetes.io/credential-id": ["JTI=1"]})
    );
}

#[tokio::test]
async fn headers_of_http_2_are_the_same_in_small_letters() {
    let stage = Stage::new(&[]).await;
    let request = http::Request::get(format!("https://localhost{QUEUE}"))
        .header("x-remote-user", "joe")
        .header("x-remote-group", "a")
        .header("x-remote-group", "b");
    assert_eq!(ask_by_http2(&stage, request).await, 403);
    let groups = ["a", "b", "system:authenticated"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(taken_for(&stage), ("joe".to_owned(), groups));
}

#[tokio::test]
async fn whoever_is_in_a_thousand_groups_is_asked_about_with_all_of_them() {
    let stage = Stage::new(&[]).await;
    let groups: Vec<String> = (0..1015)
        .map(|number| format!("CN=a group of the directory,OU={number:040}"))
        .collect();
    let mut expected = groups.clone();
    expected.push("system:authenticated".to_owned());
    let mut said = vec!["X-Remote-User: joe".to_owned()];
    said.extend(
        groups
            .iter()
            .map(|group| format!("X-Remote-Group: {group}")),
    );
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    assert_eq!(stage.proxy().await.queue(&said).await, 403);
    assert_eq!(taken_for(&stage), ("joe".to_owned(), expected.clone()));
    let mut request =
        http::Request::get(format!("https://localhost{QUEUE}")).header("x-remote-user", "jane");
    for group in &groups {
        request = request.header("x-remote-group", group);
    }
    assert_eq!(ask_by_http2(&stage, request).await, 403);
    assert_eq!(taken_for(&stage), ("jane".to_owned(), expected));
}

/// The code of the answer to a front proxy's question.
async fn ask_by_http2(stage: &Stage, request: http::request::Builder) -> u16 {
    let identity = stage.proxies.client("front-proxy-client");
    let stream = TokioIo::new(stage.open(Some(&identity), b"h2").await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
            .await
            .unwrap();
    let running = tokio::spawn(connection);
    let request = request.body(Empty::<hyper::body::Bytes>::new()).unwrap();
    let code = sender
        .send_request(request)
        .await
        .unwrap()
        .status()
        .as_u16();
    running.abort();
    code
}

#[tokio::test]
async fn a_proxy_that_names_nobody_is_nobody() {
    let stage = Stage::new(&[]).await;
    assert_eq!(
        stage
            .proxy()
            .await
            .queue(&["X-Remote-Group: system:masters"])
            .await,
        401
    );
}

#[tokio::test]
async fn tokens_are_asked_about_once_and_wrong_ones_are_refused() {
    let stage = Stage::new(&[]).await;
    let asking = (0..8).map(|_| async {
        let mut connection = stage.connect(None).await;
        connection
            .queue(&["Authorization: Bearer token-of-reader", CLAIM[0], CLAIM[1]])
            .await
    });
    for code in futures::future::join_all(asking).await {
        assert!(![401, 403].contains(&code), "{code}");
    }
    assert_eq!(stage.api.tokens(), ["token-of-reader"]);
    for _ in 0..2 {
        assert_eq!(
            stage
                .connect(None)
                .await
                .queue(&["Authorization: Bearer made-up"])
                .await,
            401
        );
    }
    assert_eq!(
        stage.api.tokens(),
        ["made-up"],
        "that it is wrong is remembered too"
    );
    let metrics = stage.metrics();
    assert!(
        metrics.contains(r#"authentication_attempts{result="failure"} 2"#),
        "{metrics}"
    );
    assert!(
        metrics.contains(r#"apiserver_delegated_authn_request_total{code="201"} 2"#),
        "{metrics}"
    );
}

#[tokio::test]
async fn probes_need_not_say_who_they_are() {
    let stage = Stage::new(&[]).await;
    let stranger = Authority::new("strangers").client("somebody");
    for shown in [None, Some(&stranger)] {
        let (code, body) = stage.connect(shown).await.get("/livez", &[]).await;
        assert_eq!(code, 200, "{body}");
    }
}

#[tokio::test]
async fn certificates_of_callers_begin_and_end_by_the_api_servers_time() {
    let stage = Stage::new(&[]).await;
    let hours = |hours| Duration::from_hours(hours);
    let ended = || {
        stage.proxies.issue(&Says {
            common_name: "front-proxy-client",
            has_ended: true,
            ..Says::default()
        })
    };
    let asks = async |identity: Identity| {
        stage
            .connect(Some(&identity))
            .await
            .queue(&["X-Remote-User: hpa"])
            .await
    };
    assert_eq!(asks(ended()).await, 401);
    let own = SystemTime::now();
    stage.clock.observe(own - hours(24), own, Instant::now());
    assert_eq!(
        asks(ended()).await,
        404,
        "this machine's clock is a day ahead"
    );
    stage.clock.observe(own + hours(48), own, Instant::now());
    assert_eq!(
        asks(stage.proxies.client("front-proxy-client")).await,
        401,
        "it is two days behind"
    );
}
