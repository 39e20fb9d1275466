//! SWIM membership (foca) and the sealed datagrams, on one socket.

use super::timers::Timers;
use super::timing::swim_config;
use crate::peer::{Kind, Seal};
use crate::state::{Life, Node, Standing, State};
use armento_gossip::Message;
use armento_link::sockets;
use foca::{AccumulatingRuntime, Foca, NoCustomBroadcast, PostcardCodec};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::UdpSocket;
use tokio::time::Instant;

/// Members that are told of a new address at once; the others learn of it from them.
const TOLD_MAX: usize = 64;

pub struct Swim {
    pub node: Arc<Node>,
    socket: UdpSocket,
    seal: Seal,
    /// Of the revocation list that the seal comes from.
    epoch: u64,
    foca: Foca<Life, PostcardCodec, StdRng, NoCustomBroadcast>,
    runtime: AccumulatingRuntime<Life>,
    timers: Timers,
    /// The membership may have changed since it was last looked at …
    changed: bool,
    /// … and what it was then, as one number whatever their order.
    lives: u64,
    /// Datagrams came that our seal does not open.
    foreign: bool,
}

pub fn dice(node: &Node) -> StdRng {
    StdRng::seed_from_u64(node.farm.boot ^ u64::from(std::process::id()).rotate_left(32))
}

impl Swim {
    pub fn new(node: Arc<Node>, socket: UdpSocket) -> Swim {
        let me = Life {
            name: node.farm.node.clone(),
            boot: node.farm.boot,
            addr: node.addr(),
        };
        let revocation = node.revoked.list();
        Swim {
            seal: Seal::new(&revocation.secret),
            epoch: revocation.epoch,
            foca: Foca::new(me, swim_config(), dice(&node), PostcardCodec),
            runtime: AccumulatingRuntime::new(),
            timers: Timers::default(),
            changed: true,
            lives: 0,
            foreign: false,
            node,
            socket,
        }
    }

