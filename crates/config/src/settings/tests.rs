//! Every key of `[paceline]`: its value, `--set`, and the documentation that must match.

use std::time::Duration;

use super::*;
use crate::config::Config;

fn read(text: &str) -> Config {
    Config::from_toml(text, "paceline.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(text: &str) -> String {
    match Config::from_toml(text, "paceline.toml") {
        Ok(config) => panic!("was read as {config:?}\n{text}"),
        Err(error) => error.to_string(),
    }
}

fn set(assignment: &str) -> Result<Config, String> {
    let mut config = Config::default();
    config.set(assignment).map_err(|error| error.to_string())?;
    Ok(config)
}

fn set_refused(assignment: &str) -> String {
    set(assignment).expect_err(assignment)
}

#[test]
fn what_a_key_shows_is_read_back() {
    let mut other = Settings::default();
    other.listening.unix_socket_dir = Some("/run".into());
    other.listening.metrics_listen = Some("[::1]:9127".parse().unwrap());
    other.timeouts.server_connect_timeout = Duration::from_millis(1500);
    for settings in [Settings::default(), other] {
        let lines: Vec<String> = keys()
            .map(|key| format!("{} = {}", key.name, key.show(&settings)))
            .collect();
        assert_eq!(
            read(&format!("[paceline]\n{}", lines.join("\n"))).paceline,
            settings
        );
    }
}

#[test]
fn values_of_another_kind_are_refused() {
    for (line, expected) in [
        (
            "default_pool_size = \"20\"",
            "\"20\" is not a whole number; write digits without quotes",
        ),
        ("default_pool_size = 2.5", "2.5 is not a whole number"),
        (
            "default_pool_size = 0",
            "0 is outside its limits; write a value from 1 to 10000",
        ),
        ("default_pool_size = 10001", "10001 is outside its limits"),
        ("default_pool_size = -1", "-1 is outside its limits"),
        ("default_pool_size = 0x10", "not decimal"),
        ("group_size_max = 1", "write a value from 2 to 10000"),
        (
            "hotspot = \"on\"",
            "\"on\" is not a switch; write true or false, without quotes",
        ),
        (
            "query_wait_timeout = -1",
            "-1 is not a duration; write seconds",
        ),
        ("query_wait_timeout = \"2 weeks\"", "is not a duration"),
        (
            "query_wait_timeout = \"366d\"",
            "write a value from 0s to 8760h",
        ),
        (
            "hotspot_update_max_wait_time = \"2s\"",
            "write a value from 0us to 1s",
        ),
        ("hotspot_update_max_wait_time = true", "write microseconds"),
        (
            "listen = 6432",
            "6432 is not an address and port; write 127.0.0.1:6432 or [::1]:6432",
        ),
        ("unix_socket_dir = \"run\"", "not an absolute path"),
        ("listen = []", "a list is not an address"),
        (
            "metrics_listen = 9127",
            "9127 is not an address and port; write 127.0.0.1:9127, or \"\" for none",
        ),
        (
            "metrics_listen = \"metrics:9127\"",
            "\"metrics:9127\" is not an address and port",
        ),
    ] {
        let message = refused(&format!("[paceline]\n{line}"));
        let key = line.split_once(' ').unwrap().0;
        assert!(
            message.starts_with(&format!("paceline.toml:2: {key}: ")) && message.contains(expected),
            "{line}: {message}"
        );
    }
}

#[test]
fn set_takes_every_key() {
    for key in keys() {
        let value = key.show(&Settings::default());
        let config = set(&format!("{}={}", key.name, value.trim_matches('"')));
        assert_eq!(config, Ok(Config::default()), "{}", key.name);
    }
}

#[test]
fn set_reads_switches_in_every_spelling() {
    for (text, on) in [
        ("on", true),
        ("1", true),
        ("YES", true),
        ("true", true),
        ("off", false),
        ("0", false),
        ("no", false),
        ("False", false),
    ] {
        assert_eq!(
            set(&format!("pipeline={text}")).map(|config| config.paceline.grouping.pipeline),
            Ok(on),
            "{text}"
        );
    }
    assert_eq!(
        set_refused("pipeline=maybe"),
        "--set pipeline=maybe: pipeline: maybe is not a switch; write on or off"
    );
}

#[test]
fn set_reads_numbers_and_durations_without_quotes() {
    assert_eq!(
        set(" worker_threads = 4 ").map(|config| config.paceline.operation.worker_threads),
        Ok(Some(4))
    );
    let wait = |text| set(text).map(|config| config.paceline.grouping.hotspot_update_max_wait_time);
    assert_eq!(
        wait("hotspot_update_max_wait_time=250"),
        Ok(Duration::from_micros(250))
    );
    assert_eq!(
        wait("hotspot_update_max_wait_time=2ms"),
        Ok(Duration::from_millis(2))
    );
}

/// Other machines may read metrics if the operator permits it.
#[test]
fn metrics_may_be_served_to_other_machines() {
    let listen = |text: &str| {
        let config = set(&format!("metrics_listen={text}"));
        config.map(|config| config.paceline.listening.metrics_listen)
    };
    for (text, expected) in [
        ("0.0.0.0:9127", "0.0.0.0:9127"),
        ("[::]:0", "[::]:0"),
        ("localhost:9127", "127.0.0.1:9127"),
    ] {
        assert_eq!(listen(text), Ok(Some(expected.parse().unwrap())), "{text}");
    }
    assert_eq!(listen(""), Ok(None));
    assert_eq!(
        listen("9127").unwrap_err(),
        "--set metrics_listen=9127: metrics_listen: 9127 is not an address and port; write 127.0.0.1:9127, or \"\" for none"
    );
}

#[test]
fn set_says_what_is_wrong() {
    assert!(set_refused("pipeline").contains("write --set key=value"));
    assert!(
        set_refused("pipelin=on")
            .contains("unknown key \"pipelin\" in [paceline]; did you mean \"pipeline\"?")
    );
    assert!(set_refused("worker_threads=").contains("nothing is not a whole number"));
    assert!(set_refused("auth_type=pam").contains("pam is none of: trust, md5, scram-sha-256"));
}

#[test]
fn a_password_is_not_shown() {
    let password = key("monitor_password").unwrap();
    assert_eq!((password.shown("s3cret"), password.shown("")), ("***", ""));
    let config = set("monitor_password=s3cret").unwrap();
    assert_eq!(password.plain(&config.paceline), "***");
    assert_eq!(key("monitor_user").unwrap().shown("mon"), "mon");
}

#[test]
fn spans_go_to_a_url_without_tls() {
    let endpoint = |url: &str| {
        let config = set(&format!("otlp_endpoint={url}"));
        config.map(|config| config.paceline.traces.otlp_endpoint)
    };
    for (written, url) in [
        (
            "http://127.0.0.1:4318/v1/traces",
            "http://127.0.0.1:4318/v1/traces",
        ),
        ("http://collector", "http://collector/v1/traces"),
        ("http://[::1]:4318/", "http://[::1]:4318/v1/traces"),
        ("http://collector/otlp?key=a", "http://collector/otlp?key=a"),
        ("", ""),
    ] {
        assert_eq!(endpoint(written).unwrap(), url, "{written}");
    }
    for written in [
        "https://collector",
        "collector:4318",
        "http://",
        "http:///v1/traces",
        "http://user@collector",
        "http://collector:0",
        "http://collector/a b",
        "http://collector/a#b",
    ] {
        let error = endpoint(written).unwrap_err();
        assert!(error.contains("is not the URL of a collector"), "{error}");
    }
}

#[test]
fn a_ratio_is_from_0_to_1() {
    let ratio = |written: &str| {
        let config = read(&format!("[paceline]\notlp_sample_ratio = {written}"));
        config.paceline.traces.otlp_sample_ratio
    };
    assert_eq!(
        ["0", "1", "0.25", "\"0.5\""].map(ratio),
        [0.0, 1.0, 0.25, 0.5]
    );
    for written in ["1.5", "-0.1"] {
        let error = set_refused(&format!("otlp_sample_ratio={written}"));
        assert!(error.contains("write a value from 0.0 to 1.0"), "{error}");
    }
    for written in ["half", "NaN", ""] {
        let error = set_refused(&format!("otlp_sample_ratio={written}"));
        assert!(error.contains("is not a number"), "{error}");
    }
}
