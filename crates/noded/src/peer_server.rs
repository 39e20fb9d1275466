//! Answers to other daemons, and to nodes that want to join.
//!
//! From: `noded/src/peer/protocol.rs`. Next: the room that can answer.

use crate::clock::realtime_ns;
use crate::error::refusal;
use crate::kept;
use crate::membership::{admit_node, apply_statement, remaining};
use crate::mfs::serve_files;
use crate::peer::{CallError, PeerAnswer, PeerAsk, Question, Replied, Reply, set_timeouts};
use crate::policy::drain_info;
use crate::remote::{PassOn, sign_in_remote, sign_out_remote};
use crate::revocation::Statement;
use crate::state::Node;
use crate::sys;
use crate::upgrade::{self, versions_info};
use crate::web::act_for;
use crate::work::admit_guests;
use armento_client::api::Refusal;
use armento_client::{LineError, encode, read_line, version};
use armento_link::{Badge, Closer, Duplex, Identity, LinkError, Listener, Role};
use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Connections at once; more are refused by closing.
const SERVED_MAX: usize = 128;
/// With more than this, a connection is closed after its answer: places are for daemons that ask.
const WAITED_MAX: usize = 64;
/// A connection that sends no whole line for so long is closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Listens until the returned closer is used.
pub fn listen(node: &Arc<Node>, me: &Identity) -> Result<(Arc<Listener>, Closer), LinkError> {
    let listener = Arc::new(Listener::bind_open(&node.farm.listen.to_string(), me)?);
    let closer = listener.closer()?;
    let (node, accepting) = (node.clone(), listener.clone());
    thread::Builder::new()
        .name("peers".into())
        .spawn(move || accept(&node, &accepting))?;
    Ok((listener, closer))
}

fn accept(node: &Arc<Node>, listener: &Listener) {
    let served = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept_any() {
            Ok((duplex, who)) => spawn(node, &served, duplex, who),
            Err(LinkError::Closed) => return,
            Err(LinkError::Io(e)) => {
                // Out of descriptors or memory: wait for some to come back rather than spin.
                tracing::warn!("accepting from other nodes: {e}");
                thread::sleep(Duration::from_millis(100));
            }
            Err(e) => tracing::info!("{e}"),
        }
    }
}

fn spawn(node: &Arc<Node>, served: &Arc<AtomicUsize>, duplex: Duplex, who: Option<Badge>) {
    if served.fetch_add(1, Ordering::Relaxed) >= SERVED_MAX {
        served.fetch_sub(1, Ordering::Relaxed);
        tracing::warn!("too many questions at once; one was dropped");
        return;
    }
    let (node, count) = (node.clone(), served.clone());
    let serve = move || {
        if let Err(e) = serve(&node, duplex, who, &count) {
            tracing::info!("question of another node: {e}");
        }
        count.fetch_sub(1, Ordering::Relaxed);
    };
    if let Err(e) = thread::Builder::new().name("peer".into()).spawn(serve) {
        served.fetch_sub(1, Ordering::Relaxed);
        tracing::warn!("cannot answer another node: {e}");
    }
}

