//! Chooses the effort of a link's compressor: a level, or none. Time is an argument.
//!
//! A compressor that is slower than the link slows the link down. Every half second, if the compressor takes more than half of a processor,
//! its level is halved; if it takes little, the level is doubled, up to the configured one. If level 1 takes too much, blocks are stored
//! for a second, and the faster of both is kept for a while. Only the number of transmitted bytes shows which is faster: sockets have large
//! buffers, and connections that wait for each other never fill them.

use std::time::{Duration, Instant};

/// Time between two decisions.
const PERIOD: Duration = Duration::from_millis(500);

/// Share of a processor above which the level is halved.
const SHARE_MAX: f64 = 0.5;

/// Share of a processor below which the level is doubled.
const SHARE_MIN: f64 = 0.2;

/// For so long, blocks are stored because that was faster than level 1.
const STORE_FOR: Duration = Duration::from_secs(20);

/// For so long, level 1 is kept because that was faster than to store blocks.
const COMPRESS_FOR: Duration = Duration::from_secs(60);

/// The treatment of a block by the compressor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// Nothing.
    Store,
    /// It compresses at this level of zstd.
    Level(i32),
}

/// The last decision.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Compresses at this level.
    Level(i32),
    /// Stores blocks, and does not evaluate the result yet: buffers may take all bytes that are sent. Level 1 has transmitted this many
    /// bytes per second.
    Settling { compressed: f64 },
    /// Stores blocks, and compares the result.
    Comparing { compressed: f64 },
    /// Stores blocks until then.
    Storing { until: Instant },
}

/// The work since the last decision.
#[derive(Debug, Default)]
struct Period {
    began: Option<Instant>,
    /// Processor time of the compressor.
    compressing: Duration,
    /// Bytes before compression.
    plain: usize,
}

/// The effort of a link's compressor.
#[derive(Debug)]
pub(super) struct Pace {
    level_max: i32,
    state: State,
    period: Period,
    /// Until then, level 1 is not compared again.
    compared_until: Option<Instant>,
}

impl Pace {
    /// Begins at the configured level.
    pub(super) fn new(level_max: i32) -> Self {
        Self {
            level_max,
            state: State::Level(level_max),
            period: Period::default(),
            compared_until: None,
        }
    }

    /// The effort for what is written now.
    pub(super) fn effort(&mut self, now: Instant) -> Effort {
        let began = *self.period.began.get_or_insert(now);
        let elapsed = now.saturating_duration_since(began);
        if elapsed >= PERIOD {
            self.state = self.decide(elapsed.as_secs_f64(), now);
            self.period = Period {
                began: Some(now),
                ..Period::default()
            };
        }
        match self.state {
            State::Level(level) => Effort::Level(level),
            State::Settling { .. } | State::Comparing { .. } | State::Storing { .. } => {
                Effort::Store
            }
        }
    }

    /// Notes that `plain` bytes were written, and took `time` of a processor.
    pub(super) fn wrote(&mut self, time: Duration, plain: usize) {
        self.period.compressing += time;
        self.period.plain += plain;
    }

    fn decide(&mut self, elapsed: f64, now: Instant) -> State {
        let share = self.period.compressing.as_secs_f64() / elapsed;
        let rate = self.period.plain as f64 / elapsed;
        match self.state {
            State::Level(1) if share > SHARE_MAX => match self.compared_until {
                Some(until) if now < until => State::Level(1),
                _ => State::Settling { compressed: rate },
            },
            State::Level(level) if share > SHARE_MAX => State::Level(level / 2),
            State::Level(level) if share < SHARE_MIN => {
                State::Level((2 * level).min(self.level_max))
            }
            State::Settling { compressed } => State::Comparing { compressed },
            State::Comparing { compressed } if rate > compressed => State::Storing {
                until: now + STORE_FOR,
            },
            State::Comparing { .. } => {
                self.compared_until = Some(now + COMPRESS_FOR);
                State::Level(1)
            }
            State::Storing { until } if now >= until => State::Level(1),
            same => same,
        }
    }
}

#[cfg(test)]
mod tests;
