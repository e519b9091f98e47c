//! paceline-line