fn serve(
    node: &Arc<Node>,
    duplex: Duplex,
    who: Option<Badge>,
    served: &AtomicUsize,
) -> Result<(), CallError> {
    set_timeouts(duplex.socket(), PATIENCE)?;
    // A node that was removed since proves nothing by its certificate.
    let epoch = node.revoked.list().epoch;
    let from = duplex.socket().peer_addr().ok();
    let socket = duplex.socket().try_clone().map_err(LinkError::from)?;
    let (reader, mut writer) = duplex.split()?;
    let mut reader = BufReader::new(reader);
    let mut answered = false;
    loop {
        let question = match read_line::<Question>(&mut reader) {
            Ok(question) => match version::too_old("the asking daemon", question.v) {
                Some(no) => Err(no),
                None => Ok(question),
            },
            // A whole line of a later version: that daemon learns that this one does not know it. Strangers learn nothing.
            Err(LineError::Garbled(e)) if who.is_some() => Err(unknown(node, &e)),
            // It has asked what it wanted.
            Err(LineError::Closed | LineError::Io(_)) if answered => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        if node.revoked.list().epoch != epoch {
            return Ok(());
        }
        let mut remote = None;
        let take = |q: Question| match q.ask {
            PeerAsk::Control { secret } => {
                remote = Some(PassOn::begin(node, &secret)?);
                Ok(PeerAnswer::Done)
            }
            ask => answer(node, who.as_ref(), from, ask),
        };
        let reply = match question.and_then(take) {
            Ok(answer) => Reply::Ok(answer),
            Err(refusal) => Reply::Err(refusal),
        };
        let v = version::spoken();
        let line = encode(&Replied { v, reply })?;
        let send = |w: &mut armento_link::Writer| w.write_all(&line).and_then(|()| w.flush());
        send(&mut writer).map_err(LineError::from)?;
        if let Some(remote) = remote {
            return Ok(remote
                .run(reader, writer, &socket)
                .map_err(LineError::from)?);
        }
        answered = true;
        if who.is_none() || served.load(Ordering::Relaxed) > WAITED_MAX {
            break;
        }
    }
    // The TLS close is a courtesy: the answer is on its way.
    let _ = writer.close();
    Ok(())
}

fn unknown(node: &Node, e: &str) -> Refusal {
    let message = format!(
        "{} (control version {}) does not understand this: {e}; nothing was done",
        node.farm.node,
        version::both()
    );
    refusal("unknown-question", message, "update Armento there")
}

/// Numbers of users are each node's own: a user with another name here is another person.
fn same_user(
    node: &Node,
    who: &Badge,
    uid: Option<u32>,
    name: Option<String>,
) -> Result<(), Refusal> {
    let (Some(uid), Some(name)) = (uid, name) else {
        return Ok(());
    };
    if sys::name_of(uid).unwrap_or_default() == name {
        return Ok(());
    }
    let (here, there) = (&node.farm.node, &who.node);
    Err(refusal(
        "another-user",
        format!("user {uid} of {here} is not user {uid} of {there}"),
        "ask as root, or on that node",
    ))
}

fn answer(
    node: &Arc<Node>,
    who: Option<&Badge>,
    from: Option<SocketAddr>,
    ask: PeerAsk,
) -> Result<PeerAnswer, Refusal> {
    let ask = match ask {
        PeerAsk::Join(ask) => return admit_node(node, ask, from, realtime_ns()),
        PeerAsk::SignIn { token } => return sign_in_remote(node, &token),
        PeerAsk::SignOut { secret } => return Ok(sign_out_remote(node, &secret)),
        ask => ask,
    };
    let stranger = || {
        refusal(
            "not-trusted",
            "only daemons of this farm are answered",
            "join it first: `armento join TOKEN A:P`",
        )
    };
    let who = who
        .filter(|b| b.role == Role::Daemon && b.tree.is_none())
        .ok_or_else(stranger)?;
    match ask {
        PeerAsk::Join(_)
        | PeerAsk::SignIn { .. }
        | PeerAsk::SignOut { .. }
        | PeerAsk::Control { .. } => Err(stranger()),
        PeerAsk::ToCome => Err(unknown(node, "it is to come")),
        PeerAsk::Admit(ask) => admit_guests(node, &who.node, &ask),
        PeerAsk::Clock => Ok(PeerAnswer::Clock {
            realtime_ns: realtime_ns(),
        }),
        PeerAsk::Ps { uid, name } => {
            same_user(node, who, uid, name)?;
            Ok(PeerAnswer::Ps {
                procs: node.lock().procs(uid),
            })
        }
        PeerAsk::History { uid, name, query } => {
            same_user(node, who, uid, name)?;
            let info = node.history.info(&query, uid);
            let info = info.map_err(|e| refusal("history", e.to_string(), e.hint()))?;
            Ok(PeerAnswer::History { info })
        }
        PeerAsk::Files { uid, name } => {
            let addr = serve_files(node, &who.node, uid, &name)?;
            Ok(PeerAnswer::Files { addr })
        }
        PeerAsk::Act { uid, name, action } => {
            let answer = act_for(node, &who.node, (uid, &name), action)?;
            Ok(PeerAnswer::Acted { answer })
        }
        PeerAsk::Drain => Ok(PeerAnswer::Drain {
            info: drain_info(node, true),
        }),
        PeerAsk::Versions => Ok(PeerAnswer::Versions {
            info: versions_info(node),
        }),
        PeerAsk::Keep {
            tree,
            uid,
            name,
            step,
        } => {
            let owner = kept::Owner {
                home: &who.node,
                tree,
                uid,
                name: &name,
            };
            let answer = kept::step(node, &owner, step)?;
            Ok(PeerAnswer::Keep { answer })
        }
        PeerAsk::Kept { uid, name } => {
            let kept = kept::kept_here(node, uid, name.as_deref());
            Ok(PeerAnswer::Kept { kept })
        }
        PeerAsk::Boot => Ok(PeerAnswer::Boot {
            boot: sys::boot_id(),
        }),
        PeerAsk::ProgramPart { offset, data } => {
            upgrade::part(node, offset, &data)?;
            Ok(PeerAnswer::Done)
        }
        PeerAsk::ProgramEnd { sha256 } => {
            upgrade::ended(node, &sha256)?;
            Ok(PeerAnswer::Done)
        }
        PeerAsk::Said(said) => {
            apply_statement(node, &said)?;
            Ok(match said.statement(&node.credentials.keys.ca_pem) {
                Some(Statement::Drain { node: name, .. }) => PeerAnswer::Left {
                    count: remaining(node, &name),
                },
                _ => PeerAnswer::Done,
            })
        }
        PeerAsk::News { epoch } => Ok(PeerAnswer::News {
            said: node
                .revoked
                .statement()
                .filter(|_| node.revoked.list().epoch > epoch),
        }),
        PeerAsk::Left => {
            node.lock().member_left(&who.node);
            tracing::info!("{} has left the farm", who.node);
            Ok(PeerAnswer::Done)
        }
    }
}
