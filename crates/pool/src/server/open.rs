//! Opens a connection: connects, logs in, and overrides defaults of the server that a pool's connection must not have.

use super::credential::with_credential;
use super::{ServerConn, ServerError, ServerInfo, connect, defaults};
use crate::address::Address;
use crate::clock;
use crate::compression::ServerLink;
use crate::credentials::{LoginCredential, ServerCredentials, random};
use bytes::BytesMut;
use paceline_cluster::SystemId;
use paceline_net::optional_timeout;
use paceline_relay::settings::{SessionSettings, read_milliseconds};
use paceline_sql::IDLE_SESSION_TIMEOUT;
use paceline_wire::auth::{Login, Progress};
use paceline_wire::backend::{self, tag};
use paceline_wire::compression;
use paceline_wire::exchange::ExchangeEnds;
use paceline_wire::startup::Startup;
use paceline_wire::{WireError, frame};
use std::sync::Arc;
use std::time::Duration;

impl ServerConn {
    /// Connects and logs in. If the server may have refused the offer of compression with the whole login, tries once more without it.
    pub(super) async fn open(
        address: &Arc<Address>,
        credential: &LoginCredential,
        none: Arc<SessionSettings>,
        prepared_max: usize,
        more: &[(&str, &str)],
    ) -> Result<Self, ServerError> {
        let open = |offer| {
            let none = Arc::clone(&none);
            Self::open_encrypted_or_not(address, credential, none, prepared_max, more, offer)
        };
        let compression = address.compression.as_ref();
        let link = compression.map(|compression| compression.towards(&address.upstream));
        let Some(link) = link.filter(|link| link.offers(clock::now())) else {
            return open(None).await;
        };
        match open(Some(&link)).await {
            Err(refusal) if refusal.may_be_of_an_option() => {
                let opened = open(None).await?;
                // A server that was being restarted also closes a connection without an answer.
                if !matches!(refusal, ServerError::Refused(_))
                    && let Ok(offered) = open(Some(&link)).await
                {
                    opened.terminate();
                    return Ok(offered);
                }
                link.is_refused(clock::now());
                let server = &address.upstream;
                tracing::info!(%server, %refusal, "the server refuses logins with an offer of compression; for a while they have none");
                Ok(opened)
            }
            other => other,
        }
    }

    /// Connects and logs in. If `pg_hba.conf` rejects the user with TLS, or without, and `sslmode` allows both, tries the other
    /// way, too.
    async fn open_encrypted_or_not(
        address: &Arc<Address>,
        credential: &LoginCredential,
        none: Arc<SessionSettings>,
        prepared_max: usize,
        more: &[(&str, &str)],
        offer: Option<&ServerLink>,
    ) -> Result<Self, ServerError> {
        let stream = connect(address).await?;
        let encrypted = stream.is_encrypted();
        let log_in = |stream| {
            let fresh = Self::new(stream, address, &none, prepared_max);
            fresh.logged_in(address, credential, more, offer)
        };
        match log_in(stream).await {
            Err(refusal) if refusal.is_of_authorization() => {
                match address.connect_otherwise(encrypted).await {
                    Some(stream) => log_in(stream).await,
                    None => Err(refusal),
                }
            }
            other => other,
        }
    }

    /// Opens a connection that the server does not close for being idle: a default of `idle_session_timeout` (PostgreSQL 14 and
    /// later) is overridden and remembered, because it applies to clients. Settings that `connect_query` changes become defaults
    /// of the session, to which RESET and DISCARD ALL return.
    async fn open_for_pool(
        address: &Arc<Address>,
        credential: &LoginCredential,
        none: Arc<SessionSettings>,
        prepared_max: usize,
    ) -> Result<Self, ServerError> {
        const OFF: [(&str, &str); 1] = [(IDLE_SESSION_TIMEOUT, "0")];
        let query = &address.connect_query;
        let open = |more| Self::open(address, credential, Arc::clone(&none), prepared_max, more);
        let mut conn = open(&[]).await?;
        let default = conn.idle_default().await?;
        let off: &[(&str, &str)] = if default.is_zero() { &[] } else { &OFF };
        let sets = conn.run_connect_query(query).await?;
        if off.is_empty() && sets.is_empty() {
            return Ok(conn);
        }
        conn.terminate();
        let sets = sets.iter().map(|(name, value)| (&**name, &**value));
        let more: Vec<(&str, &str)> = off.iter().copied().chain(sets).collect();
        let mut conn = match open(&more).await {
            // Some settings that a statement may change are not accepted in a startup packet.
            Err(ServerError::Refused(_)) if more.len() > off.len() => open(off).await?,
            other => other?,
        };
        conn.side.idle_default = default;
        conn.run_connect_query(query).await?;
        Ok(conn)
    }

    /// The server's default of `idle_session_timeout`; zero means none.
    async fn idle_default(&mut self) -> Result<Duration, ServerError> {
        let question = format!("SELECT pg_catalog.current_setting('{IDLE_SESSION_TIMEOUT}', true)");
        let answer = match self.query(&question).await {
            Ok(answer) => answer,
            // A server that is not PostgreSQL may not know the setting.
            Err(ServerError::Refused(_)) => return Ok(Duration::ZERO),
            Err(error) => return Err(error),
        };
        let value = answer
            .first()
            .and_then(|rows| rows.first()?.first()?.as_deref());
        Ok(value.and_then(read_milliseconds).unwrap_or_default())
    }

