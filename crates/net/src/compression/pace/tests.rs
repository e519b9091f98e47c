//! Links and compressors of given speeds.

use super::*;

/// Connections that always have something to write, and wait until it is transmitted. No socket is ever full.
struct Link {
    pace: Pace,
    now: Instant,
    /// Bytes per second that the link transmits.
    speed: f64,
    /// Bytes per second that level 1 compresses; each doubling of the level halves it.
    compressor: f64,
    /// The time for each effort.
    spent: Vec<(Effort, f64)>,
}

const CHUNK: usize = 65_536;

/// The ratio of plain to compressed bytes.
const RATIO: usize = 5;

const MINUTE: Duration = Duration::from_secs(60);

impl Link {
    fn new(level_max: i32, speed: f64, compressor: f64) -> Self {
        Self {
            pace: Pace::new(level_max),
            now: Instant::now(),
            speed,
            compressor,
            spent: Vec::new(),
        }
    }

    fn write_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            let effort = self.pace.effort(self.now);
            let (compressing, sent) = match effort {
                Effort::Store => (0.0, CHUNK),
                Effort::Level(level) => {
                    let time = CHUNK as f64 * f64::from(level) / self.compressor;
                    (time, CHUNK / RATIO)
                }
            };
            let time = compressing.max(sent as f64 / self.speed);
            let compressing = Duration::from_secs_f64(compressing);
            self.pace.wrote(compressing, CHUNK);
            self.now += Duration::from_secs_f64(time);
            self.spent.push((effort, time));
        }
    }

    /// The share of the time with this effort.
    fn share(&self, wanted: Effort) -> f64 {
        let all: f64 = self.spent.iter().map(|(_, time)| time).sum();
        let wanted = self.spent.iter().filter(|(effort, _)| *effort == wanted);
        wanted.map(|(_, time)| time).sum::<f64>() / all
    }
}

#[test]
fn a_slow_link_gets_the_configured_level() {
    let mut link = Link::new(3, 12.5e6, 400e6);
    link.write_for(MINUTE);
    assert_eq!(link.share(Effort::Level(3)), 1.0);
}

#[test]
fn a_link_that_is_faster_than_the_compressor_is_not_slowed_down() {
    for speed in [1e9, 5e9] {
        let mut link = Link::new(9, speed, 400e6);
        link.write_for(MINUTE);
        let share = link.share(Effort::Store);
        assert!(share > 0.94, "{share}");
    }
}

/// The compressor is the bottleneck at level 1, but the link would be a narrower one without it.
#[test]
fn level_1_stays_where_the_link_is_slower_without_it() {
    let mut link = Link::new(1, 125e6, 400e6);
    link.write_for(MINUTE);
    let share = link.share(Effort::Level(1));
    assert!(share > 0.98, "{share}");
}

#[test]
fn the_level_is_halved_until_the_compressor_takes_at_most_half_of_a_processor() {
    let mut link = Link::new(16, 18e6, 400e6);
    link.write_for(Duration::from_secs(10));
    assert_eq!(link.pace.effort(link.now), Effort::Level(2));
    // A rare message costs little at any level.
    for _ in 0..10 {
        link.now += Duration::from_secs(1);
        link.pace.effort(link.now);
    }
    assert_eq!(link.pace.effort(link.now), Effort::Level(16));
}

#[test]
fn a_link_that_became_slow_is_compressed_again() {
    let mut link = Link::new(3, 5e9, 400e6);
    link.write_for(Duration::from_secs(5));
    assert_eq!(link.pace.effort(link.now), Effort::Store);
    link.speed = 12.5e6;
    link.write_for(STORE_FOR + Duration::from_secs(5));
    let effort = link.pace.effort(link.now);
    assert!(matches!(effort, Effort::Level(2..=3)), "{effort:?}");
}
