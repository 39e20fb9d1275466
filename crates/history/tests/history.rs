//! The history through its face: recorded, read, bounded, damaged, full.

use armento_client::api::{HistoryBy, HistoryQuery, HistoryRow, JobUse, NodeUse};
use armento_history::{Began, HistoryError, Job, Jobs, Recorder, Settings, Store, read};
use armento_model::{NodeName, TreeId};
use jiff::tz::TimeZone;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const ON: Settings = Settings {
    enabled: true,
    days: 400,
    megabytes: 200,
};
const DAY_MS: u64 = 86_400_000;

/// A directory of a test, gone with it.
struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Dir {
        let name = format!("armento-history-{}-{test}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).expect("a directory");
        Dir(dir)
    }

    fn file(&self) -> PathBuf {
        self.0.join("history.db")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn name(n: &str) -> NodeName {
    n.parse().expect("name")
}

fn start(dir: &Dir) -> Recorder {
    Recorder::start(dir.file(), name("n1"), ON)
}

fn began(tree: u64, uid: u32, command: &str) -> Began {
    Began {
        tree: TreeId(tree),
        uid,
        command: command.into(),
        fresh: true,
    }
}

fn used(nodes: &[(&str, u64)]) -> JobUse {
    let of = |(node, cpu_ms): &(&str, u64)| {
        let moved = u64::from(*node != "n1");
        let used = NodeUse {
            cpu_ms: *cpu_ms,
            moves: moved,
            pause_us: moved * 1500,
            move_bytes: moved << 20,
            calls: moved * 7,
            call_bytes: moved * 99,
        };
        (name(node), used)
    };
    JobUse {
        nodes: nodes.iter().map(of).collect(),
        procs: 1,
        status: Some(0),
    }
}

fn by(by: HistoryBy) -> HistoryQuery {
    HistoryQuery {
        by,
        rows: 100,
        ..HistoryQuery::default()
    }
}

fn rows(recorder: &Recorder, query: &HistoryQuery, uid: Option<u32>) -> Vec<HistoryRow> {
    let info = recorder.info(query, uid).expect("it is read");
    assert_eq!(info.trouble, "");
    info.rows
}

fn keys(rows: &[HistoryRow]) -> Vec<(&str, u64, u64, u64)> {
    let all = rows.iter();
    all.map(|r| (r.key.as_str(), r.jobs, r.home_cpu_ms, r.away_cpu_ms))
        .collect()
}

#[test]
fn jobs_are_found_by_user_node_day_and_command() {
    let dir = Dir::new("by");
    let r = start(&dir);
    r.began(&began(1, 1000, "/usr/bin/make -j8"));
    r.used(TreeId(1), used(&[("n1", 100), ("n2", 3000)]));
    r.ended(TreeId(1));
    r.began(&began(2, 1001, "lame a.wav"));
    r.used(TreeId(2), used(&[("n3", 500)]));

    let of = |what| rows(&r, &by(what), None);
    assert_eq!(
        keys(&of(HistoryBy::User)),
        [("1000", 1, 100, 3000), ("1001", 1, 0, 500)]
    );
    let nodes = of(HistoryBy::Node);
    assert_eq!(
        keys(&nodes),
        [("n2", 1, 0, 3000), ("n3", 1, 0, 500), ("n1", 2, 100, 0)]
    );
    assert_eq!(
        keys(&of(HistoryBy::Command)),
        [("make", 1, 100, 3000), ("lame", 1, 0, 500)]
    );
    let days = of(HistoryBy::Day);
    assert_eq!((days.len(), days[0].jobs, days[0].moves), (1, 2, 2));
    assert_eq!((days[0].pause_us, days[0].move_bytes), (3000, 2 << 20));
    assert_eq!((days[0].calls, days[0].call_bytes), (14, 198));

    let jobs = of(HistoryBy::Job);
    let job = |n: usize| jobs[n].job.as_ref().expect("a job");
    assert_eq!(
        (job(0).command.as_str(), job(0).end_ms),
        ("lame a.wav", None)
    );
    assert_eq!((job(1).tree, job(1).status), (TreeId(1), Some(0)));
    assert!(job(1).end_ms.is_some_and(|end| end >= job(1).start_ms));

    let only = |query: HistoryQuery, uid| rows(&r, &query, uid).len();
    let on_n2 = HistoryQuery {
        node: Some(name("n2")),
        ..by(HistoryBy::Job)
    };
    assert_eq!(only(on_n2, None), 1);
    let made = HistoryQuery {
        command: Some("mak".into()),
        ..by(HistoryBy::Job)
    };
    assert_eq!(only(made, None), 1);
    let later = HistoryQuery {
        since_ms: Some(u64::MAX),
        ..by(HistoryBy::User)
    };
    assert_eq!(only(later, None), 0);
    let before = HistoryQuery {
        until_ms: Some(DAY_MS),
        ..by(HistoryBy::User)
    };
    assert_eq!(only(before, None), 0);
    let first = HistoryQuery {
        rows: 1,
        ..by(HistoryBy::Job)
    };
    assert!(r.info(&first, None).expect("read").more);
}

#[test]
fn users_see_their_own_jobs_only() {
    let dir = Dir::new("own");
    let r = start(&dir);
    for (tree, uid) in [(1, 1000), (2, 1001), (3, 1000)] {
        r.began(&began(tree, uid, "x"));
        r.used(TreeId(tree), used(&[("n2", 10)]));
    }
    // Each job counts at its home and on n2.
    let lines = [
        (HistoryBy::User, 2),
        (HistoryBy::Node, 4),
        (HistoryBy::Day, 2),
        (HistoryBy::Command, 2),
    ];
    for (what, want) in lines {
        let seen: u64 = rows(&r, &by(what), Some(1000)).iter().map(|r| r.jobs).sum();
        assert_eq!(seen, want, "{what:?}");
    }
    assert_eq!(rows(&r, &by(HistoryBy::Job), Some(1001)).len(), 1);
    let others = HistoryQuery {
        uid: Some(1000),
        ..by(HistoryBy::Job)
    };
    assert_eq!(rows(&r, &others, Some(1001)).len(), 0);
    assert_eq!(rows(&r, &others, None).len(), 2);
}

#[test]
fn restarted_daemon_counts_nothing_twice() {
    let dir = Dir::new("restart");
    let first = start(&dir);
    first.began(&began(7, 0, "long"));
    first.used(TreeId(7), used(&[("n1", 100), ("n2", 900)]));
    first.close();

    let second = start(&dir);
    second.began(&Began {
        fresh: false,
        ..began(7, 0, "long")
    });
    second.used(TreeId(7), used(&[("n1", 150), ("n2", 900), ("n3", 40)]));
    second.ended(TreeId(7));
    let jobs = rows(&second, &by(HistoryBy::Job), None);
    assert_eq!(jobs.len(), 1);
    assert_eq!(
        (jobs[0].home_cpu_ms, jobs[0].away_cpu_ms, jobs[0].moves),
        (150, 940, 2)
    );
    // One that no daemon ever wrote about is counted from now on.
    second.began(&Began {
        fresh: false,
        ..began(8, 0, "unknown")
    });
    second.used(TreeId(8), used(&[("n1", 5000)]));
    assert_eq!(rows(&second, &by(HistoryBy::Job), None)[0].home_cpu_ms, 0);
    second.used(TreeId(8), used(&[("n1", 5001)]));
    assert_eq!(rows(&second, &by(HistoryBy::Job), None)[0].home_cpu_ms, 1);
}

#[test]
fn a_damaged_history_is_put_aside_and_a_new_one_begun() {
    type Damage = fn(&Path);
    let damage: [(&str, Damage); 3] = [
        ("no database", |file| {
            std::fs::write(file, [7; 9000]).expect("written")
        }),
        ("torn", |file| {
            let mut bytes = std::fs::read(file).expect("it is there");
            let half = bytes.len() / 2;
            bytes[half..].fill(0x5a);
            std::fs::write(file, bytes).expect("written");
        }),
        ("other tables", |file| {
            std::fs::write(file, "").expect("emptied");
            let wal = file.with_extension("db-wal");
            std::fs::write(wal, [1; 5000]).expect("written");
        }),
    ];
    for (what, damage) in damage {
        let dir = Dir::new(&what.replace(' ', "-"));
        let before = start(&dir);
        for tree in 0..200 {
            before.began(&began(
                tree,
                0,
                &format!("job {tree} of many with a long line"),
            ));
        }
        before.close();
        damage(&dir.file());

        let after = start(&dir);
        after.began(&began(1000, 0, "new"));
        let info = after.info(&by(HistoryBy::Job), None).expect("a new one");
        assert_eq!(info.rows.len(), 1, "{what}");
        if what == "other tables" {
            // An empty file is a new history.
            continue;
        }
        assert!(
            info.trouble.contains("history.damaged.db"),
            "{what}: {}",
            info.trouble
        );
        assert!(dir.0.join("history.damaged.db").exists(), "{what}");
    }
}

#[test]
fn a_history_that_is_damaged_under_the_daemon_is_replaced_too() {
    let dir = Dir::new("under");
    let before = start(&dir);
    for tree in 0..500 {
        before.began(&began(
            tree,
            0,
            &format!("job {tree} of many with a long line"),
        ));
        before.ended(TreeId(tree));
    }
    before.close();
    let r = start(&dir);
    r.began(&began(1000, 0, "it goes on"));
    assert_eq!(rows(&r, &by(HistoryBy::User), None)[0].jobs, 501);
    let long = std::fs::metadata(dir.file()).expect("it is there").len();
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(dir.file())
        .expect("opened");
    std::io::Write::write_all(&mut file, &vec![7; long as usize]).expect("written");
    r.used(TreeId(1000), used(&[("n1", 10)]));
    let info = r.info(&by(HistoryBy::User), None).expect("a new one");
    assert_eq!((info.rows.len(), info.rows[0].jobs), (1, 1));
    assert!(info.trouble.contains("damaged"), "{}", info.trouble);
}

#[test]
fn a_later_history_is_not_touched() {
    let dir = Dir::new("later");
    drop(Store::open(&dir.file(), 1 << 20));
    let db = std::fs::read(dir.file()).expect("it is there");
    let mut later = db.clone();
    // SQLite's file format: user_version is a big-endian number at 60.
    later[60..64].copy_from_slice(&99u32.to_be_bytes());
    std::fs::write(dir.file(), &later).expect("written");
    assert!(matches!(
        Store::open(&dir.file(), 1 << 20),
        Err(HistoryError::Later { found: 99, .. })
    ));
    let r = start(&dir);
    r.began(&began(1, 0, "x"));
    let info = r.info(&by(HistoryBy::User), None).expect("it can be read");
    assert!(info.trouble.contains("later version"), "{}", info.trouble);
}

/// Jobs as the recorder hands them to the store.
fn jobs(trees: std::ops::Range<u64>, ended: bool) -> Vec<(TreeId, Job)> {
    let mut all = Jobs::default();
    for n in trees.clone() {
        all.began(&began(n, 0, "a program with some arguments"), n);
        all.used(TreeId(n), used(&[("n1", 1), ("n2", 2)]));
        if ended {
            all.ended(TreeId(n), n + 1);
        }
    }
    all.unwritten(usize::MAX)
}

#[test]
fn a_full_history_forgets_its_oldest_jobs() {
    let dir = Dir::new("bound");
    let max = 256 << 10;
    let mut store = Store::open(&dir.file(), max).expect("a new one");
    for n in 0..100 {
        let batch = jobs(n * 100..n * 100 + 100, true);
        if let Err(HistoryError::Full(_)) = store.write(&name("n1"), n as i64, &batch) {
            store.make_room().expect("the oldest go");
            store
                .write(&name("n1"), n as i64, &batch)
                .expect("there is room");
        }
        store.prune(0, 0).expect("within its bounds");
        assert!(store.bytes().expect("its size") <= max);
    }
    let (rows, _) = read(&dir.file(), &by(HistoryBy::Job), None, &TimeZone::UTC).expect("read");
    let newest = rows[0].job.as_ref().expect("a job");
    assert_eq!((rows.len(), newest.tree), (100, TreeId(9999)));
    assert!(std::fs::metadata(dir.file()).expect("it is there").len() <= max);
}

#[test]
fn a_write_that_finds_no_room_changes_nothing() {
    let dir = Dir::new("full");
    let mut store = Store::open(&dir.file(), 64 << 10).expect("a new one");
    let batch = jobs(0..2000, false);
    let failed = store.write(&name("n1"), 1, &batch);
    assert!(matches!(failed, Err(HistoryError::Full(_))), "{failed:?}");
    // Jobs that run are not forgotten for it.
    store.make_room().expect("nothing to do");
    assert!(store.write(&name("n1"), 1, &batch).is_err());
    drop(store);
    let mut roomy = Store::open(&dir.file(), 8 << 20).expect("the same");
    roomy.write(&name("n1"), 1, &batch).expect("there is room");
    let (rows, _) = read(&dir.file(), &by(HistoryBy::User), None, &TimeZone::UTC).expect("read");
    assert_eq!(keys(&rows), [("0", 2000, 2000, 4000)]);
}

#[test]
fn old_days_and_jobs_without_a_keeper_end() {
    let dir = Dir::new("days");
    let mut store = Store::open(&dir.file(), 1 << 20).expect("a new one");
    store
        .write(&name("n1"), 10, &jobs(1..3, true))
        .expect("written");
    let running = store
        .write(&name("n1"), 20, &jobs(5..7, false))
        .expect("written");
    store.prune(15, 15 * DAY_MS).expect("the old ones go");
    store.end_unseen(&running[1..], 9).expect("one is ended");
    let (rows, _) = read(&dir.file(), &by(HistoryBy::Job), None, &TimeZone::UTC).expect("read");
    let ends: Vec<_> = rows
        .iter()
        .map(|r| r.job.as_ref().and_then(|j| j.end_ms))
        .collect();
    assert_eq!(ends, [None, Some(9)]);
}

#[test]
fn the_file_is_for_its_owner_alone() {
    let dir = Dir::new("mode");
    let r = start(&dir);
    r.began(&began(1, 0, "x"));
    assert_eq!(rows(&r, &by(HistoryBy::Job), None).len(), 1);
    for file in std::fs::read_dir(&dir.0).expect("a directory") {
        let file = file.expect("an entry");
        let mode = file.metadata().expect("its mode").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?}", file.path());
    }
}

#[test]
fn nothing_is_recorded_when_it_is_off() {
    let dir = Dir::new("off");
    let off = Settings {
        enabled: false,
        ..ON
    };
    let r = Recorder::start(dir.file(), name("n1"), off);
    r.began(&began(1, 0, "x"));
    let info = r.info(&by(HistoryBy::Job), None).expect("it answers");
    assert!(info.rows.is_empty() && info.trouble.contains("enabled = false"));
    r.close();
    assert!(!dir.file().exists());
}
