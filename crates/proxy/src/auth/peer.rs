//! The properties of a client's connection before its login: the address, whether it is encrypted, and the names in the certificate.

use paceline_net::{Peer, Stream};

/// A client before its login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoginPeer {
    /// The client's address.
    pub(crate) peer: Peer,
    /// Whether the connection is encrypted.
    pub(super) encrypted: bool,
    /// The names in its verified certificate, if it sent one.
    pub(super) certified_names: Vec<String>,
    /// Channel binding data for SCRAM (`tls-server-end-point`).
    pub(super) end_point: Option<Vec<u8>>,
}

impl LoginPeer {
    /// The client of this stream.
    pub(crate) fn of(stream: &Stream) -> Self {
        Self {
            peer: stream.peer(),
            encrypted: stream.is_encrypted(),
            certified_names: stream.certified_names().to_vec(),
            end_point: stream.channel_binding().map(<[u8]>::to_vec),
        }
    }

    /// Whether the connection is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.encrypted
    }
}

/// The name of the system user with this id; `None` if `/etc/passwd` has none.
pub(super) async fn system_user(uid: u32) -> Option<String> {
    let passwd = tokio::task::spawn_blocking(|| std::fs::read_to_string("/etc/passwd")).await;
    name_of(uid, &passwd.ok()?.ok()?).map(str::to_owned)
}

fn name_of(uid: u32, passwd: &str) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        (number == uid).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_users_are_found_by_their_id() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nbroken\n# no one\nrider:x:1000:1000::/:/bin/sh\n";
        assert_eq!(name_of(1000, passwd), Some("rider"));
        assert_eq!(name_of(0, passwd), Some("root"));
        assert_eq!(name_of(1, passwd), None);
    }
}
