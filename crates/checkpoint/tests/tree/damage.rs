//! What hinders a restart.

use crate::run::{Dir, Tree, below, python, restart, wait_until, write};
use armento_checkpoint::assemble::{AssembleError, How, check};
use armento_checkpoint::home::{Home, Kind};
use std::fs;
use std::process::Stdio;

const SCRIPT: &str = r#"
os.mkdir('sub'); open('data', 'w').write('0123456789'); fd = os.open('data', os.O_RDWR); os.lseek(fd, 8, 0)
os.chdir('sub')
c = os.fork()
if c == 0: signal.pause()
print('ready', os.getpid(), c, flush=True)
"#;

fn refused(home: &Home) -> AssembleError {
    check(home, &How::default()).unwrap_err()
}

pub fn before() {
    let dir = Dir::new();
    let mut tree = Tree::start(&mut python(&dir, SCRIPT));
    let home = tree.home();
    tree.kill();
    assert_eq!(check(&home, &How::default()).unwrap(), []);

    fs::write(dir.at("data"), "012").unwrap();
    let warnings = check(&home, &How::default()).unwrap();
    let text = warnings[0].to_string();
    assert!(
        text.contains("has 3 bytes, where it had 10; the program is beyond its end"),
        "{text}"
    );
    fs::remove_file(dir.at("data")).unwrap();
    let e = refused(&home);
    assert!(
        matches!(&e, AssembleError::Open { path, .. } if path.ends_with("/data")),
        "{e}"
    );
    assert!(e.hint().unwrap().contains("put the file back"));
    fs::write(dir.at("data"), "0123456789").unwrap();
    fs::remove_dir(dir.at("sub")).unwrap();
    let e = refused(&home);
    assert!(e.to_string().ends_with("/sub is gone"), "{e}");
    fs::create_dir(dir.at("sub")).unwrap();

    let mut other = home.clone();
    other.processes[1].exe.identity.size += 1;
    assert!(matches!(refused(&other), AssembleError::Program { .. }));
    let mut other = home.clone();
    other.processes[0].exe.path.0.push(b'x');
    assert!(refused(&other).to_string().ends_with("is missing"));
    let mut other = home.clone();
    other.processes[0].pid = i32::MAX;
    let how = How {
        same_pids: true,
        ..How::default()
    };
    let e = check(&other, &how).unwrap_err();
    assert!(
        matches!(
            e,
            AssembleError::PidTooLarge { .. } | AssembleError::NoRight
        ),
        "{e}"
    );
    // One that always runs; our own number would be that of a root that was made already.
    other.processes[0].pid = 1;
    let e = check(&other, &how).unwrap_err();
    assert!(
        matches!(e, AssembleError::PidInUse { .. } | AssembleError::NoRight),
        "{e}"
    );
    let mut other = home.clone();
    other.descriptions.push(home.descriptions[0].clone());
    other.processes[0].descriptors[0].description = 99;
    assert!(matches!(refused(&other), AssembleError::Empty));
}

/// The lock of a file is taken by another program between check and restart; a limit of descriptors is too low.
pub fn on_the_way() {
    let dir = Dir::new();
    let script = format!("import fcntl\n{SCRIPT}")
        .replace("os.chdir", "fcntl.lockf(fd, fcntl.LOCK_EX)\nos.chdir");
    let mut tree = Tree::start(&mut python(&dir, &script));
    let home = tree.home();
    assert_eq!(home.processes[0].locks.len(), 1);
    write(&home, &dir.at("c"));
    let held = |d: &armento_checkpoint::home::Description| matches!(d.kind, Kind::File(_));
    assert!(home.descriptions.iter().any(held));
    // The first life still has the lock.
    let mut again = restart(&dir.at("c"), &["new"]);
    let again = again
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = again.spawn().unwrap();
    let root = child.id() as i32;
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert_eq!(below(root), [0; 0]);
    assert!(said.contains("its locks failed"), "{said}");
    tree.kill();
    wait_until("nothing is left", || below(root).is_empty());
}