    async fn logged_in(
        mut self,
        address: &Address,
        credential: &LoginCredential,
        more: &[(&str, &str)],
        offer: Option<&ServerLink>,
    ) -> Result<Self, ServerError> {
        let value = offer
            .map(|_| random().map(u64::from_ne_bytes))
            .transpose()?;
        let value = value.map(compression::offer);
        self.log_in(address, credential, more, value.as_deref())
            .await?;
        // Clients of the pool must not take it for an answer to them.
        let confirmed = self.side.reported.remove(compression::CONFIRMATION);
        if let Some(link) = offer.filter(|_| confirmed == value) {
            let compressor = Arc::clone(&link.compressor);
            let mut ends = ExchangeEnds::of_requests();
            let find_end = Box::new(move |bytes: &[u8]| ends.next_end(bytes));
            self.stream.compress(compressor, find_end, &mut self.input);
        }
        self.info = ServerInfo::new(&self.stream, self.key.process, None);
        self.side.process = self.key.process;
        Ok(self)
    }

    /// Opens a connection for a pool. Waits at most `limit` for the password, and then for the connection; zero means no limit.
    ///
    /// # Errors
    /// There is no password, or the server cannot be reached, rejects the login, or does not answer in time.
    pub async fn open_within(
        limit: Duration,
        address: &Arc<Address>,
        credentials: &ServerCredentials,
        none: Arc<SessionSettings>,
        prepared_max: usize,
    ) -> Result<Self, ServerError> {
        let open = |credential: LoginCredential| {
            let none = Arc::clone(&none);
            async move {
                let opening = Self::open_for_pool(address, &credential, none, prepared_max);
                let opened = optional_timeout(limit, opening).await;
                opened.unwrap_or(Err(ServerError::Timeout(limit)))
            }
        };
        with_credential(credentials, limit, open).await
    }

    /// Checks that the server of a database with several hosts is not a standby, within `limit`; zero means no limit.
    ///
    /// # Errors
    /// [`ServerError::Standby`] if it is one, and others if it does not answer.
    pub(crate) async fn check_primary(&mut self, limit: Duration) -> Result<(), ServerError> {
        self.read_defaults(limit).await?;
        match self.transaction_defaults {
            Some(_) => Ok(()),
            None => Err(ServerError::Standby),
        }
    }

    /// Reads the defaults for transactions within `limit`; a standby has none.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) async fn read_defaults(&mut self, limit: Duration) -> Result<(), ServerError> {
        let asked = self.query(defaults::QUESTION);
        let answer = optional_timeout(limit, asked).await;
        let answer = answer.unwrap_or(Err(ServerError::Timeout(limit)))?;
        let row = answer.first().and_then(|rows| rows.first());
        self.transaction_defaults = row.and_then(|row| defaults::read(row));
        Ok(())
    }

    /// Checks within `limit` (zero means no limit) that the server has this system identifier, if that of both is known. The positions
    /// of another cluster say nothing about the data.
    ///
    /// # Errors
    /// [`ServerError::OtherSystem`] if it has another one, and others if it does not answer.
    pub(crate) async fn check_system(
        &mut self,
        expected: Option<SystemId>,
        limit: Duration,
    ) -> Result<(), ServerError> {
        let asked = optional_timeout(limit, self.system()).await;
        let own = asked.unwrap_or(Err(ServerError::Timeout(limit)))?;
        match own.zip(expected) {
            Some((own, expected)) if own != expected => Err(ServerError::OtherSystem),
            _ => Ok(()),
        }
    }

    async fn log_in(
        &mut self,
        address: &Address,
        credential: &LoginCredential,
        more: &[(&str, &str)],
        offer: Option<&str>,
    ) -> Result<(), ServerError> {
        let mut out = BytesMut::new();
        let mut parameters = vec![
            ("user".to_owned(), address.user.clone()),
            ("database".to_owned(), address.database.clone()),
        ];
        parameters.extend(address.startup.iter().cloned());
        let offer = offer.map(|offer| (compression::OPTION, offer));
        let more = more.iter().copied().chain(offer);
        let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
        parameters.extend(more);
        let startup = Startup {
            minor: 0,
            parameters,
        };
        startup.write(&mut out);
        self.stream.write_all(&mut out).await?;
        let binding = self.stream.channel_binding().map(<[u8]>::to_vec);
        let mut login =
            Login::new(&address.user, credential.as_shown(), random()?).bound_to(binding);
        let mut accepted = false;
        loop {
            let (kind, message) = self.message().await?;
            let body = message.get(frame::HEADER_LEN..).unwrap_or_default();
            match kind {
                tag::AUTHENTICATION => {
                    match login.handle(body, &mut out)? {
                        Progress::WantsKeys(stretch) => {
                            login.give(&credential.keys(&stretch).await?, &mut out)?;
                        }
                        Progress::Accepted => accepted = true,
                        Progress::Answered | Progress::Nothing => {}
                    }
                    self.stream.write_all(&mut out).await?;
                }
                tag::BACKEND_KEY_DATA => {
                    self.key.set(backend::read_backend_key(body)?);
                }
                tag::ERROR_RESPONSE => return Err(ServerError::Refused(message)),
                tag::READY_FOR_QUERY if accepted => return Ok(()),
                // The server has neither accepted the login nor completed its own proof.
                tag::READY_FOR_QUERY => {
                    let why = "the server is ready before the login is complete";
                    return Err(WireError::Authentication(why.into()).into());
                }
                _ => {}
            }
        }
    }
}
