//! Trust settings of a node, and removal of nodes, with running programs.

use super::{Farm, fails_with, text, until};
use serde_json::Value;

/// It repeats the same computation until its file exists.
const PROGRAM: &str = r#"until (-e $ARGV[0]) { $x = 0; $x += $_ % 7 for 1..400000; die $x if $x != 1200003 } print "right\n""#;

/// Such a program, and where its output and exit status are written.
pub struct Case<'a> {
    farm: &'a Farm,
    home: &'static str,
    word: String,
    pid: String,
}

impl Case<'_> {
    pub fn start<'a>(farm: &'a Farm, home: &'static str, options: &str, word: &str) -> Case<'a> {
        let script = format!(
            "rm -f /tmp/{word}.*\ncat > /tmp/{word}.sh <<'EOF'\necho $$ > /tmp/{word}.pid\n\
             exec armento run {options} perl -e '{PROGRAM}' /tmp/{word}.enough\nEOF\n\
             (sh /tmp/{word}.sh > /tmp/{word}.out 2> /tmp/{word}.err; echo $? > /tmp/{word}.code) > /dev/null 2>&1 &"
        );
        farm.sh(home, &script);
        until("its start", || {
            farm.run(home, &format!("test -s /tmp/{word}.pid"))
                .status
                .success()
        });
        let pid = farm.sh(home, &format!("cat /tmp/{word}.pid"));
        let case = Case {
            farm,
            home,
            word: word.into(),
            pid: pid.trim().into(),
        };
        until("its line in ps", || case.place().is_some());
        case
    }

    pub fn pid(&self) -> &str {
        &self.pid
    }

    pub fn place(&self) -> Option<String> {
        let said = self.farm.sh(self.home, "armento ps --json");
        let doc: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
        let procs = doc["procs"].as_array().cloned().unwrap_or_default();
        let pid: Option<u64> = self.pid.parse().ok();
        let it = procs.into_iter().find(|p| p["pid"].as_u64() == pid)?;
        it["place"].as_str().map(str::to_owned)
    }

    pub fn is_at(&self, node: &str) {
        until(&format!("{} at {node}", self.pid), || {
            self.place().as_deref() == Some(node)
        });
    }

    pub fn goes_to(&self, node: &str) {
        self.farm
            .sh(self.home, &format!("armento migrate {} {node}", self.pid));
    }

    pub fn may_not_go_to(&self, node: &str, words: &[&str]) {
        let order = format!("armento migrate {} {node}", self.pid);
        let out = self.farm.run(self.home, &order);
        assert_eq!(out.status.code(), Some(125), "{out:?}");
        fails_with(&out, words);
    }

    fn file(&self, end: &str) -> String {
        self.farm
            .sh(self.home, &format!("cat /tmp/{}.{end}", self.word))
    }

    /// The program is asked to end, and has computed correctly all the time.
    pub fn ends_well(self) {
        self.farm
            .sh(self.home, &format!("touch /tmp/{}.enough", self.word));
        self.has_ended();
        assert_eq!(self.file("out"), "right\n", "{}", self.file("err"));
        assert_eq!(self.file("code").trim(), "0");
    }

    /// It was killed, and its user is informed why.
    fn ends_lost(self) {
        self.has_ended();
        assert_eq!(self.file("code").trim(), "137");
        assert!(self.file("err").contains("lost"), "{}", self.file("err"));
    }

    fn has_ended(&self) {
        let look = format!("test -s /tmp/{}.code", self.word);
        until("its end", || {
            self.farm.run(self.home, &look).status.success()
        });
    }
}

