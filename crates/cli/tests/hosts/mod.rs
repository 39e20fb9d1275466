//! What must hold at home whatever a host sends: nothing happens but what the program's own user may do, and each
//! program's end is reported correctly.

pub mod lies;
pub mod relay;

use crate::lab::{Farm, long, until};
use armento_noded::{Config, Options};
use std::process::Output;

/// Command prefix: the user of the hosted program.
const USER: &str = "setpriv --reuid 1000 --regid 1000 --clear-groups";
/// Computes, prints and waits until /tmp/stop is there, or for as many rounds as its argument.
const PROGRAM: &str = r#"$|=1; for ($i=1; @ARGV ? $i<=$ARGV[0] : !-e "/tmp/stop"; $i++) { $x=0; for $j (1..20000) { $x+=$j%7 } print "$i $x\n"; getppid; select undef, undef, undef, 0.01 }"#;

/// The daemon as `armento node` runs it; its hosts are this executable.
pub fn daemon() -> ! {
    let config = Config::load(None).expect("its settings");
    let options = Options {
        config,
        host_program: None,
    };
    let end = armento_noded::run(options);
    std::process::exit(i32::from(end.is_err()));
}

/// Exit status and messages, for panics of the test.
fn end(out: &Output) -> String {
    format!("{:?}, {}", out.status.code(), text(&out.stderr))
}

fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(b).into_owned()
}

/// State that no message may change.
struct Intact<'a> {
    farm: &'a Farm,
    secret: String,
}

impl Intact<'_> {
    fn check(&self, after: &str) {
        let farm = self.farm;
        assert_eq!(
            farm.sh("n1", "stat -c '%a %u %s' /tmp/secret; cat /tmp/secret"),
            self.secret,
            "{after}"
        );
        farm.sh("n1", "kill -0 $(cat /tmp/other) && armento nodes");
        // The other user's program on an honest node.
        farm.sh("n1", "kill -0 $(cat /tmp/honest)");
        let panics = "grep -h 'panicked' /tmp/keeper.log /tmp/node.log; true";
        assert_eq!(farm.sh("n1", panics), "", "{after}");
    }
}

/// Runs the program on the hostile host until `done` returns, and then to its end.
fn lied(farm: &Farm, lie: &str, done: impl FnOnce()) -> Output {
    farm.sh("n1", "rm -f /tmp/stop /tmp/end");
    farm.sh(
        "n2",
        &format!("rm -f {}; echo {lie} > {}", lies::SAID, lies::WHICH),
    );
    let run = format!(
        "(ARMENTO_KEEPER_LOG=/tmp/keeper.log {USER} sh -c 'echo $$ > /tmp/pid; exec \"$0\" \"$@\"' \
         armento run --on n2 perl -e '{PROGRAM}' > /tmp/out 2> /tmp/says; echo $? > /tmp/end) >/dev/null 2>&1 &"
    );
    farm.sh("n1", "rm -f /tmp/pid; touch /tmp/pid; chmod 666 /tmp/pid");
    farm.sh("n1", &run);
    done();
    farm.sh("n1", "touch /tmp/stop");
    until(&format!("its end after {lie}"), || {
        farm.run("n1", "test -s /tmp/end").status.success()
    });
    farm.run(
        "n1",
        "cat /tmp/out; cat /tmp/says >&2; exit $(cat /tmp/end)",
    )
}

/// The program ended as it would have natively.
fn ends_natively(farm: &Farm, out: &Output, lie: &str) {
    let said = text(&out.stdout);
    let native = farm.sh(
        "n1",
        &format!("perl -e '{PROGRAM}' {}", said.lines().count()),
    );
    assert_eq!(said, native, "{lie}: {}", end(out));
    assert!(out.status.success(), "{lie}: {}", end(out));
}

/// The program was killed, and its shell and user are informed.
fn death_is_reported(farm: &Farm, out: &Output, lie: &str) {
    assert_eq!(out.status.code(), Some(137), "{lie}: {}", end(out));
    assert!(text(&out.stderr).contains("n2"), "{lie}: {}", end(out));
    let said = text(&out.stdout);
    let native = farm.sh(
        "n1",
        &format!("perl -e '{PROGRAM}' {}", said.lines().count()),
    );
    assert!(native.starts_with(&said), "{lie}: {}", end(out));
}

