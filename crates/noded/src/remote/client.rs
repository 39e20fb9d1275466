//! The side of the other machine.

use crate::error::FarmError;
use crate::joining::dial_member;
use crate::peer::{self, CallError, Connection, PeerAnswer, PeerAsk};
use armento_client::api::WebSession;
use armento_link::{Reader, Token, Writer};
use armento_model::NodeName;
use std::io::BufReader;
use std::net::TcpStream;
use std::time::Duration;

/// For the node's answer.
const ANSWER: Duration = Duration::from_secs(15);

/// What a node has said of itself and of the user.
pub struct SignedIn {
    pub session: WebSession,
    pub node: NodeName,
    pub farm: String,
}

/// A connection that carries lines of the control API.
pub struct Open {
    pub reader: BufReader<Reader>,
    pub writer: Writer,
    /// To end it from another thread.
    pub socket: TcpStream,
}

/// Uses the token at the node at `addr`, an address or a name. After `Err` it may have been used if the connection broke.
pub fn sign_in(addr: &str, token: &Token) -> Result<SignedIn, FarmError> {
    let ask = PeerAsk::SignIn {
        token: token.secret.clone(),
    };
    let (duplex, _, _) = dial_member(addr, token)?;
    match peer::talk(duplex, &ask, ANSWER).map_err(|e| failed(addr, e))? {
        PeerAnswer::SignedIn {
            session,
            node,
            farm,
        } => Ok(SignedIn {
            session,
            node,
            farm,
        }),
        _ => Err(not_understood(addr)),
    }
}

/// A control session; `token` has the hash of the farm's certificate, and the secret.
pub fn open(addr: &str, token: &Token) -> Result<Open, FarmError> {
    let ask = PeerAsk::Control {
        secret: token.secret.clone(),
    };
    let (duplex, _, _) = dial_member(addr, token)?;
    let mut connection = Connection::new(duplex).map_err(FarmError::Keys)?;
    match connection.ask(&ask, ANSWER).map_err(|e| failed(addr, e))? {
        PeerAnswer::Done => {
            let (reader, writer, socket) = connection.into_parts().map_err(FarmError::Keys)?;
            Ok(Open {
                reader,
                writer,
                socket,
            })
        }
        _ => Err(not_understood(addr)),
    }
}

/// The node forgets the secret.
pub fn sign_out(addr: &str, token: &Token) -> Result<(), FarmError> {
    let ask = PeerAsk::SignOut {
        secret: token.secret.clone(),
    };
    let (duplex, _, _) = dial_member(addr, token)?;
    peer::talk(duplex, &ask, ANSWER).map_err(|e| failed(addr, e))?;
    Ok(())
}

fn failed(addr: &str, e: CallError) -> FarmError {
    match e {
        CallError::Refused(no) => FarmError::Refused(no),
        other => FarmError::Unreachable {
            addr: addr.to_owned(),
            cause: other.to_string(),
            hint: "is that node's Armento as new as this one? its daemon's log has more".into(),
        },
    }
}

fn not_understood(addr: &str) -> FarmError {
    FarmError::Unreachable {
        addr: addr.to_owned(),
        cause: "its answer was not understood".into(),
        hint: "update Armento on that node".into(),
    }
}
