//! The report in Chromium, which `scripts/setup.sh test` installs. Screenshots are written to the folder `report` of the
//! tests' temporary files, for people to look at.

use crate::sample;
use paceline_bench::{Record, report};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Limit for the browser to draw a page.
const LIMIT: Duration = Duration::from_secs(60);
/// Names of the executable in distributions.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// The policy of the page, and one that also admits the script of the test.
const STRICT: &str = "default-src 'none'; style-src 'unsafe-inline'";
const PROBED: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
/// A script that writes measurements of the browser into a copy of the page.
const PROBE: &str = "<script>
    const refused = [];
    addEventListener('securitypolicyviolation', event => refused.push(event.violatedDirective));
    addEventListener('error', event => refused.push(event.message));
    addEventListener('load', () => {
        const outside = element => element.getBoundingClientRect().right > innerWidth + 0.5;
        const wide = [...document.querySelectorAll('body *')].filter(element => !element.closest('.scroll') && outside(element));
        const probe = document.createElement('pre');
        probe.id = 'probe';
        probe.textContent = JSON.stringify({
            window: innerWidth,
            page: document.documentElement.scrollWidth,
            height: document.documentElement.scrollHeight,
            wide: wide.map(element => element.tagName + '.' + (element.className.baseVal ?? element.className)),
            refused,
            dark: matchMedia('(prefers-color-scheme: dark)').matches,
            background: getComputedStyle(document.body).backgroundColor,
            title: document.title,
            scripts: document.scripts.length,
            images: document.images.length,
            charts: document.querySelectorAll('svg[role=img][aria-label]').length,
            loaded: performance.getEntriesByType('resource').length,
        });
        parent.document.body.append(probe);
    });
</script>";

/// The theme of the page.
#[derive(Clone, Copy)]
enum Theme {
    Light,
    Dark,
}

/// A page and a browser that shows it.
struct Shown {
    folder: TempDir,
    page: String,
    browser: &'static str,
}

impl Shown {
    fn new(records: &[Record]) -> Self {
        let runs = |name: &&str| {
            let mut command = Command::new(name);
            command
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let browser = BROWSERS.into_iter().find(runs);
        let browser = browser
            .expect("Chromium is missing; run scripts/setup.sh test, or: apt-get install chromium");
        Self {
            folder: tempfile::tempdir().unwrap(),
            page: report(records),
            browser,
        }
    }

    /// Runs the browser on `page` in a frame of this `size`, because windows have a minimum width. Returns the output.
    fn browse(&self, page: &str, theme: Theme, size: (u64, u64), action: &str) -> String {
        let profile = tempfile::tempdir_in(self.folder.path()).unwrap();
        let framed = profile.path().join("framed.html");
        std::fs::write(&framed, frame(page, size)).unwrap();
        let theme = match theme {
            Theme::Dark => 0,
            Theme::Light => 1,
        };
        let mut command = Command::new("timeout");
        command.arg(LIMIT.as_secs().to_string()).arg(self.browser);
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
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.arg(format!("--blink-settings=preferredColorScheme={theme}"));
        command.arg(format!("--window-size={},{}", size.0, size.1));
        command.arg(action).arg(&framed);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the browser failed: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The measurements of a copy of the page, `width` pixels wide.
    fn probe(&self, theme: Theme, width: u64) -> Value {
        assert!(self.page.contains(STRICT), "the page's policy is another");
        let page = self.page.replacen(STRICT, PROBED, 1);
        let page = page.replacen("<style>", &format!("{PROBE}<style>"), 1);
        let dom = self.browse(&page, theme, (width, 900), "--dump-dom");
        let (_, found) = dom
            .rsplit_once("<pre id=\"probe\">")
            .expect("the probe did not run");
        let (found, _) = found.split_once("</pre>").unwrap();
        let found = found
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&");
        serde_json::from_str(&found).unwrap()
    }

    /// Saves a screenshot of the complete page, whose height the measurements contain, and returns it.
    fn picture(&self, name: &str, theme: Theme, found: &Value) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{name}.png"));
        let _ = std::fs::remove_file(&file);
        let pixels = |name: &str| found[name].as_u64().unwrap();
        let size = (pixels("window"), pixels("height"));
        let action = format!("--screenshot={}", file.display());
        self.browse(&self.page, theme, size, &action);
        let picture = std::fs::read(&file).unwrap();
        assert!(
            picture.starts_with(b"\x89PNG"),
            "{} is no picture",
            file.display()
        );
        picture
    }
}

/// A page that contains only `page` in a frame.
fn frame(page: &str, (width, height): (u64, u64)) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><meta charset=utf-8><meta name=color-scheme content='light dark'>\
         <body style='margin:0'><iframe style='border:0;display:block;width:{width}px;height:{height}px' srcdoc=\"{page}\"></iframe>"
    )
}

#[test]
fn a_phone_shows_the_page_without_horizontal_scrolling() {
    for (name, records) in [("good", sample::good_day()), ("bad", sample::bad_day())] {
        let shown = Shown::new(&records);
        let found = shown.probe(Theme::Light, 360);
        assert_eq!(found["window"], 360, "{found}");
        assert_eq!(found["page"], 360, "{found:#}");
        assert_eq!(found["wide"], json!([]), "{found:#}");
        shown.picture(&format!("{name}-phone"), Theme::Light, &found);
    }
}

#[test]
fn the_page_loads_nothing_and_texts_are_not_markup() {
    let records = sample::bad_day();
    let page = report(&records);
    assert!(!page.contains("http://") && !page.contains("https://"));
    let found = Shown::new(&records).probe(Theme::Light, 1_280);
    assert_eq!(found["refused"], json!([]), "{found:#}");
    assert_eq!(found["loaded"], 0, "{found:#}");
    // The only script is that of the test.
    assert_eq!(
        (&found["scripts"], &found["images"]),
        (&1.into(), &0.into()),
        "{found:#}"
    );
    assert!(
        found["title"]
            .as_str()
            .unwrap()
            .starts_with("Before and after"),
        "{found:#}"
    );
    assert!(found["charts"].as_u64().unwrap() >= 10, "{found:#}");
}

#[test]
fn the_light_and_the_dark_theme_differ() {
    for (name, records) in [("good", sample::good_day()), ("bad", sample::bad_day())] {
        let shown = Shown::new(&records);
        let (light, dark) = (
            shown.probe(Theme::Light, 1_280),
            shown.probe(Theme::Dark, 1_280),
        );
        assert_eq!(
            (&light["dark"], &dark["dark"]),
            (&false.into(), &true.into())
        );
        assert_ne!(light["background"], dark["background"]);
        let light = shown.picture(&format!("{name}-light"), Theme::Light, &light);
        assert_ne!(
            light,
            shown.picture(&format!("{name}-dark"), Theme::Dark, &dark)
        );
    }
}
