//! What is said of drained nodes, and when one that is silent is given up.

use super::*;

fn info() -> DrainInfo {
    DrainInfo {
        node: "n2".parse().expect("name"),
        drained: true,
        why: "new disk".into(),
        all_home: false,
        since_ms: Some(1),
        guests: 1,
        unheard: 0,
        own_here: 1,
        own_away: 2,
        leaving: 1,
        staying: 1,
        processes: vec![
            process(7, "n1", false, "leaving"),
            process(8, "n2", true, "locked"),
        ],
    }
}

fn process(pid: i32, home: &str, stays: bool, reason: &str) -> DrainedProcess {
    DrainedProcess {
        pid,
        home: home.parse().expect("name"),
        place: "n2".parse().expect("name"),
        command: "make".into(),
        stays,
        reason: reason.into(),
        detail: String::new(),
    }
}

#[test]
fn what_is_left_is_named_with_its_reason() {
    let said = render(&info());
    for line in [
        "n2 is draining: new disk\n",
        "  7 of n1, make: still to go: it leaves\n",
        "  8 of n2, make: stays: its user or administrator keeps it here",
        "  own processes: 3, of which 2 elsewhere; they end when n2 is switched off",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let empty = DrainInfo {
        leaving: 0,
        why: String::new(),
        processes: Vec::new(),
        ..info()
    };
    assert!(render(&empty).starts_with("n2 is drained\n  and 1 more\n"));
    let silent = DrainInfo {
        unheard: 2,
        ..info()
    };
    let said = not_empty(&[&silent], 60).message;
    assert!(
        said.contains("left: 1 of n2, where 2 hosts have not reported"),
        "{said}"
    );
    let failure = not_empty(&[&info()], 60);
    assert!(
        failure
            .message
            .contains("after 60 s processes are left: 1 of n2")
    );
}

#[test]
fn dry_runs_say_what_would_change() {
    let home = DrainChange {
        drained: true,
        all_home: true,
        ..DrainChange::default()
    };
    let said = would(&info(), &home);
    assert_eq!(said[0], "on n2: leave `drain` on, as it is");
    assert_eq!(said[2], "bring 2 processes of n2 home");
}

#[test]
fn a_node_is_asked_once() {
    let n = |s: &str| s.parse::<NodeName>().expect("name");
    assert_eq!(chosen(&[n("n2"), n("n2")]), [Some(n("n2"))]);
    assert_eq!(chosen(&[]), [None]);
}

#[test]
fn a_silent_node_is_given_up_while_others_answer() {
    let n3 = DrainInfo {
        node: "n3".parse().expect("name"),
        ..info()
    };
    let mut infos = [info(), n3];
    let start = Instant::now();
    let mut heard = vec![start; 2];
    let look = |node: &NodeName| match node.as_str() {
        "n2" => Ok(info()),
        _ => Err(anyhow::anyhow!("{node} does not answer")),
    };
    let mut ask = |s: u64| {
        let now = || start + Duration::from_secs(s);
        ask_again(&mut infos, &mut heard, now, &look).map_err(|e| e.to_string())
    };
    for s in 1..SILENT_MAX.as_secs() {
        assert_eq!(ask(s), Ok(()), "{s}");
    }
    let last = ask(SILENT_MAX.as_secs());
    assert_eq!(last, Err("n3 does not answer".to_owned()));
}
