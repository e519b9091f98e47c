//! The series of pools without a server, and the documentation, which must match. The e2e module `metrics` tests the rest.

mod deploy;

use super::definitions::METRICS;
use super::scrape::text;
use super::*;
use paceline_batch::strategy::Strategy;
use paceline_batch::template_stats::{NAMED_AFTER_REQUESTS, NAMES_MAX, TEMPLATES_MAX};
use paceline_config::Config;
use paceline_pool::labels::{NAME_BYTES_MAX, POOLS_MAX};
use paceline_pool::pool::Pool;
use paceline_pool::stats::CODES_MAX;

fn proxy() -> Arc<Proxy> {
    let config = Config::for_upstream("postgres://db").unwrap();
    Arc::new(Proxy::new(config))
}

/// The pool of a client that has logged in.
fn pool(proxy: &Arc<Proxy>, database: &str, user: &str) -> Arc<Pool> {
    let pool = proxy.pools.pool(database, user).unwrap();
    proxy.pools.label(&pool, database, user);
    pool
}

/// Runs requests of a template alone.
fn run(pool: &Pool, text: &str, units: usize) {
    let template = pool.shared.templates.prepared(text, &[0, 0]);
    (0..units).for_each(|_| pool.analysis(&template, 0).1.count_alone());
}

/// Runs requests until the template has a name, then `units` more.
fn run_named(pool: &Pool, text: &str, units: usize) {
    (0..NAMED_AFTER_REQUESTS).for_each(|_| run(pool, text, 1));
    run(pool, text, units);
}

/// The values of the lines that begin with `start`.
fn values(proxy: &Proxy, start: &str) -> Vec<u64> {
    let text = text(proxy).unwrap();
    let lines = text.lines().filter(|line| line.starts_with(start));
    lines
        .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
        .collect()
}

fn other(proxy: &Proxy) -> u64 {
    let start =
        r#"paceline_units_total{database="app",user="web",strategy="solo",template="other"}"#;
    values(proxy, start).into_iter().sum()
}

/// `NAMES_MAX` applies to all pools together.
#[test]
fn templates_without_a_name_are_counted_together() {
    let proxy = proxy();
    let batch = pool(&proxy, "app", "batch");
    let web = pool(&proxy, "app", "web");
    let templates = NAMES_MAX / 2 + 3;
    for n in 0..templates {
        for pool in [&batch, &web] {
            run_named(pool, &format!("SELECT n{n} FROM t"), 2);
        }
    }
    let units = values(&proxy, "paceline_units_total{");
    assert_eq!(units.len(), NAMES_MAX + 2);
    let unnamed = templates as u64 * NAMED_AFTER_REQUESTS;
    assert_eq!(other(&proxy), unnamed + 6);
    let whole = values(&proxy, "paceline_pool_units_total{");
    assert_eq!(whole, [unnamed + 2 * templates as u64; 2]);
}

/// Sums never decrease, even if a request still counts for a forgotten template, and its name is available again.
#[test]
fn forgotten_templates_count_as_other() {
    let proxy = proxy();
    let pool = pool(&proxy, "app", "web");
    let template = proxy.shared.templates.prepared("DELETE FROM held", &[]);
    run_named(&pool, &template.text, 0);
    let (_, held) = pool.analysis(&template, 0);
    let (mut all, mut others) = (NAMED_AFTER_REQUESTS, 0);
    for n in 0..3 * TEMPLATES_MAX {
        run(&pool, &format!("SELECT n{n} FROM t"), 1);
        held.count_alone();
        all += 2;
        if n % 250 == 0 {
            let now: u64 = values(&proxy, "paceline_units_total{").iter().sum();
            assert_eq!(now, all, "after {n}");
            assert_eq!(values(&proxy, "paceline_pool_units_total{"), [all]);
            assert!(other(&proxy) >= others, "after {n}");
            others = other(&proxy);
        }
    }
    assert!(others > TEMPLATES_MAX as u64);
    let newest = format!("SELECT n{} FROM t", 3 * TEMPLATES_MAX - 1);
    run_named(&pool, &newest, 1);
    assert!(text(&proxy).unwrap().contains(&newest));
}

