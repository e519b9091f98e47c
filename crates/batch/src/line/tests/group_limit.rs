//! The limit of groups in flight: which requests it holds back, and how good the number is that is found.

use super::super::{Limits, LineKey, LockOutcome, NextStep};
use super::fixture::LineFixture;
use super::simulation::{Scenario, Simulation};
use super::{WaitSpec, fold, limits, read};
use crate::group_limit::{FlightId, GroupsMax, LimitReason};
use paceline_testing::seed;
use std::time::Duration;

/// Limits that a configuration may have.
const FIXED: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Number of scenarios that a run without `PACELINE_SCENARIOS` draws from the grid.
const SAMPLE: usize = 3;

/// Minimum power of the limit that the search finds, as a share of the best one of [`FIXED`]: in each scenario, and in the mean.
const LEAST: (f64, f64) = (0.5, 0.8);

/// From one core and a fast disk to 64 cores and commits of 5 ms.
fn grid() -> Vec<Scenario> {
    let mut grid = Vec::new();
    for cores in [1.0, 2.0, 8.0, 64.0] {
        for flush in [0.0, 100e-6, 1e-3, 5e-3] {
            for (statement, row) in [(100e-6, 10e-6), (30e-6, 60e-6), (50e-6, 300e-6)] {
                for network in [50e-6, 1e-3] {
                    for clients in [4, 16, 64, 256] {
                        for rows in [1_000_000, 20] {
                            grid.push(Scenario {
                                cores,
                                flush,
                                statement,
                                row,
                                network,
                                clients,
                                rows,
                            });
                        }
                    }
                }
            }
        }
    }
    grid
}

/// Requests per second with the best configured limit, and with the one that is found.
fn compare(scenario: Scenario, seed: u64) -> (f64, f64) {
    let fixed = |limit: usize| {
        let mut simulation = Simulation::new(seed).with(scenario, GroupsMax::Fixed(limit));
        simulation.run(0, 0.5, 5_000);
        simulation.run(0, 2.0, 20_000)
    };
    let best = FIXED.into_iter().map(fixed).fold(0.0, f64::max);
    let mut simulation = Simulation::new(seed).with(scenario, GroupsMax::Auto);
    simulation.run(0, 2.0, 80_000);
    (best, simulation.run(0, 2.0, 40_000))
}

/// `PACELINE_SCENARIOS=all` examines the whole grid: `make pace`.
#[test]
fn the_limit_that_is_found_serves_about_as_well_as_the_best_one() {
    let seed = seed();
    let grid = grid();
    let all = std::env::var("PACELINE_SCENARIOS").is_ok_and(|which| which == "all");
    let count = if all { grid.len() } else { SAMPLE };
    let first = usize::try_from(seed % grid.len() as u64).expect("a place in the grid");
    // A prime: the sample is spread over the grid.
    let sample = (0..count).map(|n| grid[(first + n * 101) % grid.len()]);
    let mut shares = Vec::new();
    for scenario in sample {
        let (best, found) = compare(scenario, seed);
        shares.push(found / best);
        println!("{:.2} of {best:.0} per second: {scenario:?}", found / best);
    }
    shares.sort_by(f64::total_cmp);
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let good = shares.iter().filter(|share| **share >= 0.9).count();
    println!(
        "mean {mean:.3}, least {:.2}, {good} of {count} within a tenth",
        shares[0]
    );
    assert!(shares[0] >= LEAST.0 && mean >= LEAST.1, "{shares:?}");
}

const TWO_CORES: Scenario = Scenario {
    cores: 2.0,
    flush: 100e-6,
    statement: 100e-6,
    row: 200e-6,
    network: 50e-6,
    clients: 64,
    rows: 1_000_000,
};

#[test]
fn the_limit_follows_the_load_within_two_seconds() {
    let seed = seed();
    let rate = |groups: GroupsMax, clients: [usize; 2]| {
        let scenario = Scenario {
            clients: clients[0],
            ..TWO_CORES
        };
        let mut simulation = Simulation::new(seed).with(scenario, groups);
        simulation.run(0, 3.0, u64::MAX);
        simulation.set_clients(0, clients[1]);
        simulation.run(0, 2.0, u64::MAX);
        simulation.run(0, 1.0, u64::MAX)
    };
    for clients in [[4, 128], [128, 4]] {
        let best = FIXED.map(|limit| rate(GroupsMax::Fixed(limit), clients));
        let best = best.into_iter().fold(0.0, f64::max);
        let found = rate(GroupsMax::Auto, clients);
        println!("{clients:?}: {:.2} of {best:.0}", found / best);
        assert!(found >= 0.8 * best, "{clients:?}: {found} of {best}");
    }
}

