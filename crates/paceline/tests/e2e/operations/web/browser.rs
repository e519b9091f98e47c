//! Headless Chromium, driven by the DevTools protocol over a pipe. `scripts/setup.sh test` installs Chromium.

use crate::harness::until;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// Names of the executable in distributions.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The pipe has the descriptors 3 (to the browser) and 4 (from it). The shell gives it standard input and output for them.
const START: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

/// A browser with one page.
pub(super) struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    sent: u64,
    session: Option<String>,
    /// Requests that the browser has refused, and exceptions of scripts.
    pub(super) complaints: Vec<String>,
    _profile: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Opens a page.
    pub(super) fn open(url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let runs = |name: &&str| {
            let mut command = Command::new(name);
            command
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let name = BROWSERS.into_iter().find(runs);
        let name = name.unwrap_or_else(|| panic!("Chromium is missing; run scripts/setup.sh test"));
        let mut command = Command::new("sh");
        command.args(["-c", START, "sh", name]);
        // As root, Chromium requires --no-sandbox.
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ]);
        command.args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-sync",
        ]);
        command.args(["--disable-component-update", "--disable-dev-shm-usage"]);
        // The certificates of the tests are of no known authority.
        command.args(["--remote-debugging-pipe", "--ignore-certificate-errors"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut browser = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            sent: 0,
            session: None,
            complaints: Vec::new(),
            _profile: profile,
        };
        let page = browser.command("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let attached = browser.command("Target.attachToTarget", attach);
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        browser.command("Runtime.enable", json!({}));
        browser.command("Log.enable", json!({}));
        browser.command("Page.enable", json!({}));
        browser.command("Page.navigate", json!({"url": url}));
        browser.until("document.readyState === 'complete' && location.href !== 'about:blank'");
        browser
    }

    /// Sends a command and returns its result.
    pub(super) fn command(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.input
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        loop {
            let mut message = Vec::new();
            self.output.read_until(0, &mut message).unwrap();
            message.pop();
            let mut message: Value = serde_json::from_slice(&message).unwrap();
            if message["id"] == self.sent {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            let complains = match message["method"].as_str() {
                Some("Runtime.exceptionThrown") => true,
                // A refused login or a session that does not exist is no fault of the page.
                Some("Log.entryAdded") => message["params"]["entry"]["source"] != "network",
                _ => false,
            };
            if complains {
                self.complaints.push(message["params"].to_string());
            }
        }
    }

    /// The value of an expression.
    pub(super) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.command("Runtime.evaluate", asked);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].take()
    }

    /// The text of the first element.
    pub(super) fn text(&mut self, selector: &str) -> String {
        let text = self.value(&format!(
            "document.querySelector({selector:?})?.innerText ?? ''"
        ));
        text.as_str().unwrap().to_owned()
    }

    /// Polls until an expression is true.
    #[track_caller]
    pub(super) fn until(&mut self, expression: &str) {
        until(expression, || {
            self.value(&format!("!!({expression})")) == true
        });
    }

    /// Clicks the first element, which must be visible, and not covered.
    #[track_caller]
    pub(super) fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const element = document.querySelector({selector:?}); element.scrollIntoView({{block: 'center'}});
               const box = element.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
               return element.contains(document.elementFromPoint(x, y)) ? {{x, y}} : null; }})()"
        ));
        assert!(!place.is_null(), "{selector} cannot be clicked");
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": place["x"], "y": place["y"], "button": "left", "clickCount": 1});
            self.command("Input.dispatchMouseEvent", event);
        }
    }

    /// Types into the first element.
    pub(super) fn fill(&mut self, selector: &str, text: &str) {
        self.value(&format!(
            "(() => {{ const field = document.querySelector({selector:?}); field.focus(); field.select?.(); }})()"
        ));
        match text {
            "" => self.press("Delete"),
            text => drop(self.command("Input.insertText", json!({"text": text}))),
        }
    }

    /// Presses a key.
    pub(super) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Delete" => (46, ""),
            _ => (9, ""),
        };
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({"type": kind, "key": key, "windowsVirtualKeyCode": code, "text": text});
            self.command("Input.dispatchKeyEvent", event);
        }
    }

    /// Sets size and theme of the page.
    pub(super) fn resize(&mut self, (width, height): (u32, u32), theme: &str) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.command("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{"name": "prefers-color-scheme", "value": theme}]);
        self.command("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Saves a picture of the page in the folder of the tests' temporary files, for people to look at.
    pub(super) fn picture(&mut self, name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("web-console");
        std::fs::create_dir_all(&folder).unwrap();
        let answer = self.command("Page.captureScreenshot", json!({"format": "png"}));
        let file = folder.join(format!("{name}.png"));
        let bytes = STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        std::fs::write(&file, bytes).unwrap();
        file
    }

    /// Logs in by the form.
    #[track_caller]
    pub(super) fn log_in(&mut self, (user, password): (&str, &str)) {
        self.until("!document.getElementById('login').hidden");
        self.fill("#login [name=user]", user);
        self.fill("#login [name=password]", password);
        self.press("Enter");
    }

    /// Returns when a sample is shown.
    #[track_caller]
    pub(super) fn await_sample(&mut self) {
        self.until(
            "!document.getElementById('content').hidden && document.querySelector('#numbers dd')",
        );
    }
}
