//! Keepers and hosts say hello, and get identities.

use super::client::Client;
use crate::error::{Result, refusal, stays};
use crate::line_sender::LineSender;
use crate::membership::expel_order;
use crate::state::may;
use armento_client::api::{Answer, Body, Build, HostHello, KeeperHello, Order, VERSION_MAX};
use armento_client::version;
use armento_history::Began;
use armento_link::{Badge, Role};
use armento_model::{Stay, clean};

pub fn host(client: &Client, hello: &HostHello) -> Result<Answer> {
    let node = &client.node;
    let out = client.out.clone();
    let mut core = node.lock();
    let leaving = core.leaving.then(|| out.clone());
    to_come(&out);
    let hello = HostHello {
        build: shown(&hello.build),
        ..hello.clone()
    };
    let known = core
        .hosts
        .said_hello(&hello, client.pid, client.session, out);
    if let Some(out) = leaving.filter(|_| known) {
        out.send(0, Body::Order(expel_order()));
    }
    if known && core.hosts.was_there(client.session) {
        // Of those that were removed meanwhile one is enough: it renews what it knows of all.
        let gone = core.members.removed(&node.revoked.list()).pop_first();
        gone.map(|node| client.out.send(0, Body::Order(Order::Cut { node })));
    }
    known.then_some(Answer::Done).ok_or_else(|| {
        refusal(
            "not-trusted",
            "this daemon did not start this host",
            "it ends by itself",
        )
    })
}

pub fn keep(client: &Client, hello: &KeeperHello) -> Result<Answer> {
    if !may(client.uid, hello.uid) {
        let what = "a keeper may speak for its own user only";
        return Err(refusal("not-trusted", what, "start it as that user"));
    }
    let mut core = client.node.lock();
    let other = core
        .keepers
        .all()
        .any(|k| k.hello.tree == hello.tree && k.hello.uid != hello.uid);
    if other {
        let what = "this tree is another user's";
        return Err(refusal("not-trusted", what, "start it again"));
    }
    if let Some(held) = core.keepers.held_above(hello) {
        let what = format!("process {held} has a keeper, which keeps what it starts, too");
        return Err(refusal("held", what, "armento migrate moves it"));
    }
    if hello.was_there() {
        core.rejoin.came(client.pid.unwrap_or(0));
        // What the daemon before this one could not send any more.
        for node in core.members.removed(&client.node.revoked.list()) {
            client.out.send(0, Body::Order(Order::Cut { node }));
        }
    }
    let out = client.out.clone();
    to_come(&out);
    let hello = KeeperHello {
        // Its work counts as the farm's: that of no other process.
        keeper: client.pid.unwrap_or(hello.keeper),
        build: shown(&hello.build),
        ..hello.clone()
    };
    client.node.history.began(&Began {
        tree: hello.tree,
        uid: hello.uid,
        command: hello.command.clone(),
        fresh: !hello.was_there(),
    });
    core.keepers.said_hello(client.session, hello, out);
    // There is a process to decide about.
    client.node.freed.notify_one();
    Ok(Answer::Done)
}

/// What it says of itself, as people are shown it.
fn shown(build: &Build) -> Build {
    let version = clean(&build.version);
    Build {
        version: version.chars().take(VERSION_MAX).collect(),
        ..*build
    }
}

/// What a keeper or host of today must pass over.
fn to_come(out: &LineSender) {
    if version::is_to_come() {
        out.send(0, Body::Order(Order::ToCome));
    }
}

/// A new identity for the keeper or host of this session; it can have that of no other.
pub fn identity(client: &Client) -> Result<Answer> {
    let node = &client.node;
    let (role, tree) = {
        let core = node.lock();
        let keeper = core.keepers.of_session(client.session);
        let keeper = keeper.map(|k| (Role::Keeper, (k.hello.tree, k.hello.uid)));
        keeper.or_else(|| {
            let host = core.hosts.of_session(client.session)?;
            Some((Role::Host, (host.tree, host.uid)))
        })
    }
    .ok_or_else(|| {
        let what = "only a keeper or host that said hello has an identity";
        refusal("not-trusted", what, "say hello first")
    })?;
    let badge = Badge {
        node: node.farm.node.clone(),
        tree: Some(tree),
        role,
    };
    let signed = node.short(&badge);
    let identity = signed.map_err(|e| stays("the tree", Stay::LinkLost, &e.to_string()))?;
    Ok(Answer::Identity { identity })
}
