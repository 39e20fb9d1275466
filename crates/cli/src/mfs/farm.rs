//! What the mount asks of its daemon, over the control socket.
//!
//! From: `mfs/src/farm.rs`. Next: `noded/src/mfs/route.rs`, `noded/src/mfs/places.rs`. A daemon that is being restarted
//! answers a moment later: streams that are there go on, the list of nodes is the last that was known.

use armento_client::api::{Answer, Ask, MfsPlaces, MfsRoute, NodeInfo};
use armento_client::{Again, AskError, Session};
use armento_link::{Duplex, dial};
use armento_mfs::{Farm, FarmNode, Places, Shown, Unreachable};
use armento_model::{NodeName, Pid};
use armento_mosix::hpc;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The daemon answers these from what it has.
const QUICK: Duration = Duration::from_secs(2);
/// It asks another, which may start a file server.
const ROUTED: Duration = Duration::from_secs(8);
/// A connection to a file server that listens.
const DIALLED: Duration = Duration::from_secs(3);
/// A daemon that is being restarted is waited for.
const RESTARTED: Duration = Duration::from_secs(3);
/// Nodes come and go with gossip's period, a second.
const NODES_FRESH: Duration = Duration::from_millis(500);

pub struct ByDaemon {
    socket: PathBuf,
    me: NodeName,
    session: Mutex<Option<Session>>,
    nodes: Mutex<(Option<Instant>, Vec<FarmNode>)>,
    view: Mutex<Option<(Instant, hpc::View)>>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves nothing half-done under these locks.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ByDaemon {
    pub fn new(socket: PathBuf, me: NodeName) -> ByDaemon {
        ByDaemon {
            socket,
            nodes: Mutex::new((None, vec![own(&me)])),
            me,
            session: Mutex::default(),
            view: Mutex::default(),
        }
    }

    /// A question that is answered at once, on the session that is kept.
    fn quick(&self, ask: &Ask) -> Result<Answer, AskError> {
        let mut kept = lock(&self.session);
        let was_kept = kept.is_some();
        let first = self.on(&mut kept, ask);
        match first {
            // The daemon it was made with has ended; another may be there.
            Err(AskError::Line(_)) if was_kept => self.on(&mut kept, ask),
            answer => answer,
        }
    }

    fn on(&self, kept: &mut Option<Session>, ask: &Ask) -> Result<Answer, AskError> {
        let mut session = match kept.take() {
            Some(session) => session,
            None => Session::connect_to(&self.socket)?,
        };
        let answer = session.ask(ask.clone(), QUICK);
        if matches!(answer, Ok(_) | Err(AskError::Refused(_))) {
            *kept = Some(session);
        }
        answer
    }

    /// On a session of its own: others are not to wait for another node.
    /// What `.proc` shows, as old as [`NODES_FRESH`] at most: a file is asked for several times while it is read.
    fn view(&self) -> Option<hpc::View> {
        let mut known = lock(&self.view);
        let fresh = |(at, _): &&(Instant, hpc::View)| at.elapsed() < NODES_FRESH;
        if let Some((_, view)) = known.as_ref().filter(fresh) {
            return Some(view.clone());
        }
        let mut session = Session::connect_to(&self.socket).ok()?;
        let view = hpc::View::ask(&mut session).ok()?;
        *known = Some((Instant::now(), view.clone()));
        Some(view)
    }

    fn route(&self, node: &NodeName, uid: u32) -> Result<MfsRoute, Unreachable> {
        let lost = |e: AskError| Unreachable::Lost(e.to_string());
        let ask = Ask::MfsRoute {
            node: node.clone(),
            uid,
        };
        let until = Instant::now() + RESTARTED;
        let mut again = Again::default();
        loop {
            let asked = Session::connect_to(&self.socket);
            match asked.and_then(|mut s| s.ask(ask.clone(), ROUTED)) {
                Ok(Answer::MfsRoute(route)) => return Ok(route),
                Ok(_) => return Err(Unreachable::Lost("it answered something else".into())),
                Err(AskError::Refused(no)) => {
                    return Err(match no.code.as_str() {
                        "unknown-node" => Unreachable::Unknown,
                        "link-lost" | "failed" | "leaving" | "no-such-node" => {
                            Unreachable::Lost(no.message)
                        }
                        _ => Unreachable::Refused(no.message),
                    });
                }
                Err(AskError::NoDaemon { .. } | AskError::Line(_)) if Instant::now() < until => {
                    sleep(again.pause());
                }
                Err(e) => return Err(lost(e)),
            }
        }
    }
}

impl Farm for ByDaemon {
    fn nodes(&self) -> Vec<FarmNode> {
        let fresh = |at: &Instant| at.elapsed() < NODES_FRESH;
        {
            let known = lock(&self.nodes);
            if known.0.as_ref().is_some_and(fresh) {
                return known.1.clone();
            }
        }
        let answer = self.quick(&Ask::Nodes);
        let mut known = lock(&self.nodes);
        if let Ok(Answer::Nodes { nodes }) = answer {
            known.1 = farm_nodes(&nodes);
        }
        known.0 = Some(Instant::now());
        known.1.clone()
    }