#[test]
fn a_stall_of_the_server_does_not_change_the_limit_for_long() {
    let mut simulation = Simulation::new(seed()).with(TWO_CORES, GroupsMax::Auto);
    simulation.run(0, 2.0, u64::MAX);
    let before = simulation.run(0, 1.0, u64::MAX);
    simulation.stall = (simulation.now, simulation.now + 10.0);
    simulation.run(0, 12.0, u64::MAX);
    let after = simulation.run(0, 1.0, u64::MAX);
    println!("stall {:.2} of {before:.0}", after / before);
    assert!(after >= 0.8 * before, "{after} after {before}");
}

#[test]
fn two_pools_on_one_server_find_limits_that_serve_both() {
    let seed = seed();
    let rate = |groups: GroupsMax| {
        let mut simulation = Simulation::new(seed)
            .with(TWO_CORES, groups)
            .with(TWO_CORES, groups);
        simulation.run(0, 4.0, u64::MAX);
        let served = simulation.served(0) + simulation.served(1);
        simulation.run(0, 2.0, u64::MAX);
        (simulation.served(0) + simulation.served(1) - served) as f64 / 2.0
    };
    let best = FIXED.map(|limit| rate(GroupsMax::Fixed(limit)));
    let best = best.into_iter().fold(0.0, f64::max);
    let found = rate(GroupsMax::Auto);
    println!("{:.2} of {best:.0}", found / best);
    assert!(found >= 0.75 * best, "{found} of {best}");
}

/// A line whose limit is 2.
fn two_groups() -> LineFixture {
    LineFixture::new(Limits {
        groups_max: GroupsMax::Fixed(2),
        connections_max: 8,
        ..limits(64, 16, 0)
    })
}

fn flight_of_next(fixture: &mut LineFixture, free: usize) -> Option<(FlightId, usize)> {
    match fixture.line.next(fixture.now, free)? {
        NextStep::Group(group) => Some((group.flight, group.entries.len())),
        other => panic!("no group: {other:?}"),
    }
}

#[test]
fn while_the_limit_is_reached_only_requests_without_a_group_leave() {
    let mut fixture = two_groups();
    let mut flights = Vec::new();
    for row in 0..2 {
        fixture.submit(fold(row), "a");
        flights.extend(flight_of_next(&mut fixture, 1));
    }
    fixture.submit(fold(2), "b");
    assert!(!fixture.line.has_next(fixture.now));
    assert!(fixture.line.has_ready());
    assert_eq!(flight_of_next(&mut fixture, 1), None);
    assert!(fixture.line.start_at_once(fixture.now, &fold(3)).is_none());
    assert_eq!(
        fixture
            .line
            .start_at_once(fixture.now, &WaitSpec::default()),
        Some(FlightId::UNCOUNTED)
    );
    fixture.submit(WaitSpec::default(), "c");
    assert_eq!(
        flight_of_next(&mut fixture, 1),
        Some((FlightId::UNCOUNTED, 1))
    );
    fixture.line.flight_ended(fixture.now, flights[0].0);
    assert!(fixture.line.has_next(fixture.now));
    assert!(flight_of_next(&mut fixture, 1).is_some());
}

#[test]
fn a_group_that_takes_long_holds_back_no_other() {
    let mut fixture = two_groups();
    for row in 0..3 {
        fixture.submit(fold(row), "a");
        if row < 2 {
            flight_of_next(&mut fixture, 1).expect("a group leaves");
        }
    }
    assert_eq!(flight_of_next(&mut fixture, 1), None);
    let due = fixture.line.due().expect("the groups will have taken long");
    assert!(due <= fixture.now + Duration::from_millis(5));
    fixture.now = due;
    fixture.line.tick(due);
    // Without this, the timer of a pool without a free connection would never sleep.
    let next = fixture.line.due();
    assert!(next.is_none_or(|next| next > due));
    assert!(fixture.line.has_next(due));
    assert!(flight_of_next(&mut fixture, 1).is_some());
}