#[test]
fn a_name_is_an_id_and_the_beginning_of_the_text() {
    let proxy = proxy();
    let pool = pool(&proxy, "a\"b\\c\nd", "web");
    run_named(&pool, &format!("SELECT\n 'secret', {}", "ä".repeat(200)), 1);
    let pool = r#"database="a\"b\\c\nd",user="web",strategy="solo""#;
    let short = format!("SELECT ?, {}…", "ä".repeat(110));
    // The id of a text must never change.
    let line = format!("paceline_units_total{{{pool},template=\"385cb5ac {short}\"}} 1\n");
    let text = text(&proxy).unwrap();
    assert!(text.contains(&line), "{line}{text}");
}

#[test]
fn pools_beyond_the_limit_are_one() {
    let proxy = proxy();
    for n in 0..POOLS_MAX + 2 {
        let pool = pool(&proxy, "app", &format!("u{n}"));
        run(&pool, "SELECT 1 FROM t", 1);
        pool.stats.sizes.count(Strategy::Fold, 3);
    }
    assert_eq!(
        values(&proxy, "paceline_pool_units_total{").len(),
        POOLS_MAX + 1
    );
    let of_other = |name: &str| {
        let start = format!("{name}{{database=\"other\",user=\"\"");
        values(&proxy, &start)
    };
    assert_eq!(of_other("paceline_pool_units_total"), [2]);
    assert_eq!(of_other("paceline_group_size_units_count"), [2]);
}

/// 32 silent connections would delay a health check until the process seems dead. Time is virtual: it advances while
/// everything waits.
#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut client, b"GET /health HTTP/1.1\r\nHost:").unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let server = Arc::new(MetricsServer {
        proxy: proxy(),
        scraping: Mutex::new(()),
    });
    let start = tokio::time::Instant::now();
    server.serve_connection(stream).await;
    assert!(start.elapsed() < CONNECTION_TIME_MAX / 2, "{start:?}");
}

/// Clients can name any database and user.
#[test]
fn pools_without_a_login_have_no_series() {
    let proxy = proxy();
    for n in 0..POOLS_MAX + 2 {
        proxy.pools.pool("app", &format!("bogus{n}")).unwrap();
    }
    let web = pool(&proxy, "app", "web");
    run(&web, "SELECT 1 FROM t", 1);
    assert_eq!(values(&proxy, "paceline_pool_units_total{"), [1]);
    let start = r#"paceline_pool_units_total{database="app",user="web"}"#;
    assert_eq!(values(&proxy, start), [1]);
}

#[test]
fn long_names_of_pools_are_truncated() {
    let proxy = proxy();
    pool(&proxy, &"ä".repeat(5_000), &"u".repeat(64));
    let (database, user) = ("ä".repeat(31), "u".repeat(63));
    let start = format!("paceline_pool_units_total{{database=\"{database}\",user=\"{user}\"}}");
    assert_eq!(values(&proxy, &start).len(), 1);
}

#[test]
fn every_metric_is_documented_and_written() {
    let page = include_str!("../../../../docs/metrics.md");
    let written = text(&proxy()).unwrap();
    for metric in &METRICS {
        let (suffix, kind) = match metric.metric_type.as_str() {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "info"),
            kind => ("", kind),
        };
        let labels = match metric.labels {
            [] => "–".to_owned(),
            labels => labels.join(", "),
        };
        let start = format!("| `{}{suffix}` | {kind} | ", metric.name);
        let end = format!(" | {labels} | {} |", metric.help);
        let rows = page.lines().filter(|row| row.starts_with(&start));
        assert_eq!(
            rows.filter(|row| row.ends_with(&end)).count(),
            1,
            "{start}…{end}"
        );
        let help = format!("# HELP {} {}.\n", metric.name, metric.help);
        assert!(written.contains(&help), "{help}");
    }
    let rows = page
        .lines()
        .filter(|row| row.starts_with("| `paceline_") || row.starts_with("| `process_"));
    assert_eq!(rows.count(), METRICS.len());
    assert_eq!(written.matches("# TYPE ").count(), METRICS.len());
    let limits = [
        format!("The first {POOLS_MAX} pools"),
        format!("at most {NAME_BYTES_MAX} bytes"),
        format!("The first {CODES_MAX} of a pool"),
        "At most 1,000 templates".to_owned(),
        format!("at most {CONNECTIONS_MAX} connections at a time"),
        format!("each for at most {} seconds", CONNECTION_TIME_MAX.as_secs()),
        format!("within {} second", HEAD_TIME_MAX.as_secs()),
    ];
    assert_eq!(NAMES_MAX, 1_000);
    for limit in limits {
        assert!(page.contains(&limit), "{limit}");
    }
}