pub fn settings_apply_to_running_programs(farm: &Farm) {
    let case = Case::start(farm, "n1", "--stay", "sends");
    case.goes_to("n2");
    let said = farm.sh("n1", "armento farm trust --send-to '!n2'");
    assert!(said.contains("send_to      !n2  (by command)"), "{said}");
    case.is_at("n1");
    case.may_not_go_to("n2", &["send_to of n1 leaves out n2"]);
    case.goes_to("n3");
    // The order is also refused from another node; the process goes on where it is.
    case.may_not_go_to("n2", &["send_to of n1"]);
    case.is_at("n3");
    farm.sh("n1", "armento farm trust --reset");
    case.goes_to("n2");
    // The other side, by its configuration and SIGHUP.
    farm.sh("n2", "echo 'accept_from = [\"!0@n1\"]' >> /etc/armento/config.toml; pkill -HUP -f '[a]rmento node'");
    case.is_at("n1");
    case.may_not_go_to("n2", &["accept_from of n2 leaves out user 0 of n1"]);
    case.goes_to("n3");
    case.may_not_go_to("n2", &["accept_from of n2"]);
    farm.sh(
        "n2",
        "sed -i /accept_from/d /etc/armento/config.toml; armento farm reload",
    );
    case.goes_to("n2");
    case.goes_to("home");
    case.ends_well();
    // An invalid configuration changes nothing.
    farm.sh("n2", "cp /etc/armento/config.toml /tmp/good; echo 'accept_from = [\"root@n1\"]' >> /etc/armento/config.toml");
    let out = farm.run("n2", "armento farm reload");
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    fails_with(&out, &["given by number", "what held before holds"]);
    farm.sh("n2", "cp /tmp/good /etc/armento/config.toml");
}

/// `--storm` also respects trust settings, for a node that it used before.
pub fn storms_respect_trust(farm: &Farm) {
    let case = Case::start(farm, "n1", "--storm 20", "storm");
    until("it was at n2", || case.place().as_deref() == Some("n2"));
    farm.sh("n1", "armento farm trust --send-to n3");
    until("it has left n2", || case.place().is_some_and(|p| p != "n2"));
    let mut looked = 0;
    while let Some(place) = case.place().filter(|_| looked < 10) {
        assert_ne!(place, "n2");
        looked += 1;
    }
    farm.sh("n1", "armento farm trust --reset");
    case.ends_well();
}

/// Each process returns to its home, then the node is no longer a member.
pub fn a_node_is_removed(farm: &Farm) {
    let ours = Case::start(farm, "n1", "--stay", "ours");
    ours.goes_to("n3");
    let theirs = Case::start(farm, "n3", "--stay", "theirs");
    theirs.goes_to("n1");
    let out = farm.run("n2", "armento farm remove n3");
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    fails_with(&out, &["does not hold the farm's key"]);
    farm.sh("n3", "mkdir /tmp/kept; cp /var/lib/armento/*.* /tmp/kept");
    let said = farm.sh("n1", "armento farm remove n3");
    assert!(
        said.contains("n3 is removed") && !said.contains("lost"),
        "{said}"
    );
    assert!(!farm.sh("n1", "armento nodes").contains("n3"));
    ours.ends_well();
    theirs.ends_well();
    // A removed node that starts again with its old state sees no member, and no member sees it.
    farm.sh(
        "n3",
        "cp /tmp/kept/* /var/lib/armento; rm -f /var/lib/armento/news.json",
    );
    farm.daemon("n3");
    let case = Case::start(farm, "n3", "--stay", "ghost");
    until("n3 is alone", || {
        !farm.sh("n3", "armento nodes").contains("suspect")
    });
    let out = farm.run("n3", &format!("armento migrate {} n1", case.pid));
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(!farm.sh("n2", "armento nodes").contains("n3"));
    case.ends_well();
    // Removal with `--now` does not wait for the processes there.
    let ours = Case::start(farm, "n1", "--stay", "lost");
    ours.goes_to("n2");
    ours.is_at("n2");
    let said = farm.sh("n1", "armento farm remove n2 --now");
    assert!(said.contains("1 processes were lost"), "{said}");
    ours.ends_lost();
    let out = farm.run("n1", "armento farm remove n2");
    assert!(text(&out.stderr).contains("no node"), "{out:?}");
}
