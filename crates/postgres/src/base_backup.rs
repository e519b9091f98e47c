//! A copy of a running server by the replication command `BASE_BACKUP` (PostgreSQL documentation, "Streaming Replication
//! Protocol"): one archive in tar format, with the write-ahead log that makes it consistent. It copies no tablespace other than
//! the server's own two, and changes nothing on the server.

use std::io::{self, Read};
use std::path::Path;

use bytes::{Buf, Bytes};
use paceline_wire::{backend, frontend};

use crate::replication::ReplicationConnection;

/// The first major version with these options, and with one stream for all archives.
pub(crate) const MAJOR_MIN: u32 = 15;
/// The log is part of the archive, so that nothing else must keep it. A manifest is for `pg_verifybackup`.
const COMMAND: &str = "BASE_BACKUP (LABEL 'paceline', CHECKPOINT 'fast', WAL true, MANIFEST 'no')";

/// Copies the server at this port of 127.0.0.1 into an existing folder. The copy contains `backup_label`: a server that starts
/// there replays the log from the beginning of the copy.
pub(crate) fn copy(port: u16, user: &str, folder: &Path) -> io::Result<()> {
    let mut connection = ReplicationConnection::open(port, user)?;
    connection.command(COMMAND)?;
    let mut archive = tar::Archive::new(ArchiveStream::new(|| connection.receive()));
    // The files are new here, whatever their age on the server.
    archive.set_preserve_mtime(false);
    archive.unpack(folder)?;
    // The reader of the archive stops at its last entry.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    // An error here means that the copy is not complete.
    connection.await_ready()
}

/// The archive in the messages that `receive` returns, up to the end of the copy.
struct ArchiveStream<F> {
    receive: F,
    /// Data of the archive that has not been read yet.
    data: Bytes,
    /// Number of archives so far.
    archives: usize,
    is_over: bool,
}

impl<F: FnMut() -> io::Result<(u8, Bytes)>> ArchiveStream<F> {
    fn new(receive: F) -> Self {
        Self {
            receive,
            data: Bytes::new(),
            archives: 0,
            is_over: false,
        }
    }

    /// Waits for data, or for the end of the copy.
    fn advance(&mut self) -> io::Result<()> {
        while self.data.is_empty() && !self.is_over {
            match (self.receive)()? {
                (frontend::tag::COPY_DATA, message) => self.take(&message)?,
                (frontend::tag::COPY_DONE, _) => self.is_over = true,
                (backend::tag::READY_FOR_QUERY, _) => {
                    return Err(io::Error::other("the server sent no archive"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a message of the copy: the beginning of an archive, data of it, or the progress.
    fn take(&mut self, message: &Bytes) -> io::Result<()> {
        match message.first() {
            Some(b'n') => self.archives += 1,
            Some(b'd') => self.data = message.slice(1..),
            _ => {}
        }
        match self.archives {
            0 | 1 => Ok(()),
            _ => Err(io::Error::other(
                "the server has tablespaces outside of its data folder, which only pg_basebackup can copy",
            )),
        }
    }
}

impl<F: FnMut() -> io::Result<(u8, Bytes)>> Read for ArchiveStream<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.advance()?;
        let count = self.data.len().min(buf.len());
        if let Some(place) = buf.get_mut(..count) {
            self.data.copy_to_slice(place);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all data in these messages of a copy.
    fn read(messages: &[(u8, &'static [u8])]) -> io::Result<Vec<u8>> {
        let mut messages = messages.iter();
        let receive = || match messages.next() {
            Some((tag, body)) => Ok((*tag, Bytes::from_static(body))),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        let mut data = Vec::new();
        ArchiveStream::new(receive).read_to_end(&mut data)?;
        Ok(data)
    }

    #[test]
    fn the_archive_is_the_data_between_other_messages() {
        let messages: [(u8, &[u8]); 9] = [
            (b'T', b"columns"),
            (b'D', b"a row"),
            (b'H', b"copy"),
            (b'd', b"nbase.tar\0\0"),
            (b'd', b"dab"),
            (b'd', b"p\0\0\0\0\0\0\0\x02"),
            (b'd', b"d"),
            (b'd', b"dcd"),
            (b'c', b""),
        ];
        assert_eq!(read(&messages).unwrap(), b"abcd");
    }

    #[test]
    fn an_archive_that_breaks_off_is_an_error() {
        let error = read(&[(b'd', b"nbase.tar\0\0"), (b'd', b"dab")]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let error = read(&[(b'T', b""), (b'Z', b"I")]).unwrap_err();
        assert_eq!(error.to_string(), "the server sent no archive");
    }

    #[test]
    fn other_tablespaces_are_refused() {
        let error = read(&[
            (b'd', b"n16384.tar\0/elsewhere\0"),
            (b'd', b"nbase.tar\0\0"),
        ]);
        assert!(error.unwrap_err().to_string().contains("tablespaces"));
    }
}
