//! Carrying out what was decided.
//!
//! From: `balance/src/decide.rs`. Next: `migrate/src/source/mod.rs` (the keeper moves the process).

use crate::keepers::{Decided, needs, program_name};
use crate::state::{Core, Node};
use armento_balance::{Fresh, Grounds, Kind, Move, Policy, decide, drain, place};
use armento_client::api::{Dest, Order, Outcome};
use armento_gossip::Tick;
use armento_model::{NodeName, Pid};
use std::sync::Arc;
use std::time::Duration;

/// Once a period: orders what the policy wants.
pub fn order_moves(node: &Node) {
    let now = node.now();
    let mut core = node.lock();
    if core.leaving || core.switches.quiet() {
        return;
    }
    let view = node.near(&mut core);
    core.ledger.progress(&view, &node.policy, now);
    let (keeps, leaves) = (
        core.switches.keeps_home().is_some(),
        core.switches.sends_own(),
    );
    // A drained home is emptied first; what is elsewhere then stays elsewhere.
    let mut moves = match leaves {
        true => drain(&view, &node.policy, now).moves,
        false => Vec::new(),
    };
    if moves.is_empty() {
        moves = decide(&view, &node.policy, now);
    }
    moves.retain(|m| match m.to == core.me {
        true => !leaves,
        false => !keeps,
    });
    for chosen in moves {
        if node.config.dry_run {
            let me = core.me.clone();
            let dry = decided(chosen.grounds, 0, Outcome::DryRun);
            core.keepers.log_decision(chosen.pid, &me, &chosen.to, dry);
            continue;
        }
        order(&mut core, &chosen, &node.policy, now);
    }
}

/// Acts when a process of this home has ended, too; and more often than once a second where a policy's own period is shorter.
pub async fn order_moves_when_freed(node: Arc<Node>) {
    let pause = Duration::from_millis(node.policy.prompt_ms);
    let is_short = node.policy.kind == Kind::Armento;
    loop {
        let freed = node.freed.notified();
        // Without programs of this home there is nothing to decide until the first one starts.
        let (youngest, flying) = {
            let core = node.lock();
            (
                core.youngest_ms().filter(|_| is_short),
                core.ledger.flying(),
            )
        };
        match youngest {
            Some(age_ms) => {
                let period = Duration::from_millis(node.policy.pause_ms(age_ms, flying));
                let _ = tokio::time::timeout(period, freed).await;
            }
            None => freed.await,
        }
        order_moves(&node);
        // What ended meanwhile counts in the next decision.
        tokio::time::sleep(pause).await;
    }
}

fn decided(grounds: Grounds, ticket: u64, outcome: Outcome) -> Decided<'static> {
    Decided {
        cause: grounds.cause.name(),
        figures: Some(grounds),
        ticket,
        outcome,
    }
}

fn order(core: &mut Core, chosen: &Move, policy: &Policy, now: Tick) {
    let Some(tree) = core.keepers.holder(chosen.pid).map(|k| k.hello.tree) else {
        return;
    };
    let to = if chosen.to == core.me {
        Dest::Home
    } else {
        Dest::Node(chosen.to.clone())
    };
    let (pid, ticket) = (chosen.pid, core.next_number());
    let order = Order::Move {
        pid,
        to,
        ticket,
        balances: true,
        together: core.ledger.is_grouped(pid),
        by_hand: false,
    };
    if core.keepers.order(tree, pid, ticket, order, None) {
        core.ledger.moving(chosen, policy, now);
        let me = core.me.clone();
        let ordered = decided(chosen.grounds, ticket, Outcome::UnderWay);
        core.keepers.log_decision(pid, &me, &chosen.to, ordered);
    }
}

/// A fresh program, as its keeper describes it.
pub struct Asked<'a> {
    pub pid: Pid,
    pub portable: bool,
    pub command: &'a str,
    pub program: &'a str,
    /// The process that has started it, or 0.
    pub parent: Pid,
    /// Programs of its tree that wait for their turn to ask.
    pub waiting: u64,
}

/// Where a fresh program begins.
pub enum Chosen {
    /// Here, at once: it will end soon.
    Short,
    /// Here, or on another node.
    At(Option<NodeName>),
}

/// Where a fresh program should run. Takes microseconds: everything it needs is known already.
pub fn choose(node: &Node, session: u64, asked: &Asked) -> Chosen {
    let mut core = node.lock();
    match choose_in(node, &mut core, session, asked) {
        None => Chosen::At(None),
        Some(chosen) => chosen,
    }
}

fn choose_in(node: &Node, core: &mut Core, session: u64, asked: &Asked) -> Option<Chosen> {
    let (now, pid) = (node.now(), asked.pid);
    let hello = core.keepers.of_session(session)?.hello.clone();
    let stops = core.switches.holds_home().is_some() || core.leaving;
    let stays = hello.stay || stops || (hello.uid == 0 && !node.trust().allow_root);
    if stays {
        return None;
    }
    if hello.pinned.is_some() {
        return Some(Chosen::At(hello.pinned));
    }
    if core.switches.keeps_home().is_some() {
        return None;
    }
    let fresh = Fresh {
        uid: hello.uid,
        needs: needs(&hello, asked.portable),
        hint: hello.hint,
        files: core.ledger.habit(program_name(&hello.command), now),
        begin: core.keepers.begins(session) + asked.waiting,
        expected_ms: core.ledger.expected_ms(hello.uid, asked.program),
        leaves: core.switches.sends_own(),
        ..Fresh::default()
    };
    if asked.parent != 0 && core.keepers.is_free_for(&hello, asked.parent) {
        core.ledger.waits(asked.parent);
    }
    let mut view = node.near(core);
    // It is where it is only because it was started there.
    view.procs.retain(|p| p.pid != pid);
    let me = core.me.clone();
    let chosen = place(&view, &node.policy, &fresh);
    if chosen.is_none() && fresh.is_short(&node.policy) {
        core.ledger.placing_short(pid);
        return Some(Chosen::Short);
    }
    let chosen = chosen.unwrap_or_else(|| me.clone());
    let placed = Decided {
        outcome: match node.config.dry_run {
            true => Outcome::DryRun,
            false => Outcome::UnderWay,
        },
        ..Decided::ordered("placed", 0)
    };
    core.keepers
        .log_placement(session, pid, asked.command, &me, &chosen, placed);
    if node.config.dry_run {
        return None;
    }
    core.ledger.placing(pid, &chosen, &fresh, now);
    Some(Chosen::At(Some(chosen).filter(|n| *n != me)))
}
