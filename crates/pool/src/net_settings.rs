//! Converts configuration values for `paceline-net`, which does not know the configuration.

use paceline_config::{Side, SslMode, Tcp};
use paceline_net::{TcpSettings, TlsSettings, TlsVersions};

/// Converts the options of TCP sockets.
pub fn tcp_settings(tcp: &Tcp) -> TcpSettings {
    TcpSettings {
        keepalive: tcp.keepalive,
        keepcnt: tcp.keepcnt,
        keepidle: tcp.keepidle,
        keepintvl: tcp.keepintvl,
        user_timeout: tcp.user_timeout,
    }
}

/// Converts the settings of TLS towards clients or towards a server.
pub(crate) fn tls_settings(side: &Side) -> TlsSettings {
    let protocols = &side.protocols;
    TlsSettings {
        sslmode: sslmode(side.sslmode),
        key_file: side.key_file.clone(),
        cert_file: side.cert_file.clone(),
        ca_file: side.ca_file.clone(),
        versions: match (protocols.has_1_2(), protocols.has_1_3()) {
            (true, false) => TlsVersions::Tls12,
            (false, true) => TlsVersions::Tls13,
            _ => TlsVersions::Both,
        },
    }
}

fn sslmode(mode: SslMode) -> paceline_net::SslMode {
    use paceline_net::SslMode as Net;
    match mode {
        SslMode::Disable => Net::Disable,
        SslMode::Allow => Net::Allow,
        SslMode::Prefer => Net::Prefer,
        SslMode::Require => Net::Require,
        SslMode::VerifyCa => Net::VerifyCa,
        SslMode::VerifyFull => Net::VerifyFull,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_config::Config;

    #[test]
    fn modes_keep_their_names() {
        for mode in [
            SslMode::Disable,
            SslMode::Allow,
            SslMode::Prefer,
            SslMode::Require,
            SslMode::VerifyCa,
            SslMode::VerifyFull,
        ] {
            assert_eq!(sslmode(mode).name(), mode.name());
        }
    }

    #[test]
    fn versions_match_the_protocols() {
        for (text, versions) in [
            ("secure", TlsVersions::Both),
            ("tlsv1.2", TlsVersions::Tls12),
            ("tlsv1.3", TlsVersions::Tls13),
            ("tlsv1.0", TlsVersions::Both),
        ] {
            let mut config = Config::default();
            config.set(&format!("server_tls_protocols={text}")).unwrap();
            let settings = tls_settings(&config.paceline.encryption.server);
            assert_eq!(settings.versions, versions, "{text}");
        }
    }
}