    fn connect(&self, node: &NodeName, uid: u32) -> Result<Duplex, Unreachable> {
        let dialled = |route: &MfsRoute| dial(&route.addr, &route.identity, &route.expect, DIALLED);
        match dialled(&self.route(node, uid)?) {
            Ok(duplex) => Ok(duplex),
            // A file server ends when nobody uses it, perhaps just now: then there is another.
            Err(_) => {
                dialled(&self.route(node, uid)?).map_err(|e| Unreachable::Lost(e.to_string()))
            }
        }
    }

    fn places(&self, pid: u32) -> Places {
        match self.quick(&Ask::MfsPlaces { pid: pid as Pid }) {
            Ok(Answer::MfsPlaces(p)) => places(p),
            _ => Places {
                here: self.me.clone(),
                home: self.me.clone(),
                last_exec: self.me.clone(),
                magic: self.me.clone(),
                selected: self.me.clone(),
            },
        }
    }

    fn shown(&self, uid: u32, path: &str) -> Option<Shown> {
        let mut view = self.view()?;
        // The mount is root's, and sees all; its caller sees what `armento ps` shows it.
        view.procs.retain(|p| uid == 0 || p.uid == uid);
        Some(match hpc::entry(&view, path)? {
            hpc::Entry::Dir(names) => Shown::Dir(names),
            hpc::Entry::File(text) => Shown::File(text),
        })
    }

    fn made(&self, pid: u32, node: &NodeName) {
        let ask = Ask::MfsMade {
            pid: pid as Pid,
            node: node.clone(),
        };
        if let Err(e) = self.quick(&ask) {
            eprintln!("armento mfs-mount: {e}: /mfs/magic of process {pid} stays as it was");
        }
    }
}

fn own(me: &NodeName) -> FarmNode {
    FarmNode {
        name: me.clone(),
        number: None,
        own: true,
        alive: true,
    }
}

fn farm_nodes(nodes: &[NodeInfo]) -> Vec<FarmNode> {
    let ip = |n: &NodeInfo| {
        let (host, _) = n.addr.rsplit_once(':')?;
        host.trim_matches(['[', ']']).parse().ok()
    };
    let known: Vec<_> = nodes.iter().map(|n| (&n.name, ip(n))).collect();
    let numbers = armento_mosix::ids(&known);
    let node = |(n, number): (&NodeInfo, &u16)| FarmNode {
        name: n.name.clone(),
        number: Some(u32::from(*number)).filter(|n| *n > 0),
        own: n.here,
        alive: n.here || n.state != "down",
    };
    nodes.iter().zip(&numbers).map(node).collect()
}

fn places(p: MfsPlaces) -> Places {
    Places {
        here: p.here,
        home: p.home,
        last_exec: p.last_exec,
        magic: p.magic,
        selected: p.selected,
    }
}