    /// When the next timer is due.
    pub fn due(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The next datagram. It may be dropped before it is ready.
    pub async fn next(&self, buf: &mut [u8]) -> std::io::Result<(usize, SocketAddr)> {
        self.socket.recv_from(buf).await
    }

    /// When a node is removed the secret changes, and with it the membership begins anew: what is said of the removed
    /// one under the old secret, by members that do not know yet, must not be carried over.
    pub fn reseal(&mut self) {
        let revocation = self.node.revoked.list();
        if revocation.epoch == self.epoch {
            return;
        }
        (self.seal, self.epoch) = (Seal::new(&revocation.secret), revocation.epoch);
        let me = self.foca.identity().clone();
        self.foca = Foca::new(me, swim_config(), dice(&self.node), PostcardCodec);
        self.runtime = AccumulatingRuntime::new();
        self.timers.clear();
        let lives: Vec<Life> = {
            let core = self.node.lock();
            let up = core.members.up();
            up.map(Standing::life).collect()
        };
        let alive = lives.into_iter().map(foca::Member::alive);
        self.changed = true;
        if let Err(e) = self.foca.apply_many(alive, true, &mut self.runtime) {
            tracing::warn!("membership begins without its members: {e}");
        }
    }

    /// Takes one datagram.
    pub fn receive(&mut self, datagram: &[u8], from: SocketAddr) {
        self.reseal();
        let Some((kind, payload)) = self.seal.open(datagram) else {
            tracing::debug!("{from}: not a member's datagram");
            self.foreign = true;
            return;
        };
        match kind {
            Kind::Swim => {
                self.changed = true;
                if let Err(e) = self.foca.handle_data(payload, &mut self.runtime) {
                    tracing::debug!("{from}: {e}");
                }
            }
            Kind::ToCome => {}
            Kind::Vector => {
                let Ok(message) = postcard::from_bytes::<Message>(payload) else {
                    tracing::debug!("{from}: not a load vector");
                    return;
                };
                let now = self.node.now();
                let received = self.node.lock().vector.receive(message, now);
                if received.double {
                    tracing::error!(
                        "another node calls itself {} too; one of the two must leave and join under another name",
                        self.node.farm.node
                    );
                }
            }
        }
    }

    /// Runs the timers that are due.
    pub fn fire(&mut self) {
        let now = Instant::now();
        while let Some(timer) = self.timers.pop(now) {
            self.changed = true;
            if let Err(e) = self.foca.handle_timer(timer, &mut self.runtime) {
                tracing::debug!("membership timer: {e}");
            }
        }
    }

    /// The others know a member by its newest life. Each is called: a member that has not heard of the new address calls
    /// the old one.
    pub fn move_to(&mut self, addr: SocketAddr) {
        let before = self.foca.identity().clone();
        let life = Life {
            boot: before.boot + 1,
            addr,
            ..before
        };
        if let Err(e) = self.foca.change_identity(life, &mut self.runtime) {
            tracing::warn!("the others cannot be told of the new address: {e}");
        }
        let lives: Vec<Life> = {
            let core = self.node.lock();
            core.members.iter().map(Standing::life).collect()
        };
        for life in lives.into_iter().take(TOLD_MAX) {
            if let Err(e) = self.foca.announce(life, &mut self.runtime) {
                tracing::debug!("telling a member of the new address: {e}");
            }
        }
        self.changed = true;
    }

    /// Calls a member that is down.
    pub fn call(&mut self, life: Life) {
        let name = life.name.clone();
        if let Err(e) = self.foca.announce(life, &mut self.runtime) {
            tracing::debug!("calling {name}: {e}");
        }
    }

    /// Tells the others that this node leaves the farm.
    pub fn leave(&mut self) {
        let _ = self.foca.leave_cluster(&mut self.runtime);
    }

    /// Whether datagrams came since the last call that our seal does not open.
    pub fn take_foreign(&mut self) -> bool {
        std::mem::take(&mut self.foreign)
    }

    /// The membership is to be read again, whatever it was.
    pub fn look_again(&mut self) {
        (self.changed, self.lives) = (true, 0);
    }

    /// Carries out what foca wants: datagrams, timers, changes of the membership.
    pub async fn settle(&mut self) {
        while let Some((to, bytes)) = self.runtime.to_send() {
            self.send(to.addr, Kind::Swim, &bytes).await;
        }
        let now = Instant::now();
        while let Some((after, timer)) = self.runtime.to_schedule() {
            self.timers.set(now + after, timer);
        }
        while self.runtime.to_notify().is_some() {}
        if std::mem::take(&mut self.changed) {
            self.sync();
        }
    }

    /// Suspicion comes without a notification, so the whole table is read; it is small.
    fn sync(&mut self) {
        let hashed = |m: &foca::Member<Life>| {
            let mut hasher = DefaultHasher::new();
            (m.id(), m.state() as u8).hash(&mut hasher);
            hasher.finish()
        };
        let all = self.foca.iter_membership_state();
        let sum = all.map(hashed).fold(0, u64::wrapping_add);
        if std::mem::replace(&mut self.lives, sum) == sum {
            return;
        }
        let lives = self.foca.iter_membership_state().map(|m| {
            let state = match m.state() {
                foca::State::Alive => State::Alive,
                foca::State::Suspect => State::Suspect,
                foca::State::Down => State::Down,
            };
            (m.id().clone(), state)
        });
        let store = {
            let mut core = self.node.lock();
            let core = &mut *core;
            core.members.sync(lives, &mut core.vector);
            core.members.changed()
        };
        if store {
            self.note_members();
        }
    }

    /// Writes the roster on another thread: a disk may take longer than a placement may.
    fn note_members(&self) {
        let node = self.node.clone();
        node.lock().members.stored();
        tokio::task::spawn_blocking(move || {
            if let Err(e) = node.save_roster() {
                tracing::warn!("{e}: a restart will not know all members");
            }
        });
    }

    pub async fn send(&self, to: SocketAddr, kind: Kind, payload: &[u8]) {
        // Of an address family that our socket does not have: it cannot be reached.
        let Some(to) = sockets::for_socket(to, self.node.farm.listen) else {
            tracing::debug!(
                "to {to}: this node listens at {} only",
                self.node.farm.listen.ip()
            );
            return;
        };
        let sealed = self.seal.close(kind, payload);
        // A lost datagram is what SWIM expects of a network.
        if let Err(e) = self.socket.send_to(&sealed, to).await {
            tracing::trace!("to {to}: {e}");
        }
    }
}
