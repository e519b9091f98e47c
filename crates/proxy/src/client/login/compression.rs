//! A client's offer to compress the connection. Only a Paceline makes one.

use crate::proxy::Proxy;
use bytes::BytesMut;
use paceline_net::{Compressor, Stream};
use paceline_pool::replication::Replication;
use paceline_wire::compression::{CONFIRMATION, OPTION, acceptable_offer};
use paceline_wire::exchange::ExchangeEnds;
use paceline_wire::startup::Startup;
use std::sync::Arc;

/// An offer that the configuration accepts.
pub(super) struct AcceptedOffer {
    /// The value that the confirmation repeats.
    value: String,
    compressor: Arc<Compressor>,
}

/// The protocol options that are supported in a login.
pub(super) fn supported(offer: Option<&AcceptedOffer>) -> &'static [&'static str] {
    match offer {
        Some(_) => &[OPTION],
        None => &[],
    }
}

impl AcceptedOffer {
    /// The offer in a startup packet. A replication connection is not compressed: its exchanges have no ends.
    pub(super) fn new(proxy: &Proxy, startup: &Startup, kind: Option<Replication>) -> Option<Self> {
        let offer = acceptable_offer(startup).filter(|_| kind.is_none())?;
        let config = proxy.config();
        let compressors = &proxy.shared.compressors;
        Some(Self {
            value: offer.to_owned(),
            compressor: compressors.for_clients(&config.paceline.compression)?,
        })
    }

    /// The parameter that confirms the offer.
    pub(super) fn confirmation(&self) -> (String, String) {
        (CONFIRMATION.to_owned(), self.value.clone())
    }

    /// Compresses the connection. The client has been sent its first ReadyForQuery; `input` is what it has sent since.
    pub(super) fn begin(self, stream: &mut Stream, input: &mut BytesMut) {
        let mut ends = ExchangeEnds::of_answers();
        let find_end = Box::new(move |bytes: &[u8]| ends.next_end(bytes));
        stream.compress(self.compressor, find_end, input);
    }
}
