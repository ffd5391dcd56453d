//! A page that a browser keeps open, driven through its debugging protocol: keys, scripts, print.

use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::{Browser, CHROMIUM};
use crate::{PATIENCE, eventually};

/// Events of the protocol that are messages of the console.
const MESSAGES: [&str; 3] = [
    "Runtime.consoleAPICalled",
    "Runtime.exceptionThrown",
    "Log.entryAdded",
];

/// A key with its number in the protocol, and the text that it writes.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    name: &'static str,
    number: u32,
    text: &'static str,
}

impl Key {
    pub const TAB: Self = Self {
        name: "Tab",
        number: 9,
        text: "",
    };
    pub const ENTER: Self = Self {
        name: "Enter",
        number: 13,
        text: "\r",
    };
    pub const SPACE: Self = Self {
        name: " ",
        number: 32,
        text: " ",
    };
}

#[derive(Debug)]
pub struct Session {
    _child: Child,
    _profile: tempfile::TempDir,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last: u64,
    /// Identifier of the page, once there is one.
    id: Option<String>,
    /// Messages of the console.
    pub messages: Vec<Value>,
}

impl Browser {
    /// An empty page of this width and height in pixels.
    pub async fn session(&self, (width, height): (u32, u32)) -> Result<Session> {
        let profile = tempfile::tempdir()?;
        // The protocol is read from the file 3 and written to 4.
        let mut child = Command::new("sh")
            .args([
                "-c",
                "exec \"$@\" 3<&0 4>&1 0</dev/null 1>&2",
                "sh",
                CHROMIUM,
            ])
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .arg("--hide-scrollbars")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().context("an input")?;
        let output = child.stdout.take().context("an output")?;
        let mut session = Session {
            _child: child,
            _profile: profile,
            input,
            output: BufReader::new(output),
            last: 0,
            id: None,
            messages: Vec::new(),
        };
        let target = session
            .call("Target.createTarget", json!({"url": "about:blank"}))
            .await?;
        let params = json!({"targetId": target["targetId"], "flatten": true});
        let attached = session.call("Target.attachToTarget", params).await?;
        let id = attached["sessionId"].as_str().context("a session")?;
        session.id = Some(id.to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            session.call(&format!("{domain}.enable"), json!({})).await?;
        }
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        session
            .call("Emulation.setDeviceMetricsOverride", size)
            .await?;
        Ok(session)
    }
}

impl Session {
    async fn next(&mut self) -> Result<Value> {
        let mut message = Vec::new();
        let read = self.output.read_until(0, &mut message);
        timeout(PATIENCE, read)
            .await
            .context("the browser is silent")??;
        ensure!(message.pop() == Some(0), "the browser has ended");
        let message: Value = serde_json::from_slice(&message)?;
        if MESSAGES.contains(&message["method"].as_str().unwrap_or_default()) {
            self.messages.push(message["params"].clone());
        }
        Ok(message)
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": params});
        if let Some(id) = &self.id {
            request["sessionId"] = json!(id);
        }
        let mut message = serde_json::to_vec(&request)?;
        message.push(0);
        self.input.write_all(&message).await?;
        loop {
            let mut answer = self.next().await?;
            if answer["id"] == self.last {
                if answer["error"].is_object() {
                    bail!("{method}: {}", answer["error"]);
                }
                return Ok(answer["result"].take());
            }
        }
    }

    /// Does something that loads another page, and waits for it.
    async fn until_loaded(&mut self, method: &str, params: Value) -> Result<()> {
        self.value("window.isLeft = true").await?;
        let answer = self.call(method, params).await?;
        ensure!(answer["errorText"].is_null(), "{answer}");
        eventually("the page is loaded", async || {
            let state = "window.isLeft === undefined && document.readyState == 'complete'";
            let is_loaded = self.value(state).await?;
            ensure!(is_loaded == true, "it is not");
            Ok(())
        })
        .await
    }

    pub async fn open(&mut self, url: &str) -> Result<()> {
        self.until_loaded("Page.navigate", json!({"url": url}))
            .await
    }

    /// The value of an expression of JavaScript.
    pub async fn value(&mut self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut found = self.call("Runtime.evaluate", params).await?;
        ensure!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        Ok(found["result"]["value"].take())
    }

    fn event(key: Key, kind: &str) -> Value {
        json!({
            "type": kind, "key": key.name, "code": key.name, "text": key.text,
            "windowsVirtualKeyCode": key.number,
        })
    }

    pub async fn press(&mut self, key: Key) -> Result<()> {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", Self::event(key, kind))
                .await?;
        }
        Ok(())
    }

    /// Presses a key that leads to another page.
    pub async fn press_to_load(&mut self, key: Key) -> Result<()> {
        self.until_loaded("Input.dispatchKeyEvent", Self::event(key, "keyDown"))
            .await
    }

    /// Writes into the element that has the focus.
    pub async fn write(&mut self, text: &str) -> Result<()> {
        self.call("Input.insertText", json!({"text": text})).await?;
        Ok(())
    }

    /// A picture of the page (PNG).
    pub async fn picture(&mut self) -> Result<Vec<u8>> {
        let picture = self
            .call("Page.captureScreenshot", json!({"format": "png"}))
            .await?;
        Ok(STANDARD.decode(picture["data"].as_str().context("a picture")?)?)
    }

    /// Shows the page as on paper.
    pub async fn use_paper(&mut self) -> Result<()> {
        self.call("Emulation.setEmulatedMedia", json!({"media": "print"}))
            .await?;
        Ok(())
    }
}
