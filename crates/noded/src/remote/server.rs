//! The daemon's side.

use crate::error::{Result, refusal};
use crate::peer::PeerAnswer;
use crate::state::{Asker, Node, SESSION_S_MAX, TOKEN_S, sha256};
use crate::sys::name_of;
use armento_client::api::{Answer, Ask, Body, Line, Refusal};
use armento_client::{encode, read_line, version};
use armento_link::{Reader, Token, Writer};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Control sessions from other machines at once.
const REMOTE_MAX: usize = 32;
/// For the daemon's own answer to the first question.
const OWN: Duration = Duration::from_secs(10);
/// A write that no byte of leaves for so long ends the session.
const STUCK: Duration = Duration::from_secs(60);

static REMOTE: AtomicUsize = AtomicUsize::new(0);

/// The identifier in such tokens: nodes do not join with them.
const ID: &str = "c0";

/// A token of the asker, for one machine.
pub fn invite(asker: &Asker, session_s: u64) -> Result<Answer> {
    let node = &asker.node;
    if !(1..=SESSION_S_MAX).contains(&session_s) {
        let days = SESSION_S_MAX / 86_400;
        let what = format!("a machine stays signed in for {days} days at most");
        return Err(refusal("bad-time", what, "sign in again then"));
    }
    let ca_sha256 = node.credentials.keys.ca_sha256().map_err(|e| {
        let hint = "see the files of the state directory";
        refusal("failed", e.to_string(), hint)
    })?;
    let user = name_of(asker.uid).unwrap_or_default();
    let token = Token {
        ca_sha256,
        id: ID.into(),
        secret: node
            .web
            .token(&node.state, (asker.uid, user), 1, session_s)?,
    };
    Ok(Answer::Invitation {
        token: token.to_string(),
        addr: node.addr(),
        valid_s: TOKEN_S,
    })
}

/// Uses a token of `armento context invite`.
pub fn sign_in_remote(node: &Node, token: &str) -> Result<PeerAnswer> {
    let session = node.web.sign_in(&node.state, token).map_err(again)?;
    tracing::info!("user {} has signed in from another machine", session.uid);
    Ok(PeerAnswer::SignedIn {
        session,
        node: node.farm.node.clone(),
        farm: node.farm.farm.clone(),
    })
}

/// The remedy is another one than that of a browser.
fn again(mut no: Refusal) -> Refusal {
    no.hint = "`armento context invite` on that node prints a new one".into();
    no
}

/// Forgets the secret of another machine.
pub fn sign_out_remote(node: &Node, secret: &str) -> PeerAnswer {
    node.web.sign_out(&node.state, &sha256(secret));
    PeerAnswer::Done
}

/// A session of the daemon's own control socket that acts for the user of a secret.
pub struct PassOn {
    own: UnixStream,
}

impl PassOn {
    /// Refused if the secret is of no user.
    pub fn begin(node: &Node, secret: &str) -> Result<PassOn> {
        if REMOTE.fetch_add(1, Ordering::Relaxed) >= REMOTE_MAX {
            REMOTE.fetch_sub(1, Ordering::Relaxed);
            let what = format!("{REMOTE_MAX} machines control this node already");
            return Err(refusal(
                "busy",
                what,
                "ask again later, or use another node",
            ));
        }
        // From here on dropped by `Drop`.
        let failed = |e: io::Error| {
            REMOTE.fetch_sub(1, Ordering::Relaxed);
            refusal("failed", e.to_string(), "see the daemon's log there")
        };
        let own = UnixStream::connect(node.config.socket_path()).map_err(failed)?;
        let pass_on = PassOn { own };
        pass_on.act(secret)?;
        Ok(pass_on)
    }

    /// After this the session has no rights but those of that user.
    fn act(&self, secret: &str) -> Result<()> {
        let failed = |e: &dyn std::fmt::Display| {
            refusal("failed", e.to_string(), "see the daemon's log there")
        };
        let ask = Line {
            v: version::spoken(),
            id: 1,
            body: Body::Ask(Ask::Act {
                secret: secret.to_owned(),
            }),
        };
        let line = encode(&ask).map_err(|e| failed(&e))?;
        self.own
            .set_read_timeout(Some(OWN))
            .map_err(|e| failed(&e))?;
        (&self.own).write_all(&line).map_err(|e| failed(&e))?;
        let mut from = BufReader::new(&self.own);
        loop {
            let line: Line = read_line(&mut from).map_err(|e| failed(&e))?;
            match line.body {
                Body::Ok(_) if line.id == 1 => break,
                Body::Err(no) if line.id == 1 => return Err(no),
                _ => {}
            }
        }
        // The next line comes only when it is asked for: nothing else is in the buffer.
        self.own.set_read_timeout(None).map_err(|e| failed(&e))
    }

    /// Passes lines on until one side ends.
    pub fn run(
        self,
        reader: BufReader<Reader>,
        mut writer: Writer,
        socket: &TcpStream,
    ) -> io::Result<()> {
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(Some(STUCK))?;
        self.own.set_write_timeout(Some(STUCK))?;
        let (own, other) = (self.own.try_clone()?, socket.try_clone()?);
        let back = thread::Builder::new()
            .name("remote".into())
            .spawn(move || {
                copy(&own, &mut writer);
                // The other thread waits for a line from there.
                let _ = other.shutdown(Shutdown::Both);
            })?;
        copy(reader, &self.own);
        let _ = self.own.shutdown(Shutdown::Both);
        let _ = back.join();
        Ok(())
    }
}

impl Drop for PassOn {
    fn drop(&mut self) {
        REMOTE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Until one of them ends.
fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buf = [0; 16384];
    loop {
        match from.read(&mut buf) {
            Ok(0) => return,
            Ok(n) if to.write_all(&buf[..n]).and_then(|()| to.flush()).is_err() => return,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
