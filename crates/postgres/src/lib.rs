//! paceline-postgres
