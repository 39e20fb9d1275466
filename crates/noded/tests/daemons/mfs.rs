//! File servers of MFS: who gets one, and that a restarted daemon finds it again.

use crate::common::{Dir, LONG, Node, farm, until};
use crate::trust::{addr_of, change, daemon_of};
use crate::work::{name, uid};
use armento_client::api::{Answer, Ask, FilesStart, MfsInfo, SwitchChange, TrustChange};
use armento_link::{Badge, Identity, dial};
use armento_noded::Wire;
use armento_noded::peer::{CallError, PeerAnswer, PeerAsk, talk};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// No user has this number.
const NOBODY: u32 = 4_000_000_000;

/// Speaks as a file server does at its start, then lives until it is killed or this test ends; it mounts nothing.
fn serve_instead(node: &Node) {
    let place = node.host.parent().expect("a directory").display();
    let test = std::process::id();
    let script = format!(
        "#!/bin/sh\nIFS= read -r line\n\
         if [ \"$1\" != mfs-serve ]; then echo '{{\"type\":\"unable\",\"why\":\"a test\"}}'; exit; fi\n\
         printf '%s\\n' \"$line\" >> {place}/served\necho '{{\"type\":\"up\",\"port\":4242}}'\nexec >/dev/null\n\
         while kill -0 {test} 2>/dev/null && [ -d {place} ]; do sleep 0.2; done\n",
    );
    fs::write(&node.host, script).expect("script");
    fs::set_permissions(&node.host, fs::Permissions::from_mode(0o755)).expect("mode");
}

fn starts(node: &Node) -> Vec<FilesStart> {
    let text = fs::read_to_string(node.host.with_file_name("served")).unwrap_or_default();
    let start = |line: &str| serde_json::from_str(line).expect("FilesStart");
    text.lines().map(start).collect()
}

fn switch(node: &Node, on: bool) {
    let change = SwitchChange {
        mfs: Some(on),
        ..SwitchChange::default()
    };
    let change = Some(change);
    let said = node.ask(Ask::Switch { change });
    assert!(matches!(said, Ok(Answer::Switches(i)) if i.mfs == on));
}

fn info(node: &Node) -> MfsInfo {
    match node.ask(Ask::Mfs) {
        Ok(Answer::Mfs(info)) => info,
        other => panic!("{other:?}"),
    }
}

fn own_name() -> String {
    let said = Command::new("id").arg("-un").output().expect("id(1)");
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

/// n1's daemon asks n2's for a file server: its address, or the code of the refusal.
fn ask(nodes: &[Node], uid: u32, user: &str) -> Result<SocketAddr, String> {
    let addr = addr_of(&nodes[0], "n2");
    let to = Badge::daemon(&name("n2"));
    let duplex = dial(&addr, &daemon_of(&nodes[0]), &to, LONG).expect("dial");
    let name = user.to_owned();
    match talk(duplex, &PeerAsk::Files { uid, name }, LONG) {
        Ok(PeerAnswer::Files { addr }) => Ok(addr),
        Err(CallError::Refused(no)) => Err(no.code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_user_has_one_file_server_and_others_none() {
    let dir = Dir::new();
    let (mut nodes, ..) = farm(&dir, &["n1", "n2"], Wire::Plain);
    serve_instead(&nodes[1]);
    let me = own_name();
    let refused = |nodes: &[Node], uid, user: &str, code: &str| {
        assert_eq!(ask(nodes, uid, user), Err(code.to_owned()), "{uid} {user}");
    };
    refused(&nodes, uid(), &me, "mfs-off");
    switch(&nodes[1], true);
    let mount = until("a reason", || {
        Some(info(&nodes[1])).filter(|i| !i.why.is_empty())
    });
    assert!(mount.on && !mount.mounted, "{mount:?}");
    refused(&nodes, uid(), "another", "another-user");
    refused(&nodes, NOBODY, "nobody", "no-such-user");
    assert!(starts(&nodes[1]).is_empty());
    let addr = ask(&nodes, uid(), &me).expect("a file server");
    assert_eq!(addr.port(), 4242);
    assert_eq!(ask(&nodes, uid(), &me), Ok(addr));
    let started = starts(&nodes[1]);
    let [start] = &started[..] else {
        panic!("{} starts", started.len())
    };
    assert_eq!(start.uid, uid());
    assert!(start.groups.contains(&start.gid));
    assert_eq!(start.expect, Badge::files(&name("n1"), uid()));
    // Whatever the farm's wire is.
    assert!(matches!(start.identity, Identity::Tls { .. }));
    let state = nodes[1].config.state.clone().expect("a state directory");
    assert!(start.exports[0].hidden.contains(&state));
    // The next daemon has the same one.
    let servers = info(&nodes[1]).servers;
    nodes[1].stop();
    nodes[1].start();
    nodes[0].sees("n2", "alive");
    nodes[1].sees("n1", "alive");
    assert_eq!(info(&nodes[1]).servers, servers);
    assert_eq!(ask(&nodes, uid(), &me).map(|a| a.port()), Ok(4242));
    assert_eq!(starts(&nodes[1]).len(), 1);
    // Who is not trusted any more has none.
    change(&nodes[1], None, Some(&[&format!("!{}@n1", uid())]));
    refused(&nodes, uid(), &me, "not-trusted");
    until("its end", || {
        info(&nodes[1]).servers.is_empty().then_some(())
    });
    change(&nodes[1], None, Some(&["*"]));
    ask(&nodes, uid(), &me).expect("another file server");
    if uid() == 0 {
        let root = TrustChange {
            allow_root: Some(false),
            ..TrustChange::default()
        };
        let change = Some(root);
        nodes[1].ask(Ask::Trust { change }).expect("changed");
        refused(&nodes, 0, &me, "privileged");
    }
    switch(&nodes[1], false);
    refused(&nodes, uid(), &me, "mfs-off");
    until("its end", || {
        info(&nodes[1]).servers.is_empty().then_some(())
    });
}

/// Keys for streams are the mount's and a file server's alone.
#[test]
fn others_get_no_keys_of_streams() {
    let dir = Dir::new();
    let (nodes, ..) = farm(&dir, &["n1", "n2"], Wire::Tls);
    let to = || name("n2");
    let pid = std::process::id() as i32;
    for ask in [
        Ask::MfsRoute {
            node: to(),
            uid: uid(),
        },
        Ask::MfsPlaces { pid },
        Ask::MfsMade { pid, node: to() },
        Ask::MfsIdentity,
    ] {
        let no = nodes[0].ask(ask).expect_err("refused");
        assert_eq!(no.code, "not-trusted");
    }
    let select = |node: &str| {
        let node = name(node);
        nodes[0].ask(Ask::MfsSelect { pid, node })
    };
    assert!(matches!(select("n2"), Ok(Answer::Done)));
    assert_eq!(select("n9").expect_err("refused").code, "no-such-node");
}