/// Two groups start, and a third must wait: for at most the time returned. Each takes `took`.
fn wait_of_a_third(fixture: &mut LineFixture, took: Duration) -> Duration {
    let mut two = Vec::new();
    for row in 0..3 {
        fixture.submit(fold(row), "a");
        two.extend(flight_of_next(fixture, 1));
    }
    let due = fixture.line.due().expect("the limit is reached");
    let wait = due - fixture.now;
    fixture.now += took;
    two.iter()
        .for_each(|(id, _)| fixture.line.flight_ended(fixture.now, *id));
    let third = flight_of_next(fixture, 1).expect("the third group leaves");
    fixture.now += took;
    fixture.line.flight_ended(fixture.now, third.0);
    for row in 0..3 {
        fixture
            .line
            .release_rows(fixture.now, LineKey(row), LockOutcome::Free);
    }
    wait
}

#[test]
fn groups_that_have_waited_for_a_lock_hold_back_no_later_ones() {
    let mut fixture = two_groups();
    let (usual, blocked) = (Duration::from_millis(1), Duration::from_secs(3));
    for took in [usual, blocked, usual, blocked, usual] {
        for _ in 0..2 {
            let wait = wait_of_a_third(&mut fixture, took);
            assert!(wait < Duration::from_millis(200), "{wait:?}");
        }
    }
}

#[test]
fn requests_wait_for_two_seconds_at_most_for_groups_that_never_end_in_time() {
    let mut fixture = two_groups();
    for _ in 0..50 {
        let wait = wait_of_a_third(&mut fixture, Duration::from_secs(10));
        assert!(wait < Duration::from_secs(2), "{wait:?}");
    }
}

#[test]
fn on_a_server_that_becomes_slower_groups_count_again_soon() {
    let mut fixture = two_groups();
    let waits = |fixture: &mut LineFixture, took| -> Vec<Duration> {
        (0..10).map(|_| wait_of_a_third(fixture, took)).collect()
    };
    waits(&mut fixture, Duration::from_millis(1));
    for took in [20, 80].map(Duration::from_millis) {
        let waits = waits(&mut fixture, took);
        assert!(waits[9] > took, "{waits:?}");
    }
}

#[test]
fn quick_groups_of_another_template_do_not_make_slow_ones_overdue() {
    let mut fixture = two_groups();
    let slow = Duration::from_millis(40);
    let mut waits = Vec::new();
    for _ in 0..10 {
        waits.push(wait_of_a_third(&mut fixture, slow));
        for _ in 0..50 {
            let flight = fixture.line.start_at_once(fixture.now, &read());
            let flight = flight.expect("nothing is in flight");
            fixture.now += Duration::from_millis(1);
            fixture.line.flight_ended(fixture.now, flight);
        }
    }
    assert!(waits[9] > slow, "{waits:?}");
}

#[test]
fn requests_are_divided_among_the_groups_that_may_start() {
    let mut fixture = two_groups();
    for row in 0..7 {
        fixture.submit(fold(row), "ab");
    }
    let sizes: Vec<usize> = std::iter::from_fn(|| flight_of_next(&mut fixture, 8))
        .map(|(_, requests)| requests)
        .collect();
    assert_eq!(sizes, [8, 6], "the requests on one row leave together");
    let mut fixture = two_groups();
    for row in 0..7 {
        fixture.submit(fold(row), "a");
    }
    assert_eq!(
        flight_of_next(&mut fixture, 1).map(|(_, requests)| requests),
        Some(7)
    );
}

#[test]
fn a_single_client_causes_no_search() {
    let mut fixture = LineFixture::new(Limits {
        groups_max: GroupsMax::Auto,
        connections_max: 8,
        ..limits(64, 16, 0)
    });
    for _ in 0..10_000 {
        let flight = fixture
            .line
            .start_at_once(fixture.now, &fold(1))
            .expect("nothing is in flight");
        fixture.now += Duration::from_micros(100);
        fixture.line.flight_ended(fixture.now, flight);
        fixture
            .line
            .release_rows(fixture.now, LineKey(1), LockOutcome::Free);
        fixture.now += Duration::from_micros(50);
    }
    let limit = fixture.line.group_limit();
    assert_eq!((limit.limit(), limit.reason()), (2, LimitReason::Initial));
}
