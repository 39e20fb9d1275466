//! The file server of one user: requests of mounts, made with that user's rights and no others.
//!
//! Nothing outside the exports can be reached: names are single components, opened with openat2(2) below a descriptor;
//! no link is followed here. It finds no node, checks no certificate and starts no process. Start at `session.rs`.

mod dirs;
mod exports;
mod files;
mod inodes;
mod kept;
mod lock_calls;
mod locks;
mod names;
mod opens;
mod pool;
mod res;
mod session;
mod shown;
mod watch;

pub use exports::{Export, Exports};

use crate::MfsError;
use crate::protocol::{
    Entry, FrameReader, Hello, Lane, PATH_MAX, ProtocolError, Request, VERSION, Welcome, encode,
};
use crate::sync::lock;
use armento_link::{Duplex, Reader};
use exports::Checked;
use inodes::{Inodes, ROOT};
use session::{Session, send};
use shown::Shown;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use watch::Watch;

/// Sessions at once at most; a node has one mount.
const SESSIONS_MAX: usize = 64;
/// A session without streams is kept for so long: a mount takes it up again within its deadline.
const KEPT: Duration = Duration::from_secs(60);
/// The first frame of a stream has to come within so long.
const HELLO: Duration = Duration::from_secs(10);
/// Descriptors that are not for files: streams, pipes, the program's own.
const SPARE: u64 = 256;

struct State {
    sessions: HashMap<[u8; 16], Arc<Session>>,
    streams: usize,
    epochs: u64,
    /// Since when there is neither stream nor open file.
    idle: Option<Instant>,
}

pub struct Server {
    exports: Arc<Checked>,
    open_max: usize,
    state: Mutex<State>,
}

impl Server {
    /// A server of the calling process's user. It raises the process's limit of descriptors.
    pub fn new(exports: Exports) -> Result<Arc<Server>, MfsError> {
        let exports = Arc::new(Checked::new(exports)?);
        crate::sys::handle_signals();
        let limit = crate::sys::raise_descriptors();
        // One half for names, the other for open files.
        let open_max = (limit.saturating_sub(SPARE) / 2).clamp(64, 1 << 20) as usize;
        Ok(Arc::new(Server {
            exports,
            open_max,
            state: Mutex::new(State {
                sessions: HashMap::new(),
                streams: 0,
                // Another server of the same mount begins with another number.
                epochs: seed(),
                idle: Some(Instant::now()),
            }),
        }))
    }

    /// Serves one stream until it ends. Any number of threads may call it.
    pub fn serve(&self, duplex: Duplex) -> Result<(), MfsError> {
        lock(&self.state).streams += 1;
        let end = self.serve_one(duplex);
        lock(&self.state).streams -= 1;
        self.sweep();
        end
    }

    /// Since when there is neither a stream nor an open file.
    pub fn idle(&self) -> Option<Duration> {
        self.sweep();
        lock(&self.state).idle.map(|t| t.elapsed())
    }

    /// Ends sessions that nobody takes up again.
    fn sweep(&self) {
        let mut s = lock(&self.state);
        let mut ended = Vec::new();
        s.sessions.retain(|_, x| {
            let over = lock(&x.alone).is_some_and(|t| t.elapsed() > KEPT);
            if over {
                ended.push(x.clone());
            }
            !over
        });
        let busy = s.streams > 0 || s.sessions.values().any(|x| x.is_busy());
        if busy {
            s.idle = None;
        } else if s.idle.is_none() {
            s.idle = Some(Instant::now());
        }
        drop(s);
        ended.iter().for_each(|x| x.locks.cancel_all());
    }

    fn session(&self, h: &Hello) -> Result<Arc<Session>, MfsError> {
        self.sweep();
        let mut s = lock(&self.state);
        if let Some(x) = s.sessions.get(&h.session) {
            // Not to be swept between now and its first stream.
            *lock(&x.alone) = None;
            return Ok(x.clone());
        }
        if s.sessions.len() >= SESSIONS_MAX {
            return Err(MfsError::Peer("too many sessions".into()));
        }
        let inodes = Inodes::new(self.exports.clone(), self.open_max / 2)
            .map_err(|e| MfsError::System(e.into()))?;
        let watch = h.cache.then(Watch::new).flatten().map(Arc::new);
        s.epochs += 1;
        let shown = Shown {
            point: h.point.clone(),
            below: h.below.clone(),
        };
        let x = Arc::new(Session::new(s.epochs, shown, inodes, watch.clone()));
        if let Some(w) = watch {
            let session = Arc::downgrade(&x);
            std::thread::Builder::new()
                .name("mfs-watch".into())
                .spawn(move || kept::tell(session, w))?;
        }
        s.sessions.insert(h.session, x.clone());
        Ok(x)
    }

    fn serve_one(&self, duplex: Duplex) -> Result<(), MfsError> {
        crate::sys::own_umask()?;
        let _ = duplex.socket().set_read_timeout(Some(HELLO));
        let (reader, writer) = duplex.split().map_err(|e| MfsError::Peer(e.to_string()))?;
        let socket = reader.closer()?;
        let mut frames = FrameReader::new(reader);
        let (id, hello, _) = frames.take::<Hello>()?;
        socket.set_read_timeout(None)?;
        if hello.version != VERSION {
            return Err(MfsError::Peer(format!(
                "it speaks version {} of the protocol, this node {VERSION}: upgrade both to the same",
                hello.version
            )));
        }
        if hello.point.len() > PATH_MAX || hello.below.len() > PATH_MAX {
            return Err(MfsError::Peer("its mount point is too long".into()));
        }
        let session = self.session(&hello)?;
        let out = Arc::new(Mutex::new(writer));
        {
            let mut w = lock(&out);
            let welcome = self.welcome(&session)?;
            send(&mut w, &encode(id, &welcome, b""));
            session.attach(hello.lane, out.clone());
        }
        let end = requests(&session, hello.lane, &mut frames);
        // A reply that waits for the peer's window does not wait any longer.
        let _ = socket.shutdown(std::net::Shutdown::Both);
        session.detach(hello.lane, &out);
        end
    }

    fn welcome(&self, s: &Session) -> Result<Welcome, MfsError> {
        let system = |e: rustix::io::Errno| MfsError::System(e.into());
        let node = s.inodes.node(ROOT).map_err(system)?;
        let attr = s.inodes.attr(&node).map_err(system)?;
        Ok(Welcome {
            version: VERSION,
            epoch: s.epoch,
            root: Entry {
                id: ROOT,
                acls: inodes::acls(&node),
                attr,
                name_kept: false,
                attr_kept: false,
            },
            whole: self.exports.whole(),
        })
    }
}

fn requests(
    session: &Arc<Session>,
    lane: Lane,
    frames: &mut FrameReader<Reader>,
) -> Result<(), MfsError> {
    let mut scratch = Vec::new();
    loop {
        match frames.take::<Request>() {
            Ok((id, r, data)) => session.handle(lane, id, r, data, &mut scratch),
            Err(ProtocolError::End) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// A number that another process would not begin with.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut h = std::collections::hash_map::RandomState::new().build_hasher();
    h.write_u32(std::process::id());
    h.finish() >> 16
}
