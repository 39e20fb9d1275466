//! Making, joining, losing and leaving a farm.

use crate::common::{Dir, LONG, Node, farm};
use armento_client::api::Ask;
use armento_link::dial_unknown;
use armento_noded::peer::{CallError, JoinAsk, PeerAsk, talk};
use armento_noded::{FarmError, Wire, leave_without_daemon, new_token};
use std::time::Duration;

#[test]
fn nodes_join_go_down_and_come_back() {
    let dir = Dir::new();
    let (mut nodes, ..) = farm(&dir, &["n1", "n2", "n3"], Wire::Tls);
    nodes[2].stop();
    nodes[0].sees("n3", "down");
    nodes[1].sees("n3", "down");
    nodes[2].start();
    nodes[0].sees("n3", "alive");
    nodes[2].sees("n2", "alive");
    // The first node is like the others: the farm goes on without it, and it finds the farm again.
    nodes[0].stop();
    nodes[1].sees("n1", "down");
    nodes[0].start();
    nodes[0].sees("n3", "alive");
}

#[test]
fn the_load_vector_reaches_every_node() {
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1", "n2", "n3"], Wire::Plain);
    crate::common::until("facts of all nodes", || {
        let known = nodes[2].nodes();
        let full = |n: &armento_client::api::NodeInfo| {
            n.cores > 0 && n.mem_total_kib > 0 && n.wire == "plain" && !n.version.is_empty()
        };
        (known.len() == 3 && known.iter().all(full)).then_some(())
    });
}

fn refused(r: Result<armento_noded::Enrolled, FarmError>) -> String {
    match r {
        Err(FarmError::Refused(no)) => {
            assert!(!no.hint.is_empty() && no.message.contains("nothing was changed"));
            no.code
        }
        Err(e) => panic!("other error: {e}"),
        Ok(_) => panic!("was let in"),
    }
}

#[test]
fn tokens_are_checked() {
    let dir = Dir::new();
    let (nodes, token, addr) = farm(&dir, &["n1"], Wire::Tls);
    let late = Node::new(&dir, "n2");
    let mut wrong = token.clone();
    wrong.secret = "00".repeat(16);
    assert_eq!(refused(late.join(&wrong.to_string(), &addr)), "wrong-token");
    let (expired, _) = new_token(&nodes[0].config, Duration::ZERO, 1).expect("token");
    assert_eq!(
        refused(late.join(&expired.to_string(), &addr)),
        "expired-token"
    );
    let (once, _) = new_token(&nodes[0].config, LONG, 1).expect("token");
    late.join(&once.to_string(), &addr).expect("the first use");
    let again = Node::new(&dir, "n3");
    assert_eq!(refused(again.join(&once.to_string(), &addr)), "used-token");
    let garbled = again.join("armento1Kabc", &addr);
    assert!(matches!(garbled, Err(FarmError::Token(_))));
}

#[test]
fn another_farm_never_gets_the_secret() {
    let dir = Dir::new();
    let (_ours, token, _) = farm(&dir, &["n1"], Wire::Tls);
    let other_dir = Dir::new();
    let (_theirs, _, their_addr) = farm(&other_dir, &["n1"], Wire::Tls);
    let joiner = Node::new(&dir, "n2");
    match joiner.join(&token.to_string(), &their_addr) {
        Err(e @ FarmError::Foreign { .. }) => {
            assert!(e.to_string().contains("the secret was not sent"), "{e}");
        }
        Err(e) => panic!("other error: {e}"),
        Ok(_) => panic!("was let in"),
    }
    let nobody = joiner.join(&token.to_string(), "127.0.0.1:1");
    assert!(matches!(nobody, Err(FarmError::Unreachable { .. })));
}

