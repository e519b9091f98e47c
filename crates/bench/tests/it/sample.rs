//! Sample records.

use paceline_bench::{
    CheckResult, Conditions, Cost, Errors, FailoverResult, GroupSample, Latency, Machine, Ran,
    ReadsResult, Record, RunResult, ServerFacts, Trend, TrendPart, VERSION, WithinDeadline,
};

/// A round of `hot-row hinted` with `rate` updates per second and matching latencies.
pub(crate) fn ran(target: &str, clients: usize, round: usize, rate: f64) -> Record {
    let half = whole(clients as f64 / rate * 1e6);
    Record {
        version: VERSION,
        at_unix_seconds: 1_772_349_900 + round as u64 * 10,
        scenario: "hot-row".to_owned(),
        variant: "hinted".to_owned(),
        target: target.to_owned(),
        address: "postgres@127.0.0.1:5432/postgres".to_owned(),
        clients,
        round,
        conditions: conditions(),
        result: RunResult::Ran(Box::new(Ran {
            seconds: 10.0,
            units: whole(rate * 10.0),
            rate,
            latency: Latency {
                mean: half as f64 * 1.1,
                p50: half,
                p95: half * 2,
                p99: half * 3,
                p999: half * 8,
                max: half * 20,
            },
            errors: Default::default(),
            check: Some(CheckResult {
                holds: true,
                says: format!("{0} pieces are gone, {0} were acknowledged", rate * 10.0),
            }),
            cost: Cost {
                wal_bytes: Some(180_000.0 / rate.sqrt()),
                dead_rows: Some(match target {
                    "paceline" => 1.3 / clients as f64,
                    _ => 1.0,
                }),
                cpu_micros: Some(1_900_000.0 / rate),
            },
            groups: Vec::new(),
            interrupted: false,
            open_loop: None,
            within_deadline: None,
            failover: None,
            reads: None,
            trend: None,
        })),
        machine: Machine {
            cores: 8,
            processor: "Some Processor at 3.2 GHz".to_owned(),
            memory_mib: 32_768,
            system: "linux 6.1.0".to_owned(),
        },
        server: ServerFacts {
            version: "15.18".to_owned(),
            settings: [("fsync", "on"), ("shared_buffers", "256MB")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        },
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "figures of samples are small"
)]
fn whole(figure: f64) -> u64 {
    figure as u64
}

fn conditions() -> Conditions {
    Conditions {
        warmup_seconds: 2.0,
        duration_seconds: 10.0,
        rate: None,
        think_seconds: 0.0,
        protocol: "prepared".to_owned(),
        rows: None,
        full: false,
        seed: 1,
        threads: 2,
        stand: Vec::new(),
        command: "paceline bench hot-row --clients 1,8,64,256 --rounds 3".to_owned(),
    }
}

/// Changes to a sample record.
pub(crate) trait Changed: Sized {
    /// Sets scenario and variant.
    fn of(self, scenario: &str, variant: &str) -> Self;
    /// Adds samples of groups of about this size.
    fn in_groups(self, mean: f64) -> Self;
    /// Makes the check fail.
    fn broken(self, says: &str) -> Self;
    /// Adds failed turns.
    fn with_errors(self, sqlstate: &str, count: u64, first: &str) -> Self;
    /// Adds a failover that lost `missing` acknowledged writes, and a deadline that 3 of 4 requests met.
    fn after_failover(self, missing: u64) -> Self;
    /// Adds 2,000 checked reads, of which `stale` were stale, with this time of the primary for each.
    fn with_reads(self, stale: u64, on_replicas: u64, primary_cpu_micros: f64) -> Self;
    /// Adds a rate and a p99, in microseconds, of the first and of the last tenth of the time.
    fn with_trend(self, first: (f64, u64), last: (f64, u64)) -> Self;
    /// Makes the run fail.
    fn refused(self, why: &str) -> Self;
}

impl Changed for Record {
    fn of(mut self, scenario: &str, variant: &str) -> Self {
        self.scenario = scenario.to_owned();
        self.variant = variant.to_owned();
        self
    }

    fn in_groups(mut self, mean: f64) -> Self {
        let sample = |quarter: u32| GroupSample {
            second: f64::from(quarter) / 4.0,
            mean: mean * (1.0 + 0.1 * f64::from(quarter * 7 % 5) - 0.2),
        };
        figures(&mut self).groups = (1..40).map(sample).collect();
        self
    }

    fn broken(mut self, says: &str) -> Self {
        figures(&mut self).check = Some(CheckResult {
            holds: false,
            says: says.to_owned(),
        });
        self
    }

    fn with_errors(mut self, sqlstate: &str, count: u64, first: &str) -> Self {
        let first = first.to_owned();
        figures(&mut self)
            .errors
            .insert(sqlstate.to_owned(), Errors { count, first });
        self
    }

    fn after_failover(mut self, missing: u64) -> Self {
        let figures = figures(&mut self);
        figures.failover = Some(FailoverResult {
            pause: 250_000,
            longest_wait: 1_500_000,
            acknowledged: 10_000,
            missing,
            twice: 0,
            in_doubt: 8,
        });
        figures.within_deadline = Some(WithinDeadline {
            seconds: 1.0,
            requests: 4_000,
            answered: 3_000,
        });
        self
    }

    fn with_reads(mut self, stale: u64, on_replicas: u64, primary_cpu_micros: f64) -> Self {
        figures(&mut self).reads = Some(ReadsResult {
            checked: 2_000,
            stale,
            on_replicas: Some(on_replicas),
            primary_cpu_micros: Some(primary_cpu_micros),
        });
        self
    }

    fn with_trend(mut self, first: (f64, u64), last: (f64, u64)) -> Self {
        let part = |(rate, p99)| TrendPart {
            rate,
            p99: Some(p99),
        };
        figures(&mut self).trend = Some(Trend {
            first: part(first),
            last: part(last),
        });
        self
    }

    fn refused(mut self, why: &str) -> Self {
        let why = why.to_owned();
        self.result = RunResult::Failed { why };
        self.server = ServerFacts::default();
        self
    }
}

fn figures(record: &mut Record) -> &mut Ran {
    match &mut record.result {
        RunResult::Ran(ran) => ran,
        RunResult::Failed { .. } => unreachable!("samples ran before they are changed"),
    }
}

/// Three rounds with slightly different rates.
pub(crate) fn rounds(target: &str, clients: usize, rate: f64) -> Vec<Record> {
    let rates = [0.96, 1.0, 1.05].map(|factor| rate * factor);
    let rounds = (1..).zip(rates);
    rounds
        .map(|(round, rate)| ran(target, clients, round, rate))
        .collect()
}

/// Hot row with up to 256 clients on three targets, and two other scenarios; all checks hold.
pub(crate) fn good_day() -> Vec<Record> {
    let mut all = Vec::new();
    let rates = [
        (1, [5_090.0, 3_180.0, 3_340.0]),
        (8, [3_870.0, 4_100.0, 17_400.0]),
        (64, [1_900.0, 4_470.0, 61_000.0]),
        (256, [1_030.0, 4_380.0, 118_000.0]),
    ];
    for (clients, [direct, pgbouncer, paceline]) in rates {
        all.extend(rounds("direct", clients, direct));
        all.extend(rounds("pgbouncer", clients, pgbouncer));
        let grouped = rounds("paceline", clients, paceline).into_iter();
        all.extend(grouped.map(|record| match clients {
            1 => record,
            _ => record.in_groups(clients as f64 * 0.7),
        }));
    }
    let guarded: Vec<Record> = all
        .iter()
        .cloned()
        .map(|record| record.of("hot-row", "guarded"))
        .collect();
    all.extend(guarded);
    all.extend(single("queue", "cte", 6_600.0, 71_200.0));
    all.extend(single("edges", "upsert", 7_900.0, 6_200.0));
    all
}

/// Rounds with 256 clients on two targets.
pub(crate) fn single(scenario: &str, variant: &str, direct: f64, paceline: f64) -> Vec<Record> {
    let records = rounds("direct", 256, direct).into_iter();
    let grouped = rounds("paceline", 256, paceline).into_iter();
    let records = records.chain(grouped.map(|record| record.in_groups(140.0)));
    records.map(|record| record.of(scenario, variant)).collect()
}

/// Records with every kind of problem, and with names that contain markup.
pub(crate) fn bad_day() -> Vec<Record> {
    let mut all = good_day();
    let lost = "71,199 orders were taken, 71,200 were acknowledged: one is <b>lost</b>";
    all.push(
        ran("paceline", 256, 4, 71_000.0)
            .of("queue", "cte")
            .broken(lost),
    );
    let crowd = "53300: sorry, too many clients already & nobody leaves";
    let storm = |record: Record| record.of("storm", "two-updates");
    all.push(storm(ran("direct", 8_000, 1, 1.0).refused(crowd)));
    all.push(storm(ran("direct", 8_000, 2, 1.0).refused(crowd)));
    all.push(storm(ran("paceline", 8_000, 1, 21_400.0)).with_errors(
        "57014",
        12_345,
        "canceling statement due to user request",
    ));
    let evil =
        "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";
    let name =
        "a-target-whose-name-is-so-long-that-it-fits-nowhere-and-cannot-be-broken-at-a-space";
    let mut odd = ran(name, 64, 1, 900.0)
        .of(evil, "\"quoted' & <i>slanted</i>")
        .with_errors("XX000", 3, evil);
    odd.server.version = "18.1".to_owned();
    odd.server
        .settings
        .insert("fsync".to_owned(), "off".to_owned());
    odd.conditions.command = format!("paceline bench '{evil}'");
    odd.address = "postgres@/var/run/postgresql:5432/postgres".to_owned();
    all.push(ran("direct", 64, 1, 800.0).of(evil, "\"quoted' & <i>slanted</i>"));
    all.push(odd);
    all
}
