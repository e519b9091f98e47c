//! A server behind an imitated link, with a Paceline at each end: clients connect to the near end.

use crate::paceline::Paceline;
use crate::slow_link::SlowLink;
use crate::target::Target;
use paceline_postgres::Server;
use std::path::Path;
use std::sync::Arc;

/// Both ends of a link. Its fields are dropped in their order: clients first.
#[derive(Debug)]
pub(super) struct ThinLink {
    plain: Paceline,
    compressed: Paceline,
    /// To the far Paceline.
    _link: SlowLink,
    _far: Paceline,
    /// To PostgreSQL.
    direct: SlowLink,
}

impl ThinLink {
    /// Starts the Pacelines and the links.
    pub(super) fn start(program: &Path, server: &Server) -> anyhow::Result<Self> {
        let far = Paceline::start(program, &server.url(""), &["client_compression=zstd"])?;
        let link = SlowLink::start(far.port())?;
        let url = format!(
            "postgres://{}@127.0.0.1:{}",
            server.superuser(),
            link.port()
        );
        Ok(Self {
            plain: Paceline::start(program, &url, &[])?,
            compressed: Paceline::start(program, &url, &["server_compression=zstd"])?,
            _link: link,
            _far: far,
            direct: SlowLink::start(server.port())?,
        })
    }

    /// PostgreSQL, and two Pacelines without and with compression, behind the link.
    pub(super) fn targets(&self, user: &str) -> Vec<Arc<Target>> {
        let target = |name, port| Arc::new(Target::on_loopback(name, port, user, "postgres"));
        vec![
            target("direct", self.direct.port()),
            target("paceline", self.plain.port()),
            target("zstd", self.compressed.port()),
        ]
    }
}
