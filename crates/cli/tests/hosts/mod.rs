//! What must hold at home whatever a host says: nothing but what the program's own user may do, and for each program a
//! truthful end.

pub mod lies;
pub mod relay;

use crate::lab::{Farm, long, until};
use armento_noded::{Config, Options};
use std::process::Output;

/// Whose program is hosted.
const USER: &str = "setpriv --reuid 1000 --regid 1000 --clear-groups";
/// It computes, tells and waits until /tmp/stop is there, or so many rounds as it is told.
const PROGRAM: &str = r#"$|=1; for ($i=1; @ARGV ? $i<=$ARGV[0] : !-e "/tmp/stop"; $i++) { $x=0; for $j (1..20000) { $x+=$j%7 } print "$i $x\n"; getppid; select undef, undef, undef, 0.01 }"#;

/// The daemon as `armento node` runs it; the hosts are its own program.
pub fn daemon() -> ! {
    let config = Config::load(None).expect("its settings");
    let options = Options {
        config,
        host_program: None,
    };
    let end = armento_noded::run(options);
    std::process::exit(i32::from(end.is_err()));
}

/// How it ended, and what was said of that.
fn end(out: &Output) -> String {
    format!("{:?}, {}", out.status.code(), text(&out.stderr))
}

fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(b).into_owned()
}

/// What must be as it was, whatever was said.
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

/// Runs the program on the hostile host until `done`, and then to its end.
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

/// It got to its end as it would have natively.
fn as_native(farm: &Farm, out: &Output, lie: &str) {
    let said = text(&out.stdout);
    let native = farm.sh(
        "n1",
        &format!("perl -e '{PROGRAM}' {}", said.lines().count()),
    );
    assert_eq!(said, native, "{lie}: {}", end(out));
    assert!(out.status.success(), "{lie}: {}", end(out));
}

/// It was ended, and that is what its shell and its user learn.
fn truthful_death(farm: &Farm, out: &Output, lie: &str) {
    assert_eq!(out.status.code(), Some(137), "{lie}: {}", end(out));
    assert!(text(&out.stderr).contains("n2"), "{lie}: {}", end(out));
    let said = text(&out.stdout);
    let native = farm.sh(
        "n1",
        &format!("perl -e '{PROGRAM}' {}", said.lines().count()),
    );
    assert!(native.starts_with(&said), "{lie}: {}", end(out));
}

pub fn get_nothing(farm: &Farm) {
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
    let whom =
        "echo $(cat /tmp/other) $(pgrep -o -f '[a]rmento node') $(stat -c '%d %i' /tmp/secret)";
    let whom = farm.sh("n1", whom);
    farm.sh("n2", &format!("echo {} > {}", whom.trim(), lies::WHOM));
    let secret = farm.sh("n1", "stat -c '%a %u %s' /tmp/secret; cat /tmp/secret");
    let intact = Intact { farm, secret };

    // Again and again: each time it meets its keeper at another moment.
    let rounds = if long() { 5 } else { 1 };
    (0..rounds).for_each(|_| all_lies(&intact));
    // All but the two that only say more than they need to.
    let refused = farm.sh("n1", "grep -c ' to n1: .* is no ' /tmp/keeper.log");
    let refused: usize = refused.trim().parse().expect("a number");
    assert!(refused >= lies::IMAGES.len() - 2, "{refused} were refused");
    farm.sh("n1", "kill $(cat /tmp/other) $(cat /tmp/honest)");
}

/// Each of them, and what comes of it.
fn all_lies(intact: &Intact) {
    let farm = intact.farm;
    let said = || {
        let what = format!("test -e {}", lies::SAID);
        until("what it says, or the end", || {
            farm.run("n2", &what).status.success()
                || farm.run("n1", "test -s /tmp/end").status.success()
        });
    };
    let out = lied(farm, "rights", said);
    as_native(farm, &out, "rights");
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
    as_native(farm, &out, "strangers");
    intact.check("strangers");

    let out = lied(farm, "itself", said);
    match out.status.code() {
        Some(0) => as_native(farm, &out, "itself"),
        _ => truthful_death(farm, &out, "itself"),
    }
    intact.check("itself");

    for lie in lies::ENDING {
        let out = lied(farm, lie, said);
        truthful_death(farm, &out, lie);
        intact.check(lie);
    }
    // Refused before anything is done with it: the process goes on where it is, or comes home as it is.
    for lie in lies::IMAGES {
        let out = lied(farm, lie, || {
            let there = "armento ps --json | grep -q '\"place\": *\"n2\"'";
            until("it is there", || farm.run("n1", there).status.success());
            farm.run("n1", "armento migrate $(cat /tmp/pid) home");
        });
        as_native(farm, &out, lie);
        intact.check(lie);
    }
}
