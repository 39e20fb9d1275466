use super::*;
use crate::state_dir::StateDir;
use ring::digest::{SHA256, digest};

fn meta() -> Meta {
    Meta {
        home: "n1".parse().expect("name"),
        tree: TreeId(7),
        uid: sys::euid(),
        user: "u".into(),
        command: "perl".into(),
        boot: "b".into(),
        dead_ms: 1,
        bytes: None,
        made_ms: 0,
        taken: false,
        unsure: false,
    }
}

fn begins(kept: &mut Kept, bytes: &[u8]) -> String {
    let id = id_of(&meta().home, meta().tree);
    let sha256 = hex(digest(&SHA256, bytes).as_ref());
    begin(kept, &id, meta(), (bytes.len() as u64, sha256)).expect("begins");
    id
}

#[test]
fn complete_checkpoint_replaces_the_one_before_and_outlives_the_daemon() {
    let path = std::env::temp_dir().join(format!("armento-kept-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let dir = StateDir::new(path);
    dir.create().expect("a directory");
    let mut kept = Kept::recover(&dir);
    let id = begins(&mut kept, b"first");
    part(&mut kept, &id, 0, &hex(b"fir")).expect("a part");
    part(&mut kept, &id, 0, &hex(b"fir")).expect("asked twice");
    end(&mut kept, &id).expect_err("a part is missing");
    begins(&mut kept, b"first");
    part(&mut kept, &id, 1, &hex(b"irst")).expect_err("not in turn");
    part(&mut kept, &id, 0, &hex(b"first")).expect("a part");
    end(&mut kept, &id).expect("complete");
    end(&mut kept, &id).expect("asked twice");
    begins(&mut kept, b"other");
    part(&mut kept, &id, 0, &hex(b"wrong")).expect("a part");
    end(&mut kept, &id).expect_err("another digest");
    assert_eq!(fs::read(kept.file(&id)).expect("the file"), b"first");
    let mut next = Kept::recover(&dir);
    assert_eq!(next.all.get(&id).and_then(|e| e.meta.bytes), Some(5));
    assert!(
        !next.all[&id].wait().is_zero(),
        "its lease is taken as renewed"
    );
    next.forget(&id);
    assert_eq!(fs::read_dir(next.dir()).expect("files").count(), 0);
    let _ = fs::remove_dir_all(dir.path());
}

#[test]
fn home_of_a_recovered_tree_is_told_until_it_has_ended_it() {
    let path = std::env::temp_dir().join(format!("armento-taken-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let dir = StateDir::new(path);
    dir.create().expect("a directory");
    let mut kept = Kept::recover(&dir);
    let id = begins(&mut kept, b"x");
    kept.all.get_mut(&id).expect("it").meta.taken = true;
    kept.all.get_mut(&id).expect("it").meta.bytes = Some(1);
    assert!(of_taken(&mut kept, &id, &KeepStep::Forget).taken);
    assert!(kept.all.contains_key(&id), "it is being read");
    kept.all.get_mut(&id).expect("it").meta.bytes = None;
    assert!(of_taken(&mut kept, &id, &KeepStep::Renew).taken);
    assert!(of_taken(&mut kept, &id, &KeepStep::Forget).taken);
    assert!(kept.all.is_empty());
    let _ = fs::remove_dir_all(dir.path());
}
