//! How clients prove their identity.

use super::form::{choice, file, switch, text, timeout};
use super::key::section;
use crate::words::words;
use std::path::PathBuf;
use std::time::Duration;

/// PgBouncer's query for the secret of a user that the file of users does not know.
const AUTH_QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin";

section! {
    /// How clients prove their identity.
    pub struct Login {
        /// What a client must prove to log in; see docs/login.md
        auth_type: AuthType = AuthType::Trust, choice::<AuthType>(), pgbouncer("md5");
        /// Whether auth_type trust and any also accept clients of other machines, which then need no password
        auth_trust_remote: bool = false, switch();
        /// File of users and their secrets, PgBouncer's userlist.txt; "" for none
        auth_file: Option<PathBuf> = None, file(), pgbouncer("");
        /// File of rules in the format of pg_hba.conf, for auth_type hba; "" for none
        auth_hba_file: Option<PathBuf> = None, file(), pgbouncer("");
        /// File of the maps that rules name, in the format of pg_ident.conf; "" for none
        auth_ident_file: Option<PathBuf> = None, file(), pgbouncer("");
        /// The user as whom Paceline queries the server for secrets that auth_file does not contain; "" disables this
        auth_user: String = String::new(), text(), pgbouncer("");
        /// The query by which auth_user looks up the user $1; returns one row with the name and the secret. Write
        /// schemas: the search_path is pg_catalog
        auth_query: String = AUTH_QUERY.to_owned(), text(), pgbouncer(AUTH_QUERY);
        /// The database, as clients name it, in which auth_query runs; "" for the client's own
        auth_dbname: String = String::new(), text(), pgbouncer("");
        /// A client that has not logged in after this time is disconnected; 0 is no limit
        client_login_timeout: Duration = Duration::from_secs(60), timeout(), pgbouncer("60");
        /// Text of a NOTICE that each client gets when it has logged in; "" for none
        login_notify_message: String = String::new(), text(), pgbouncer("");
    }
}

words! {
    /// What a client must show.
    pub enum AuthType {
        /// Nothing.
        Trust = "trust",
        /// That it knows the password, by md5; by SCRAM if that is how the password is stored.
        Md5 = "md5",
        /// That it knows the password.
        ScramSha256 = "scram-sha-256",
        /// The password.
        Plain = "plain",
        /// A certificate with its name.
        Cert = "cert",
        /// What the first matching rule says.
        Hba = "hba",
        /// That the user of the operating system has its name.
        Peer = "peer",
        /// Nothing, not even its name.
        Any = "any",
    }
}