pub fn all_attacks_fail(farm: &Farm) {
    let me = std::env::current_exe().expect("its own path");
    farm.sh("n2", "pkill -f '[a]rmento node'");
    until("the end of the daemon", || {
        !farm.run("n2", "pgrep -f '[a]rmento node'").status.success()
    });
    let start = format!(
        "setsid {} node >/tmp/node.log 2>&1 </dev/null &",
        me.display()
    );
    farm.sh("n2", &start);
    farm.sh(
        "n1",
        "umask 077; echo secret > /tmp/secret; sleep 600 >/dev/null 2>&1 & echo $! > /tmp/other",
    );
    farm.sh(
        "n1",
        "chmod 777 /tmp; chmod +t /tmp; touch /tmp/keeper.log; chmod 666 /tmp/keeper.log",
    );
    farm.sh(
        "n1",
        "armento run --on n3 sleep 600 >/dev/null 2>&1 & echo $! > /tmp/honest",
    );
    let takes = "armento run sleep 600 >/dev/null 2>&1 & echo $! > /tmp/probe";
    farm.sh("n1", takes);
    until("a guest of the hostile host", || {
        farm.run("n1", "armento migrate $(cat /tmp/probe) n2")
            .status
            .success()
    });
    farm.sh("n1", "kill $(cat /tmp/probe)");
    let script =
        "echo $(cat /tmp/other) $(pgrep -o -f '[a]rmento node') $(stat -c '%d %i' /tmp/secret)";
    let targets = farm.sh("n1", script);
    farm.sh(
        "n2",
        &format!("echo {} > {}", targets.trim(), lies::TARGETS),
    );
    let secret = farm.sh("n1", "stat -c '%a %u %s' /tmp/secret; cat /tmp/secret");
    let intact = Intact { farm, secret };

    // Several rounds: each time the forgery meets the keeper in another state.
    let rounds = if long() { 5 } else { 1 };
    (0..rounds).for_each(|_| all_lies(&intact));
    // All but the two that only send more than they need to.
    let refused = farm.sh("n1", "grep -c ' to n1: .* is no ' /tmp/keeper.log");
    let refused: usize = refused.trim().parse().expect("a number");
    assert!(refused >= lies::IMAGES.len() - 2, "{refused} were refused");
    farm.sh("n1", "kill $(cat /tmp/other) $(cat /tmp/honest)");
}

/// Runs each forgery and checks its outcome.
fn all_lies(intact: &Intact) {
    let farm = intact.farm;
    let said = || {
        let what = format!("test -e {}", lies::SAID);
        until("home's answer, or the program's end", || {
            farm.run("n2", &what).status.success()
                || farm.run("n1", "test -s /tmp/end").status.success()
        });
    };
    let out = lied(farm, "rights", said);
    ends_natively(farm, &out, "rights");
    let no = |e: i32| Some(-i64::from(e));
    let (access, rights) = (no(libc::EACCES), no(libc::EPERM));
    let want = [
        access, access, rights, rights, rights, rights, rights, rights,
    ];
    assert_eq!(
        farm.sh("n2", &format!("cat {}", lies::SAID)),
        format!("{want:?}")
    );
    intact.check("rights");

    let out = lied(farm, "strangers", said);
    ends_natively(farm, &out, "strangers");
    intact.check("strangers");

    let out = lied(farm, "itself", said);
    match out.status.code() {
        Some(0) => ends_natively(farm, &out, "itself"),
        _ => death_is_reported(farm, &out, "itself"),
    }
    intact.check("itself");

    for lie in lies::ENDING {
        let out = lied(farm, lie, said);
        death_is_reported(farm, &out, lie);
        intact.check(lie);
    }
    // Refused before it has any effect: the process goes on where it is, or is moved home as it is.
    for lie in lies::IMAGES {
        let out = lied(farm, lie, || {
            let there = "armento ps --json | grep -q '\"place\": *\"n2\"'";
            until("it is there", || farm.run("n1", there).status.success());
            farm.run("n1", "armento migrate $(cat /tmp/pid) home");
        });
        ends_natively(farm, &out, lie);
        intact.check(lie);
    }
}
