//! The rest of a request that is answered with an error before all of it has been read, without a server: it is skipped, and ReadyForQuery
//! follows it (PostgreSQL documentation, chapter "Message Flow", section "Extended Query").

use super::taken::Taken;
use super::{Client, ClientEnd, disconnected};
use bytes::{Buf, BytesMut};
use paceline_pool::pool::DisconnectSignal;
use paceline_wire::frame::HEADER_LEN;
use paceline_wire::frontend::{read_header, tag};

/// Length of a ReadyForQuery message.
const READY_LEN: usize = HEADER_LEN + 1;

impl Client {
    /// Sends an error and ReadyForQuery, which end an answer; between them, skips the rest of the request.
    pub(super) async fn answer_in_parts(&mut self, mut answer: BytesMut) -> Result<(), ClientEnd> {
        let mut ready = answer.split_off(answer.len().saturating_sub(READY_LEN));
        self.send(&mut answer).await?;
        self.skip_rest().await?;
        self.taken = Taken::All;
        self.send(&mut ready).await
    }

    /// A request by the extended protocol ends with `Sync`; another one is a single message.
    async fn skip_rest(&mut self) -> Result<(), ClientEnd> {
        let mut is_extended = self.taken == Taken::First;
        loop {
            let header = loop {
                match read_header(&self.input)? {
                    Some(header) => break header,
                    None => self.read_more().await?,
                }
            };
            let mut left = header.len;
            while left > 0 {
                if self.input.is_empty() {
                    self.read_more().await?;
                }
                let len = left.min(self.input.len());
                self.input.advance(len);
                left -= len;
            }
            match header.tag {
                tag::SYNC => return Ok(()),
                tag::QUERY if !is_extended => {
                    self.session.statements.close_unnamed();
                    return Ok(());
                }
                tag::FUNCTION_CALL if !is_extended => return Ok(()),
                tag::TERMINATE => return Err(ClientEnd::Left),
                _ => is_extended = true,
            }
        }
    }

    async fn read_more(&mut self) -> Result<(), ClientEnd> {
        tokio::select! {
            biased;
            ready = self.stream.readable() => ready?,
            end = disconnected(&mut self.disconnect, DisconnectSignal::Closing) => return Err(end),
        }
        self.stream.read_now(&mut self.input)?;
        Ok(())
    }
}