#[test]
fn a_name_belongs_to_one_node() {
    let dir = Dir::new();
    let (nodes, token, addr) = farm(&dir, &["n1", "n2"], Wire::Tls);
    let twin_dir = Dir::new();
    for name in ["n1", "n2"] {
        let twin = Node::new(&twin_dir, name);
        assert_eq!(
            refused(twin.join(&token.to_string(), &addr)),
            "duplicate-name"
        );
    }
    // Admitted but not started yet: the name is taken all the same.
    let slow = Node::new(&dir, "n3");
    slow.join(&token.to_string(), &addr).expect("join");
    let twin = Node::new(&twin_dir, "n3");
    assert_eq!(
        refused(twin.join(&token.to_string(), &addr)),
        "duplicate-name"
    );
    // Who has left makes room.
    leave_without_daemon(&slow.config).expect("leave");
    twin.join(&token.to_string(), &addr).expect("join");
    drop(nodes);
}

#[test]
fn other_versions_are_refused() {
    let dir = Dir::new();
    let (_nodes, token, addr) = farm(&dir, &["n1"], Wire::Tls);
    let say_of = |version: &str, engine: u32, asked_ns: Option<i64>| {
        let ask = PeerAsk::Join(JoinAsk {
            token: token.id.clone(),
            secret: token.secret.clone(),
            version: version.into(),
            engine,
            name: "n2".parse().expect("name"),
            csr_pem: String::new(),
            addr: "127.0.0.1:9".parse().expect("addr"),
            machine: None,
            same_machine: false,
            asked_ns,
            way_back: None,
        });
        let (duplex, ..) = dial_unknown(&addr, token.ca_sha256, LONG).expect("dial");
        match talk(duplex, &ask, LONG) {
            Err(CallError::Refused(no)) => no.code,
            other => panic!("{other:?}"),
        }
    };
    let say = |version: &str, engine: u32| say_of(version, engine, None);
    assert_eq!(
        say("99.0.0", armento_model::ENGINE_VERSION),
        "version-mismatch"
    );
    assert_eq!(say(env!("CARGO_PKG_VERSION"), 99), "version-mismatch");
    let ours = env!("CARGO_PKG_VERSION");
    for asked_ns in [0, i64::MIN, i64::MAX] {
        let no = say_of(ours, armento_model::ENGINE_VERSION, Some(asked_ns));
        assert_eq!(no, "clocks-apart");
    }
    // The right version with nonsense for a request.
    assert_eq!(
        say(env!("CARGO_PKG_VERSION"), armento_model::ENGINE_VERSION),
        "bad-request"
    );
    // Without a certificate nothing but joining is heard.
    let (duplex, ..) = dial_unknown(&addr, token.ca_sha256, LONG).expect("dial");
    match talk(
        duplex,
        &PeerAsk::Ps {
            uid: None,
            name: None,
        },
        LONG,
    ) {
        Err(CallError::Refused(no)) => assert_eq!(no.code, "not-trusted"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_state_directory_one_daemon_one_farm() {
    let dir = Dir::new();
    let mut stranger = Node::new(&dir, "n9");
    assert!(matches!(stranger.try_start(), Err(FarmError::NotJoined(_))));
    let (nodes, token, addr) = farm(&dir, &["n1"], Wire::Tls);
    let mut second = Node::new(&dir, "n1");
    let twice = second.try_start().expect_err("one daemon is enough");
    assert!(
        matches!(twice, FarmError::Locked { pid: Some(_), .. }),
        "{twice}"
    );
    assert!(matches!(
        nodes[0].join(&token.to_string(), &addr),
        Err(FarmError::AlreadyJoined(_))
    ));
    second.config.name = Some("other".parse().expect("name"));
    drop(nodes);
    assert!(matches!(second.try_start(), Err(FarmError::Config { .. })));
}

#[test]
fn a_node_that_left_is_forgotten() {
    let dir = Dir::new();
    let (mut nodes, token, addr) = farm(&dir, &["n1", "n2", "n3"], Wire::Tls);
    nodes[2].ask(Ask::Leave).expect("leave");
    nodes[2].wait();
    assert!(matches!(nodes[2].try_start(), Err(FarmError::NotJoined(_))));
    crate::common::until("n3 is gone from the list", || {
        let listed = |n: &Node| n.nodes().iter().any(|n| n.name.as_str() == "n3");
        (!listed(&nodes[0]) && !listed(&nodes[1])).then_some(())
    });
    // And may come again.
    nodes[2].join(&token.to_string(), &addr).expect("join");
    nodes[2].start();
    nodes[0].sees("n3", "alive");
}
