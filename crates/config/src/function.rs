//! Functions that an operator declares: how Paceline groups their calls, and which server executes them. Only a database shows whether
//! they exist.

use paceline_sql::Name;

/// A function, and the treatment of its calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// The function. Without a schema, the search path determines it.
    pub function: Name,
    /// The kind of the declaration.
    pub role: Role,
}

/// The kind of a declared function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `[[take]]`: it returns each row of a queue to one caller only. Without a limit argument, calls only share a
    /// transaction.
    Take {
        /// The number, from 1, of the argument that limits the number of rows.
        limit_argument: Option<usize>,
    },
    /// `[[group]]`: its calls share a transaction.
    Group,
    /// `[[replica]]`: it only reads, so replicas may execute it.
    Replica,
    /// `[[primary]]`: only the primary executes it.
    Primary,
}

impl Role {
    /// The argument that limits the number of rows; `None`: calls only share a transaction.
    pub fn limit(self) -> Option<usize> {
        match self {
            Role::Take { limit_argument } => limit_argument,
            Role::Group | Role::Replica | Role::Primary => None,
        }
    }

    /// Whether calls of the function are grouped.
    pub fn groups(self) -> bool {
        match self {
            Role::Take { .. } | Role::Group => true,
            Role::Replica | Role::Primary => false,
        }
    }
}
