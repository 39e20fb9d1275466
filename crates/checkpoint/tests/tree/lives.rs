//! Second lives: of a shell's pipeline, of a program that ends, of files that were kept, of another user's process.

use crate::restart::may_choose_numbers;
use crate::run::{Dir, Tree, assert_same, below, python, restart, settled, wait_until, write};
use armento_checkpoint::home::{Descriptor, Home, Kind, Options, Process};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Held before the exec: a shell would run its script again.
pub fn pipeline() {
    let dir = Dir::new();
    let script = "umask 027; exec 5<input; read line <&5; sleep 1000 | cat >>output; echo";
    fs::write(dir.at("input"), "one\ntwo\n").unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(&dir.0);
    let mut tree = Tree::spawn(&mut command);
    let root = tree.pids[0];
    let program = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    wait_until("the pipeline runs", || {
        tree.pids = [vec![root], below(root)].concat();
        let mut programs: Vec<String> = tree.pids.iter().map(program).collect();
        programs.sort_unstable();
        programs == ["cat\n", "sh\n", "sleep\n"]
    });
    tree.stop();
    let home = tree.home();
    assert_eq!(home.processes[0].umask, 0o027);
    assert_eq!(home.pipes.len(), 1);
    write(&home, &dir.at("c"));
    tree.kill();
    let again = Tree::spawn(&mut restart(&dir.at("c"), &["new", "hold"]));
    let root = again.pids[0];
    let again = settled(again, root, 3, "202 ");
    assert_eq!(shown(&home), shown(&again.home()));
}

/// The descriptors of each process, as text. Those that close at the exec are not the program's.
fn shown(home: &Home) -> Vec<Vec<String>> {
    let line = |d: &Descriptor| {
        let of = &home.descriptions[d.description as usize];
        let text = match of.kind {
            Kind::Outside { .. } => "outside".to_owned(),
            _ => of.to_string(),
        };
        format!("{} {text} {:o}", d.fd, of.flags)
    };
    let one = |p: &Process| {
        p.descriptors
            .iter()
            .filter(|d| !d.cloexec)
            .map(line)
            .collect()
    };
    home.processes.iter().map(one).collect()
}

pub fn ends() {
    let dir = Dir::new();
    let script = "import os,sys,signal\nif os.environ.get('WAIT'): sys.exit(7)\nprint('ready', os.getpid(), flush=True)\nsignal.pause()";
    let mut command = Command::new("python3");
    let mut tree = Tree::start(command.args(["-c", script]));
    write(&tree.home(), &dir.at("c"));
    tree.kill();
    let new = restart(&dir.at("c"), &["new"]).output().unwrap();
    assert_eq!(new.status.code(), Some(7), "{new:?}");
    if !may_choose_numbers() {
        println!("skipped: CAP_CHECKPOINT_RESTORE is needed to choose process numbers");
        return;
    }
    let same = restart(&dir.at("c"), &["same"]).output().unwrap();
    assert_eq!(same.status.code(), Some(7), "{same:?}");
}

/// A deleted file, a removed one and one that was written since.
pub fn kept_files() {
    let dir = Dir::new();
    let script = r#"
for n, name in enumerate(['deleted', 'removed', 'written']):
    open(name, 'wb').write(name.encode() * 100000)
    fd = os.open(name, os.O_RDWR); os.lseek(fd, 10 * n, 0); os.dup2(fd, 20 + n); os.close(fd)
os.dup2(os.open('/proc/self/fd/20', os.O_RDONLY), 23); os.close(3)
os.remove('deleted')
print('ready', os.getpid(), flush=True)
"#;
    let mut tree = Tree::start(&mut python(&dir, script));
    let refused = tree.capture(&Options::default()).unwrap_err();
    assert!(
        refused[0]
            .to_string()
            .contains("which was deleted; --with-files"),
        "{refused:?}"
    );
    let options = Options {
        with_files: true,
        ..Options::default()
    };
    let home = tree.capture(&options).unwrap();
    write(&home, &dir.at("c"));
    tree.kill();
    fs::remove_file(dir.at("removed")).unwrap();
    fs::write(dir.at("written"), "something else").unwrap();
    let again = Tree::spawn(&mut restart(&dir.at("c"), &["new", "put-back"]));
    let root = again.pids[0];
    let again = settled(again, root, 1, "34 ");
    for (fd, name) in [
        (20, "deleted"),
        (21, "removed"),
        (22, "written"),
        (23, "deleted"),
    ] {
        let mut content = Vec::new();
        let mut file = fs::File::open(format!("/proc/{root}/fd/{fd}")).unwrap();
        file.read_to_end(&mut content).unwrap();
        assert!(content == name.as_bytes().repeat(100_000), "{name}");
    }
    assert_eq!(
        fs::read(dir.at("written")).unwrap(),
        b"written".repeat(100_000)
    );
    assert!(!dir.at("deleted").exists());
    let found = again.capture(&options).unwrap();
    let offsets = |h: &Home| -> Vec<u64> { h.descriptions.iter().map(|d| d.offset).collect() };
    assert_eq!(offsets(&home), offsets(&found));
}

/// Root restarts a user's process: as that user, with the groups and limits that it had.
pub fn of_a_user() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: only root restarts another user's processes");
        return;
    }
    let dir = Dir::new();
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o777)).unwrap();
    let script = r#"
import resource
os.setgroups([1001, 1002]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
resource.setrlimit(resource.RLIMIT_NOFILE, (50, 100)); os.dup2(0, 70)
ctypes = __import__('ctypes'); ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
print('ready', os.getpid(), flush=True)
"#;
    // A number above the limit stays open; it was lowered afterwards.
    let script = script.replace(
        "(50, 100)); os.dup2(0, 70)",
        "(80, 100)); os.dup2(0, 70); resource.setrlimit(resource.RLIMIT_NOFILE, (50, 60))",
    );
    let program = python(&dir, &script);
    let mut command = Command::new("/usr/bin/python3");
    command.args(program.get_args()).current_dir(&dir.0);
    command.stderr(fs::File::create(dir.at("errors")).unwrap());
    let mut tree = Tree::start(&mut command);
    let home = tree.home();
    let p = &home.processes[0];
    assert_eq!((p.uids, p.gids), ([65534; 4], [65534; 4]));
    assert_eq!(p.groups, [1001, 1002]);
    assert!(p.no_new_privs);
    write(&home, &dir.at("c"));
    tree.kill();
    let again = Tree::spawn(&mut restart(&dir.at("c"), &["new"]));
    let root = again.pids[0];
    assert_same(&home, &settled(again, root, 1, "34 ").home());
    // A name that leads elsewhere by now is opened as that user could.
    fs::write(dir.at("roots"), "of root alone").unwrap();
    fs::set_permissions(dir.at("roots"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(dir.at("errors")).unwrap();
    std::os::unix::fs::symlink(dir.at("roots"), dir.at("errors")).unwrap();
    let refused = restart(&dir.at("c"), &["new"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("ermission denied"),
        "{said}"
    );
    assert_eq!(fs::read(dir.at("roots")).unwrap(), b"of root alone");
}
