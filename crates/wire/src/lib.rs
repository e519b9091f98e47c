//! paceline-wire
