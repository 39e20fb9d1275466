//! Two boot servers, each in a network of its own: images, edits and choices of one are found on the other.

use super::{ARMENTO, Place, X86_64, said, until};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const FARM: &str = "\
farm = { name = \"t\", boot_servers = [\"srv\", \"b\"] }
net.mgmt = { cidr = \"10.77.0.0/24\", boot = true }
node.srv = { id = 1, lan0 = \"mgmt\" }
node.b = { id = 5, lan0 = \"mgmt\" }
node.n2 = { id = 2, root = \"live\", lan0 = \"mgmt\", mac = { lan0 = \"52:54:00:77:00:02\" } }
";

/// The bar: an edit of the root is seen everywhere within this time.
const EDIT: Duration = Duration::from_secs(5);

const CABLE: &str = "set -e
setsid unshare --net sh -c 'echo $$ > b.pid; exec sleep infinity' < /dev/null > /dev/null 2>&1 &
until test -s b.pid; do sleep 0.05; done
ip link add b0 type veth peer name lan0 netns $(cat b.pid)
ip link set b0 master lan0 up
nsenter --target=$(cat b.pid) --net sh -c 'ip link set lo up; ip link set lan0 up; ip addr add 10.77.0.5/24 dev lan0'";

struct Two {
    place: Place,
}

/// A node with a boot directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Srv,
    B,
}

impl At {
    fn name(self) -> &'static str {
        match self {
            At::Srv => "srv",
            At::B => "b",
        }
    }
}

impl Two {
    /// Both are members of a farm and serve; the images are srv's.
    fn new(name: &str) -> Option<Two> {
        let place = Place::new(name)?;
        fs::write(place.dir.join("farm.toml"), FARM).expect("inventory");
        // lan0 has the addresses of nodes as well: the second server has its own.
        place.sh(&format!("cd {}\n{CABLE}", place.dir.display()));
        let two = Two { place };
        let init = two.good(
            At::Srv,
            &[
                "farm",
                "init",
                "--listen",
                "10.77.0.1:7117",
                "--name",
                "srv",
            ],
        );
        let (_, join) = init.split_once("armento join ").expect("a token");
        let join: Vec<&str> = join.lines().next().expect("a line").split(' ').collect();
        two.start(At::Srv, "node", &["node"]);
        until("the first node answers", || {
            let out = two.command(At::Srv, &["nodes"]).output();
            out.is_ok_and(|o| o.status.success())
        });
        let mut words = vec!["join"];
        words.extend(&join[..2]);
        words.extend([
            "--name",
            "b",
            "--listen",
            "10.77.0.5:7117",
            "--same-machine",
        ]);
        two.good(At::B, &words);
        for at in [At::Srv, At::B] {
            let (farm, tftp) = (two.place.file("farm.toml"), two.file(at, "tftp"));
            let words = [
                "init",
                "--server",
                at.name(),
                "--farm",
                &farm,
                "--tftp",
                &tftp,
            ];
            two.boot(at, &words);
        }
        Some(two)
    }

    fn file(&self, at: At, name: &str) -> String {
        self.place.file(&format!("{}-{name}", at.name()))
    }

    fn command(&self, at: At, words: &[&str]) -> Command {
        let mut all = Vec::new();
        let target;
        if at == At::B {
            let pid = fs::read_to_string(self.place.dir.join("b.pid")).expect("pid");
            target = format!("--target={}", pid.trim());
            all.extend(["nsenter", &target, "--net", "--"]);
        }
        all.push(ARMENTO);
        all.extend(words);
        let mut c = self.place.command(&all);
        c.env("ARMENTO_STATE", self.file(at, "state"));
        c.env("ARMENTO_SOCKET", self.file(at, "socket"));
        c
    }

    fn good(&self, at: At, words: &[&str]) -> String {
        let out = self.command(at, words).output().expect("armento");
        assert!(
            out.status.success(),
            "{} {words:?}: {}",
            at.name(),
            said(&out)
        );
        said(&out)
    }

    fn boot(&self, at: At, words: &[&str]) -> String {
        let dir = format!("--dir={}", self.file(at, "boot"));
        let mut all = vec!["boot"];
        all.extend(words);
        all.push(&dir);
        self.good(at, &all)
    }

    /// It ends with the namespaces.
    fn start(&self, at: At, name: &str, words: &[&str]) {
        let log = File::create(self.file(at, &format!("{name}.log"))).expect("log");
        let mut c = self.command(at, words);
        c.stdin(Stdio::null()).env("ARMENTO_LOG", "debug");
        c.stdout(log.try_clone().expect("log")).stderr(log);
        let mut child = c.spawn().expect("armento");
        std::thread::spawn(move || child.wait());
    }

    fn serve(&self, at: At) {
        let dir = self.file(at, "boot");
        self.start(at, "serve", &["boot", "serve", "--dir", &dir]);
    }

    /// A path below the boot directory.
    fn at(&self, at: At, path: &str) -> PathBuf {
        Path::new(&self.file(at, "boot")).join(path)
    }

    fn import(&self) -> String {
        let root = self.place.dir.join("root").display().to_string();
        self.boot(At::Srv, &["image", "import", "base", &root])
    }

    fn in_use(&self, at: At) -> Option<PathBuf> {
        fs::read_link(self.at(at, "images/base/current")).ok()
    }

    fn until_in_use(&self, at: At, number: &str) {
        until(&format!("{} boots base@{number}", at.name()), || {
            self.in_use(at).as_deref() == Some(Path::new(number))
        });
    }

    /// Waits no longer than an edit may take.
    fn sees(&self, at: At, path: &str, text: &str) {
        let begun = Instant::now();
        let path = self.at(at, path);
        while fs::read_to_string(&path).ok().as_deref() != Some(text) {
            assert!(begun.elapsed() < EDIT, "{} is not {text:?}", path.display());
            sleep(Duration::from_millis(50));
        }
    }

    fn equal(&self, generation: u32) {
        let dir = |at| self.at(at, &format!("images/base/{generation}"));
        let (a, b) = (dir(At::Srv), dir(At::B));
        let script = format!(
            "cd {a}; for d in {a} {b}; do
               (cd $d; find root -printf '%p %m %U %G %y %l\\n' | sort
                sha256sum vmlinuz initrd manifest.json; test ! -e root.erofs || sha256sum root.erofs
                find root -type f -exec sha256sum {{}} + | sort; getfattr -R -d -m - root 2>/dev/null) > $d.listed
             done; diff {a}.listed {b}.listed",
            a = a.display(),
            b = b.display()
        );
        self.place.sh(&script);
    }
}

#[test]
fn images_edits_and_choices_are_on_all_boot_servers() {
    let Some(two) = Two::new("follow") else {
        return;
    };
    two.place.root("root", X86_64);
    let srv = two.place.dir.join("root/srv");
    fs::write(srv.join("a"), "1").expect("file");
    fs::write(srv.join("with space"), "x").expect("file");
    two.import();
    two.serve(At::Srv);
    two.serve(At::B);
    // A new generation, whole, and used.
    two.until_in_use(At::B, "1");
    two.equal(1);

    // Edits of the live root: content, a new file, a link, a mode, a removal.
    let live = two.at(At::Srv, "images/base/1/root/srv");
    fs::write(live.join("a"), "edited").expect("edit");
    two.sees(At::B, "images/base/1/root/srv/a", "edited");
    fs::write(live.join("new"), "new").expect("edit");
    fs::remove_file(live.join("with space")).expect("edit");
    std::os::unix::fs::symlink("new", live.join("link")).expect("edit");
    two.sees(At::B, "images/base/1/root/srv/link", "new");
    until("all edits are there", || {
        !two.at(At::B, "images/base/1/root/srv/with space").exists()
    });
    two.equal(1);

    // The next one is chosen at once: the other server lags, is named, and follows. It is killed while it copies.
    let big: Vec<u8> = (0..48u32 << 20)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    fs::write(srv.join("big"), big).expect("file");
    two.import();
    until("it copies", || {
        two.at(At::B, "images/base/.copy-2/root").is_dir()
    });
    two.place.sh(&format!(
        "pkill -KILL -f '[b]oot serve --dir {0}'; while pgrep -f '[b]oot serve --dir {0}'; do sleep 0.05; done",
        two.file(At::B, "boot")
    ));
    assert!(
        !two.at(At::B, "images/base/2").exists(),
        "it was too fast for this test"
    );
    let told = two.boot(At::Srv, &["image", "use", "base@2"]);
    assert!(
        told.contains("base@2 is in use")
            && told.contains("b does not boot it yet: it does not answer"),
        "{told}"
    );
    two.serve(At::B);
    two.until_in_use(At::B, "2");
    two.equal(2);
    assert!(!two.at(At::B, "images/base/.copy-2").exists());
    let list = two.boot(At::Srv, &["image", "list"]);
    assert!(
        list.contains("boot server b has base@1, base@2 (in use)\n"),
        "{list}"
    );

    // A choice on either server is all servers'.
    let told = two.boot(At::B, &["image", "back", "base"]);
    assert!(
        told.contains("base@1 is in use") && !told.contains("not boot it"),
        "{told}"
    );
    assert_eq!(two.in_use(At::Srv).as_deref(), Some(Path::new("1")));

    // The other server's root is the one to edit from now on.
    let told = two.boot(At::B, &["image", "lead", "base@1"]);
    assert!(told.contains("the root of base@1 is edited on b"), "{told}");
    until("srv has heard of it", || {
        let lead = fs::read_to_string(two.at(At::Srv, "images/base/1/lead"));
        lead.is_ok_and(|l| l.contains("\"b\""))
    });
    fs::write(two.at(At::B, "images/base/1/root/srv/a"), "by b").expect("edit");
    two.sees(At::Srv, "images/base/1/root/srv/a", "by b");
    two.equal(1);

    // Each choice was taken over once.
    let log = fs::read_to_string(two.file(At::Srv, "serve.log")).expect("log");
    let taken = log.matches("nodes boot base@1 now, as b says").count();
    assert_eq!(taken, 1, "{log}");

    // What is removed is removed on all, and its number is not used again.
    two.boot(At::Srv, &["image", "remove", "base@2"]);
    until("b has removed it", || {
        !two.at(At::B, "images/base/2").exists()
    });
    fs::remove_file(srv.join("big")).expect("removed");
    let third = two.import();
    assert!(third.contains("base@3 is made"), "{third}");
    until("b has the third", || {
        two.at(At::B, "images/base/3/manifest.json").exists()
    });
    two.equal(3);
}

#[test]
fn a_boot_server_that_cannot_follow_says_why() {
    let Some(two) = Two::new("lags") else {
        return;
    };
    two.place.root("root", X86_64);
    // No room on the other server.
    let images = two.at(At::B, "images");
    two.place.sh(&format!(
        "mount -t tmpfs -o size=1m none {}",
        images.display()
    ));
    two.import();
    two.serve(At::Srv);
    two.serve(At::B);
    until("it says why", || {
        let list = two.boot(At::Srv, &["image", "list"]);
        list.contains(
            "boot server b has no image; it cannot follow srv: no space is left on the disk",
        )
    });
    // With room it goes on.
    two.place
        .sh(&format!("mount -o remount,size=200m {}", images.display()));
    until("it follows", || {
        let list = two.boot(At::Srv, &["image", "list"]);
        list.contains("boot server b has base@1 (in use)\n")
    });
    let told = two.boot(At::B, &["image", "list"]);
    assert!(
        told.contains("boot server srv has base@1 (in use)"),
        "{told}"
    );
    // A connection without a certificate of a boot server is told nothing.
    let script = "printf '\\000\\000\\000\\016{\"ask\":\"have\"}' | timeout 5 curl -s --max-time 3 telnet://10.77.0.1:10117 || true";
    let heard = two.place.sh(script);
    assert!(!heard.contains("images"), "{heard}");
}
