//! One TLS connection without a socket: records in, records out.
//!
//! With rustls' unbuffered interface the buffers are ours, which lets a reading and a writing thread share one
//! connection: each has its own buffer and holds the lock only while it encrypts or decrypts.

use crate::config::{badge_of, refusal};
use crate::{Badge, LinkError};
use rustls::Error;
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

/// Payload of a full TLS record.
pub(crate) const RECORD: usize = 16384;
/// What a TLS 1.3 record adds to its payload: header 5, content type 1, tag 16.
const RECORD_EXTRA: usize = 22;
/// Limit of queued output besides application data: alerts and key updates only, each below 100 bytes.
const QUEUE_MAX: usize = 1 << 16;

pub(crate) enum Conn {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// True if `rest`, left by [`Conn::step`], begins with a whole record: a fragment of a handshake message. Our peers
/// never fragment those after the handshake, and rustls must then not be called without these bytes, as
/// [`Conn::encrypt`] does.
pub(crate) fn torn(rest: &[u8]) -> bool {
    match rest {
        [_, _, _, hi, lo, body @ ..] => body.len() >= usize::from(u16::from_be_bytes([*hi, *lo])),
        _ => false,
    }
}

/// The result of [`Conn::step`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Progress was made; call again.
    Again,
    /// Everything was consumed that can be; the handshake waits for the peer.
    NeedInput,
    /// The same, and application data may be written.
    Ready,
    /// The peer sent close_notify.
    PeerClosed,
}

impl Conn {
    /// Consumes what it can from `input`; passes payload to `sink`; appends what must be sent to `out`. Returns how
    /// many bytes of `input` were consumed.
    pub fn step(
        &mut self,
        input: &mut [u8],
        out: &mut Vec<u8>,
        sink: &mut dyn FnMut(&[u8]),
    ) -> (usize, Result<Step, Error>) {
        match self {
            Conn::Client(c) => digest(c.process_tls_records(input), out, sink),
            Conn::Server(c) => digest(c.process_tls_records(input), out, sink),
        }
    }

    /// Encrypts all of `data` and appends it to `out`. Before: the handshake is over.
    pub fn encrypt(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        loop {
            let status = match self {
                Conn::Client(c) => seal(
                    c.process_tls_records(&mut []),
                    out,
                    |w, room| w.encrypt(data, room),
                    data,
                ),
                Conn::Server(c) => seal(
                    c.process_tls_records(&mut []),
                    out,
                    |w, room| w.encrypt(data, room),
                    data,
                ),
            };
            if status? {
                return Ok(());
            }
        }
    }

    /// Appends close_notify to `out`.
    pub fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        loop {
            let status = match self {
                Conn::Client(c) => seal(
                    c.process_tls_records(&mut []),
                    out,
                    |w, room| w.queue_close_notify(room),
                    &[],
                ),
                Conn::Server(c) => seal(
                    c.process_tls_records(&mut []),
                    out,
                    |w, room| w.queue_close_notify(room),
                    &[],
                ),
            };
            if status? {
                return Ok(());
            }
        }
    }

    /// The badge of the peer's (already verified) certificate; `None` if it has sent none.
    pub fn peer(&self) -> Result<Option<Badge>, LinkError> {
        let certs = match self {
            Conn::Client(c) => c.peer_certificates(),
            Conn::Server(c) => c.peer_certificates(),
        };
        let Some(leaf) = certs.and_then(|c| c.first()) else {
            return Ok(None);
        };
        badge_of(leaf).map(Some).map_err(LinkError::Refused)
    }

    /// The certificates that the peer has sent, leaf first.
    pub fn peer_chain(&self) -> &[rustls::pki_types::CertificateDer<'static>] {
        match self {
            Conn::Client(c) => c.peer_certificates(),
            Conn::Server(c) => c.peer_certificates(),
        }
        .unwrap_or(&[])
    }
}

fn digest<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Vec<u8>,
    sink: &mut dyn FnMut(&[u8]),
) -> (usize, Result<Step, Error>) {
    let discard = status.discard;
    let step = status.state.and_then(|state| match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                sink(record?.payload);
            }
            Ok(Step::Again)
        }
        other => settle(other, out),
    });
    (discard, step)
}

/// The states without application data.
fn settle<Data>(state: ConnectionState<'_, '_, Data>, out: &mut Vec<u8>) -> Result<Step, Error> {
    match state {
        ConnectionState::EncodeTlsData(mut data) => {
            fill(out, 1024, |room| {
                data.encode(room).map_err(|e| match e {
                    EncodeError::InsufficientSize(s) => Short::Need(s.required_size),
                    other => Short::Fatal(Error::General(other.to_string())),
                })
            })?;
            if out.len() > QUEUE_MAX {
                return Err(Error::General("the peer asks for too many answers".into()));
            }
            Ok(Step::Again)
        }
        // `out` is sent before anything waits for the peer.
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Step::Again)
        }
        ConnectionState::BlockedHandshake => Ok(Step::NeedInput),
        ConnectionState::WriteTraffic(_) => Ok(Step::Ready),
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Step::PeerClosed),
        _ => Err(Error::General("early data is not spoken here".into())),
    }
}

/// Calls `put` once the connection may write. False: call again.
fn seal<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Vec<u8>,
    mut put: impl FnMut(
        &mut rustls::unbuffered::WriteTraffic<'_, Data>,
        &mut [u8],
    ) -> Result<usize, EncryptError>,
    data: &[u8],
) -> Result<bool, Error> {
    match status.state? {
        ConnectionState::WriteTraffic(mut writer) => {
            let records = data.len().div_ceil(RECORD).max(1);
            fill(out, data.len() + records * RECORD_EXTRA, |room| {
                put(&mut writer, room).map_err(|e| match e {
                    EncryptError::InsufficientSize(s) => Short::Need(s.required_size),
                    other => Short::Fatal(Error::General(other.to_string())),
                })
            })?;
            Ok(true)
        }
        ConnectionState::Closed => Err(Error::General("the stream is closed".into())),
        // The peer's direction is closed; ours is not. The reader notices this at the socket.
        ConnectionState::PeerClosed => Ok(false),
        other => match settle(other, out)? {
            Step::NeedInput => Err(Error::HandshakeNotComplete),
            _ => Ok(false),
        },
    }
}

enum Short {
    Need(usize),
    Fatal(Error),
}

/// Grows `out` by what `put` writes, trying `guess` bytes of space first.
fn fill(
    out: &mut Vec<u8>,
    guess: usize,
    mut put: impl FnMut(&mut [u8]) -> Result<usize, Short>,
) -> Result<(), Error> {
    let at = out.len();
    let mut room = guess;
    // Twice is enough: the first refusal gives the size.
    for _ in 0..2 {
        out.resize(at + room, 0);
        match put(&mut out[at..]) {
            Ok(n) => {
                out.truncate(at + n);
                return Ok(());
            }
            Err(Short::Need(n)) => room = n,
            Err(Short::Fatal(e)) => {
                out.truncate(at);
                return Err(e);
            }
        }
    }
    out.truncate(at);
    Err(Error::General("TLS asks for ever more room".into()))
}

impl From<Error> for LinkError {
    fn from(e: Error) -> LinkError {
        refusal(e)
    }
}
