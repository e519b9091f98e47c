//! Functions that an operator declares, and how their calls travel together. Only a database can tell whether they exist.

use paceline_sql::Name;

/// A function, and how calls of it travel together.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// The function; without a schema, the one that the search path shows.
    pub function: Name,
    /// What it is declared as.
    pub role: Role,
}

/// What a function is declared as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `[[take]]`: it returns rows of a queue that no other caller gets. If no argument says how many, its calls only share a
    /// transaction.
    Take {
        /// The number, from 1, of the argument that says how many rows.
        limit_argument: Option<usize>,
    },
    /// `[[group]]`: its calls share a transaction.
    Group,
}

impl Role {
    /// The argument that says how many rows one call shall take for many; `None`: calls only share a transaction.
    pub fn limit(self) -> Option<usize> {
        match self {
            Role::Take { limit_argument } => limit_argument,
            Role::Group => None,
        }
    }
}
