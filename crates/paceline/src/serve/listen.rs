//! The listening sockets for clients and metrics: those that systemd has opened, or those that the configuration names.

use anyhow::Context;
use paceline_admin::systemd;
use paceline_config::{Config, Listening};
use paceline_net::listen::{Sharing, SocketFile, listen_tcp, listen_unix};
use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, UnixListener};

/// The listening sockets of the process.
pub(super) struct Listeners {
    /// TCP sockets for clients.
    pub(super) tcp: Vec<TcpListener>,
    /// Unix sockets for clients.
    pub(super) unix: Vec<UnixListener>,
    /// The socket for metrics.
    pub(super) metrics: Option<TcpListener>,
    /// The socket for browsers.
    pub(super) web_console: Option<TcpListener>,
    /// The processes that share the sockets for clients.
    pub(super) sharing: Sharing,
    socket_file: Option<SocketFile>,
}

impl Listeners {
    /// Takes the sockets that systemd has opened. If it has opened none, opens those that the configuration names.
    pub(super) fn open(config: &Config) -> anyhow::Result<Self> {
        let settings = &config.paceline.listening;
        let taken = systemd::take_sockets().context("cannot take the sockets of systemd")?;
        let mut listeners = Self {
            tcp: taken.tcp,
            unix: taken.unix,
            metrics: taken.metrics,
            web_console: None,
            sharing: Sharing::Systemd,
            socket_file: None,
        };
        for listener in &listeners.tcp {
            config.check_address("a socket of systemd", listener.local_addr()?)?;
        }
        if listeners.tcp.is_empty() && listeners.unix.is_empty() {
            listeners.open_for_clients(settings)?;
        }
        if let (None, Some(address)) = (&listeners.metrics, settings.metrics_listen) {
            listeners.metrics = Some(listen(address, settings, "metrics_listen")?);
        }
        if let Some(address) = settings.web_console_listen {
            listeners.web_console = Some(listen(address, settings, "web_console_listen")?);
        }
        Ok(listeners)
    }

    fn open_for_clients(&mut self, settings: &Listening) -> anyhow::Result<()> {
        self.sharing = match settings.so_reuseport {
            true => Sharing::ReusePort,
            false => Sharing::None,
        };
        let tcp = listen(settings.listen, settings, "--listen")?;
        let port = tcp.local_addr()?.port();
        self.tcp.push(tcp);
        if let Some(folder) = &settings.unix_socket_dir {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            let (backlog, mode) = (settings.listen_backlog, settings.unix_socket_mode);
            let failed = format!("cannot listen on {}: check unix_socket_dir", path.display());
            let (listener, file) =
                listen_unix(path, backlog, mode, settings.so_reuseport).context(failed)?;
            self.unix.push(listener);
            self.socket_file = Some(file);
        }
        Ok(())
    }

    /// Returns the TCP addresses for clients, or the paths of the Unix sockets if there is no TCP socket.
    pub(super) fn addresses(&self) -> io::Result<Vec<String>> {
        let tcp = self.tcp.iter().map(TcpListener::local_addr);
        let mut addresses = tcp
            .map(|address| Ok(address?.to_string()))
            .collect::<io::Result<Vec<_>>>()?;
        if addresses.is_empty() {
            let unix = self.unix.iter().filter_map(|unix| unix.local_addr().ok());
            let paths =
                unix.filter_map(|address| Some(address.as_pathname()?.display().to_string()));
            addresses.extend(paths);
        }
        Ok(addresses)
    }
}

/// `setting` is the key or argument that changes the address.
fn listen(address: SocketAddr, settings: &Listening, setting: &str) -> anyhow::Result<TcpListener> {
    let listener = listen_tcp(address, settings.listen_backlog, settings.so_reuseport);
    let remedy = match &listener {
        Err(error) if settings.so_reuseport && error.kind() == io::ErrorKind::AddrInUse => {
            "the process that listens there runs without so_reuseport, or as another user; stop it"
        }
        _ => "stop what listens there",
    };
    listener.with_context(|| {
        format!("cannot listen on {address}: {remedy}, or choose another {setting}")
    })
}
