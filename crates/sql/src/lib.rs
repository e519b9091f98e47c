//! paceline-sql
