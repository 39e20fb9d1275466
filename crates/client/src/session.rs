//! A blocking session with this node's daemon.
//!
//! Lock: `Reporter::stream`, held for the one write of a line.

use crate::api::{Answer, Ask, Body, Line, Order, Refusal, Report, socket_path};
use crate::line::{LineError, encode};
use crate::sys;
use crate::version;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for this node's daemon to answer from its own data.
pub const ANSWER: Duration = Duration::from_secs(10);
/// … to answer about a move: longer than the daemon waits for its end.
pub const MOVE: Duration = Duration::from_secs(130);
/// … to have a tree kept safe: its processes have two minutes to come home (`keeper/src/handover/give.rs`).
pub const SAFE: Duration = Duration::from_secs(180);
/// … to write a checkpoint file: a terabyte over a link of ten gigabits takes half of that.
pub const CHECKPOINT: Duration = Duration::from_secs(3600);

/// Limit of orders kept while an answer is awaited; a daemon that sends more is faulty.
const ORDERS_MAX: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The daemon refused; nothing was changed unless its message says so. The session goes on.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// No daemon listens; nothing was sent.
    #[error("this node's daemon does not answer at {path}: {cause}")]
    NoDaemon { path: String, cause: io::Error },
    /// The session is over; whether the request was received is unknown.
    #[error(transparent)]
    Line(#[from] LineError),
    /// No answer in time; a later one will be ignored. The session goes on.
    #[error("this node's daemon did not answer in time")]
    Late,
}

impl AskError {
    /// A remedy, for the `hint:` line.
    pub fn hint(&self) -> &str {
        match self {
            AskError::Refused(r) => &r.hint,
            AskError::NoDaemon { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied => {
                "the socket cannot be used by this user; see its directory's permissions"
            }
            AskError::NoDaemon { .. } => {
                "start it: `systemctl start armento`, or `armento node` (after `armento farm init` or `armento join`)"
            }
            AskError::Line(LineError::TooOld(_)) => {
                "start the daemon again: it is older than this program, and nothing that runs notices"
            }
            AskError::Line(_) | AskError::Late => "see the daemon's log, then ask again",
        }
    }
}

impl From<io::Error> for AskError {
    fn from(e: io::Error) -> AskError {
        AskError::Line(LineError::Io(e))
    }
}

/// What the daemon sends to a session whose questions do not wait for each other.
#[derive(Debug)]
pub enum News {
    Order(Order),
    /// The answer to the question with this number ([`Session::begin`]).
    Answer(u64, Box<Result<Answer, Refusal>>),
}

/// A session: requests are sent, answers and orders received.
pub struct Session {
    stream: UnixStream,
    out: Reporter,
    input: Vec<u8>,
    orders: VecDeque<Order>,
    next_id: u64,
}

/// The sending half, for other threads of a keeper or host.
#[derive(Clone)]
pub struct Reporter {
    stream: Arc<Mutex<UnixStream>>,
}

impl Session {
    /// Connects to this node's daemon (`ARMENTO_SOCKET` or the default).
    pub fn connect() -> Result<Session, AskError> {
        Session::connect_to(&socket_path())
    }

    pub fn connect_to(path: &Path) -> Result<Session, AskError> {
        let stream = UnixStream::connect(path).map_err(|cause| AskError::NoDaemon {
            path: path.display().to_string(),
            cause,
        })?;
        let out = Reporter {
            stream: Arc::new(Mutex::new(stream.try_clone()?)),
        };
        Ok(Session {
            stream,
            out,
            input: Vec::new(),
            orders: VecDeque::new(),
            next_id: 1,
        })
    }

    /// Sends a request and waits for the answer. Orders that come meanwhile are kept for [`Session::order`].
    pub fn ask(&mut self, ask: Ask, timeout: Duration) -> Result<Answer, AskError> {
        let until = Instant::now() + timeout;
        let id = self.begin(ask)?;
        loop {
            let line = self.receive(Some(until))?.ok_or(AskError::Late)?;
            match line.body {
                Body::Ok(answer) if line.id == id => return Ok(answer),
                Body::Err(refusal) if line.id == id => return Err(AskError::Refused(refusal)),
                other => self.keep(other)?,
            }
        }
    }

    /// Sends a request, and returns the number of its answer, which [`Session::news`] returns.
    pub fn begin(&mut self, ask: Ask) -> Result<u64, AskError> {
        let id = self.next_id;
        self.next_id += 1;
        self.out.send(id, Body::Ask(ask))?;
        Ok(id)
    }

    /// The next order or answer that has come; `None` if there is none.
    pub fn news(&mut self) -> Result<Option<News>, AskError> {
        if let Some(order) = self.orders.pop_front() {
            return Ok(Some(News::Order(order)));
        }
        while let Some(line) = self.receive(Some(Instant::now()))? {
            match line.body {
                Body::Order(order) => return Ok(Some(News::Order(order))),
                Body::Ok(answer) => return Ok(Some(News::Answer(line.id, Box::new(Ok(answer))))),
                Body::Err(refusal) => {
                    return Ok(Some(News::Answer(line.id, Box::new(Err(refusal)))));
                }
                Body::Ask(_) | Body::Report(_) => {}
            }
        }
        Ok(None)
    }

    /// The next order; `None` if none came in time. `timeout` of `None` waits without limit.
    pub fn order(&mut self, timeout: Option<Duration>) -> Result<Option<Order>, AskError> {
        let until = timeout.map(|t| Instant::now() + t);
        while self.orders.is_empty() {
            match self.receive(until)? {
                Some(line) => self.keep(line.body)?,
                None => break,
            }
        }
        Ok(self.orders.pop_front())
    }

