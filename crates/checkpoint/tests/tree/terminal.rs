//! A restarted job of an interactive shell, and a disk that is full.

use crate::run::Dir;
use armento_checkpoint::format::{FormatError, Header, Overwrite, PAGE, Writer};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Bash on a pseudoterminal: starts the program, has its checkpoint made, ends it; then restarts it in the foreground, writes
/// to it, stops it with Ctrl-Z, brings it back with fg, and ends it with Ctrl-C.
const DRIVER: &str = r#"
import os, pty, re, select, signal, subprocess, sys, time
test, directory, modes = sys.argv[1], sys.argv[2], sys.argv[3:]
program, checkpoint = directory + '/program.py', directory + '/c'
open(program, 'w').write('''
import os, sys, signal
if os.environ.get('WAIT'):
    print('again', os.getpgrp() == os.tcgetpgrp(0), flush=True)
    for line in sys.stdin: print('got', line.strip().upper(), flush=True)
print('ready', os.getpid(), flush=True)
signal.pause()
''')
pid, terminal = pty.fork()
if pid == 0:
    # A test in the background of a script has them ignored, and programs inherit that.
    for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP): signal.signal(n, signal.SIG_DFL)
    os.environ['PS1'] = 'PROMPT> '
    os.execvp('bash', ['bash', '--norc', '--noprofile', '--noediting', '-i'])
said = b''
def until(pattern):
    global said
    end, begin = time.time() + 60, len(said)
    while not re.search(pattern, said[begin:]):
        assert time.time() < end, (pattern, said)
        if select.select([terminal], [], [], 1)[0]: said += os.read(terminal, 4096)
    return re.search(pattern, said[begin:])
def enter(text): os.write(terminal, text.encode())
try:
    until(b'PROMPT> ')
    enter('python3 %s\n' % program)
    number = until(rb'ready (\d+)').group(1).decode()
    subprocess.run([test, 'save', number, checkpoint], check=True)
    enter('\x03'); until(b'PROMPT> ')
    for mode in modes:
        enter('%s restart %s %s\n' % (test, checkpoint, mode)); until(b'again True')
        enter('hello\n'); until(b'got HELLO')
        enter('\x1a'); until(b'Stopped[^$]*PROMPT> ')
        enter('fg\n'); enter('more\n'); until(b'got MORE')
        enter('\x03'); until(b'PROMPT> ')
        enter('echo status $?\n'); until(rb'status 130\r\n[^$]*PROMPT> ')
finally:
    # Its terminal hangs up, which ends what it started.
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"#;

pub fn job_control() {
    let dir = Dir::new();
    let test = std::env::current_exe().unwrap();
    let mut driver = Command::new("python3");
    driver.args(["-c", DRIVER]).arg(test).arg(&dir.0).arg("new");
    match crate::restart::may_choose_numbers() {
        true => drop(driver.arg("same")),
        false => println!("skipped: CAP_CHECKPOINT_RESTORE is needed to choose process numbers"),
    }
    let output = driver.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Run in a mount namespace of its own, on a disk of 1 MiB.
pub fn fill(dir: &Path) {
    let header = Header::here(27, "0.1.0", "n1", 1);
    let mut w = Writer::create(&dir.join("c"), &header, Overwrite::No).unwrap();
    let mut x = 1u64;
    let full = loop {
        let mut page = [0; PAGE];
        for eight in page.chunks_mut(8) {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            eight.copy_from_slice(&x.to_le_bytes());
        }
        if let Err(e) = w.page(1, x & 0xffff_f000, &page) {
            break e;
        }
    };
    assert!(matches!(full, FormatError::NoSpace(_)), "{full}");
    // It stays so.
    assert!(w.finish().is_err());
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    println!("{full}; {}", full.hint().unwrap());
}

pub fn no_space() {
    let dir = Dir::new();
    let test = std::env::current_exe().unwrap();
    let script = r#"mount -t tmpfs -o size=1m none "$1" && exec "$0" fill "$1""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script]);
    let output = command.arg(test).arg(&dir.0).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("unshare failed") || said.contains("permission denied") {
        println!("skipped: no mount namespace may be made here: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "no space is left for";
    assert!(
        said.contains(expected) && said.contains("free some space"),
        "{said}"
    );
}