    /// True if [`Session::order`] or [`Session::news`] can return without reading the socket, of which poll(2) shows
    /// nothing.
    pub fn has_order(&self) -> bool {
        !self.orders.is_empty() || self.input.contains(&b'\n')
    }

    pub fn report(&self, report: Report) -> Result<(), LineError> {
        self.out.report(report)
    }

    /// A handle that reports from another thread.
    pub fn reporter(&self) -> Reporter {
        self.out.clone()
    }

    /// Drops answers to requests that are not awaited any more.
    fn keep(&mut self, body: Body) -> Result<(), LineError> {
        if let Body::Order(order) = body {
            if self.orders.len() >= ORDERS_MAX {
                return Err(LineError::Garbled("too many orders".into()));
            }
            self.orders.push_back(order);
        }
        Ok(())
    }

    /// The next line, `None` when `until` has passed.
    fn receive(&mut self, until: Option<Instant>) -> Result<Option<Line>, LineError> {
        loop {
            if let Some(end) = self.input.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                match serde_json::from_slice::<Line>(&line) {
                    Ok(line) if line.v < version::oldest() => {
                        return Err(LineError::TooOld(line.v));
                    }
                    Ok(line) => return Ok(Some(line)),
                    Err(_) if is_order(&line) => continue,
                    Err(e) => return Err(LineError::Garbled(e.to_string())),
                }
            }
            if self.input.len() > crate::api::LINE_MAX {
                return Err(LineError::TooLong(self.input.len()));
            }
            if !self.fill(until)? {
                return Ok(None);
            }
        }
    }

    /// False when `until` has passed.
    fn fill(&mut self, until: Option<Instant>) -> Result<bool, LineError> {
        let wait = until.map(|t| t.saturating_duration_since(Instant::now()));
        // A timeout of zero would mean none, and the shortest is a kernel tick (socket(7), SO_RCVTIMEO).
        if wait == Some(Duration::ZERO) && !sys::is_readable(self.stream.as_raw_fd()) {
            return Ok(false);
        }
        let wait = wait.map(|w| w.max(Duration::from_micros(1)));
        self.stream.set_read_timeout(wait)?;
        let mut buf = [0; 16384];
        match self.stream.read(&mut buf) {
            Ok(0) => Err(LineError::Closed),
            Ok(n) => {
                self.input.extend_from_slice(&buf[..n]);
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(e) => Err(e.into()),
        }
    }
}

/// Whether it is an order from a newer daemon that this program does not know: it cannot be carried out, and is
/// skipped.
fn is_order(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Unknown {
        #[serde(rename = "order")]
        _order: serde::de::IgnoredAny,
    }
    serde_json::from_slice::<Unknown>(line).is_ok()
}

impl Reporter {
    pub fn report(&self, report: Report) -> Result<(), LineError> {
        self.send(0, Body::Report(report))
    }

    fn send(&self, id: u64, body: Body) -> Result<(), LineError> {
        let line = encode(&Line {
            v: version::spoken(),
            id,
            body,
        })?;
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(stream.write_all(&line)?)
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsRawFd for Session {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::read_line;
    use armento_model::Stay;
    use std::io::BufReader;
    use std::os::unix::net::UnixListener;
    use std::thread;

    fn line(id: u64, body: Body) -> Vec<u8> {
        let v = version::spoken();
        encode(&Line { v, id, body }).expect("encode")
    }

    #[test]
    fn answers_match_their_request_and_orders_are_kept() {
        let path = std::env::temp_dir().join(format!("armento-session-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("bind");
        let daemon = thread::spawn(move || {
            let (mut s, _) = listener.accept().expect("accept");
            let mut from = BufReader::new(s.try_clone().expect("clone"));
            let asked: Line = read_line(&mut from).expect("question");
            assert!(matches!(asked.body, Body::Ask(Ask::Nodes)));
            let mut out = line(
                0,
                Body::Order(Order::Expel {
                    why: String::new(),
                    stay: Stay::NotTrusted,
                    for_ms: 1,
                }),
            );
            out.extend(line(asked.id + 7, Body::Ok(Answer::Done)));
            out.extend(line(asked.id, Body::Ok(Answer::Nodes { nodes: vec![] })));
            s.write_all(&out).expect("write");
            let told: Line = read_line(&mut from).expect("report");
            assert!(matches!(told.body, Body::Report(_)));
        });
        let long = Duration::from_secs(20);
        let mut session = Session::connect_to(&path).expect("connect");
        std::fs::remove_file(&path).expect("remove");
        let answer = session.ask(Ask::Nodes, long).expect("answer");
        assert!(matches!(answer, Answer::Nodes { .. }));
        assert!(session.has_order());
        let order = session.order(Some(long)).expect("order");
        assert!(matches!(order, Some(Order::Expel { for_ms: 1, .. })));
        let none = session.order(Some(Duration::ZERO)).expect("no order");
        assert!(none.is_none());
        session
            .report(Report::Procs {
                procs: vec![],
                ran: Vec::new(),
            })
            .expect("report");
        daemon.join().expect("daemon");
        assert!(matches!(
            session.order(None),
            Err(AskError::Line(LineError::Closed))
        ));
    }

    #[test]
    fn missing_daemon_is_reported() {
        let e = Session::connect_to(Path::new("/nonexistent/armento.sock"))
            .err()
            .expect("no daemon listens");
        assert!(e.hint().contains("armento node"));
    }
}
