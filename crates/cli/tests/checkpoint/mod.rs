//! `armento checkpoint` and `armento restart`: programs go on from a file as if they had never stopped; what cannot be
//! saved, and files that are no checkpoints, are refused with the reason.

mod shared;

use crate::lab::{Farm, until};
use crate::restarts::json;

/// A parent and a child with pipe and socket pair, three threads, a handler, a file with a position: each turn checks that
/// nothing was lost or done twice.
const TREE: &str = r#"import os, sys, threading, time, signal, socket
turns = int(sys.argv[1]); out = open(sys.argv[2], "a"); got = []
r, w = os.pipe(); a, b = socket.socketpair()
signal.signal(signal.SIGUSR1, lambda *x: got.append(1))
child = os.fork()
if child == 0:
    os.close(r); a.close(); sum = 0
    while True:
        m = b.recv(100)
        if not m: os._exit(7)
        sum += int(m); os.write(w, b"%d\n" % sum)
os.close(w); b.close()
lock = threading.Lock(); box = []
def work(k):
    for i in range(turns):
        with lock: box.append((k, i))
        time.sleep(0.02)
threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
for t in threads: t.start()
lines = os.fdopen(r)
for i in range(turns):
    a.send(b"%d" % i); line = int(lines.readline())
    assert line == i * (i + 1) // 2, (line, i)
    if i % 10 == 0: os.kill(os.getpid(), signal.SIGUSR1)
    out.write(f"{i} {line}\n"); out.flush(); time.sleep(0.02)
for t in threads: t.join()
a.close(); _, status = os.waitpid(child, 0)
for k in range(3): assert [i for kk, i in box if kk == k] == list(range(turns))
out.write(f"end {os.WEXITSTATUS(status)} {len(got)} {threading.get_native_id() == os.getpid()}\n")
"#;
const TURNS: usize = 250;

/// Starts a program without the descriptors that the tests were started with: a checkpoint would have to name them.
const CLEAN: &str = "perl -MPOSIX -e 'POSIX::close($_) for 3..255; exec @ARGV' --";

fn whole_output() -> String {
    whole_sums(TURNS) + "end 7 25 True\n"
}

fn whole_sums(turns: usize) -> String {
    let line = |i: usize| format!("{i} {}\n", i * (i + 1) / 2);
    (0..turns).map(line).collect()
}

fn starts(farm: &Farm, how: &str) -> String {
    starts_program(farm, how, TREE)
}

fn starts_program(farm: &Farm, how: &str, program: &str) -> String {
    farm.sh("n1", &format!("cat > /tmp/tree.py <<'END'\n{program}END"));
    let start = format!(
        "rm -f /tmp/wrote; {CLEAN} armento run {how} /usr/bin/python3 /tmp/tree.py {TURNS} /tmp/wrote </dev/null >/tmp/out 2>&1 & echo $!"
    );
    let pid = farm.sh("n1", &start).trim().to_owned();
    wrote(farm, 20);
    pid
}

fn wrote(farm: &Farm, lines: usize) {
    until("its lines", || {
        let n = farm.sh("n1", "cat /tmp/wrote 2>/dev/null | wc -l");
        n.trim().parse::<usize>().is_ok_and(|n| n >= lines)
    });
}

/// Ends them all, and takes the file back to where the checkpoint has it.
fn cuts_off(farm: &Farm, pid: &str, file: &str) {
    farm.sh("n1", &format!("pkill -9 -f '^/usr/bin/python3 /tmp/tree.py'; while kill -0 {pid} 2>/dev/null; do sleep 0.02; done"));
    let inspect = format!("armento checkpoint --inspect --json {file}");
    let doc = json(farm, "n1", &inspect).expect("a checkpoint");
    let at = doc["processes"][0]["descriptors"]
        .as_array()
        .expect("descriptors")
        .iter()
        .filter_map(|d| d.as_str()?.split_once("/tmp/wrote, at byte "))
        .map(|(_, at)| at.to_owned())
        .next()
        .expect("its file");
    farm.sh("n1", &format!("truncate -s {at} /tmp/wrote"));
}

#[test]
fn a_tree_goes_on_from_its_file_as_if_nothing_had_been() {
    let Some(farm) = Farm::up("ckpt", None) else {
        return;
    };
    let pid = starts(&farm, "--stay");
    let made = json(
        &farm,
        "n1",
        &format!("armento checkpoint --json {pid} /tmp/home.ckpt"),
    );
    let made = made.expect("a checkpoint at home");
    assert_eq!(made["pids"].as_array().map(Vec::len), Some(2), "{made}");
    // Also from another node, in the same run of the program.
    farm.sh("n1", &format!("armento migrate {pid} n2"));
    farm.sh("n1", &format!("armento checkpoint {pid} /tmp/away.ckpt"));
    for file in ["/tmp/home.ckpt", "/tmp/away.ckpt"] {
        cuts_off(&farm, &pid, file);
        let again = farm.run("n1", &format!("armento restart {file} </dev/null"));
        let text = String::from_utf8_lossy(&again.stderr).into_owned();
        assert!(
            again.status.success(),
            "{file}: {text}{}",
            farm.sh("n1", "cat /tmp/out")
        );
        assert_eq!(farm.sh("n1", "cat /tmp/wrote"), whole_output(), "{file}");
    }
}

#[test]
fn a_program_goes_on_at_another_home_under_a_new_number() {
    let Some(farm) = Farm::up("ckpt-home", None) else {
        return;
    };
    const ALONE: &str = r#"$| = 1; open(F, ">>", "/tmp/wrote"); $s = 0; for $i (1..200) { $s += $i; syswrite(F, "$i $s\n"); select(undef, undef, undef, 0.02) } print "end $s\n""#;
    let start = format!(
        "rm -f /tmp/wrote; {CLEAN} armento run --on n2 perl -e '{ALONE}' </dev/null >/tmp/out 2>&1 & echo $!"
    );
    let pid = farm.sh("n1", &start).trim().to_owned();
    wrote(&farm, 10);
    farm.sh(
        "n1",
        &format!("armento checkpoint --with-files {pid} /tmp/a.ckpt"),
    );
    farm.sh("n1", &format!("kill -9 {pid}"));
    let file = farm.run("n1", "base64 -w0 /tmp/a.ckpt").stdout;
    farm.sh(
        "n2",
        &format!(
            "base64 -d > /tmp/a.ckpt <<'END'\n{}\nEND",
            String::from_utf8_lossy(&file)
        ),
    );
    let start =
        "cd /tmp; armento restart --pid new --put-back /tmp/a.ckpt </dev/null 2>/tmp/err; echo $?";
    let code = farm.sh("n2", start);
    assert_eq!(code.trim(), "0", "{}", farm.sh("n2", "cat /tmp/err"));
    let sums: String = (1..=200)
        .map(|i| format!("{i} {}\n", i * (i + 1) / 2))
        .collect();
    assert_eq!(farm.sh("n2", "cat /tmp/wrote"), sums);
    assert_eq!(farm.sh("n2", "cat /tmp/out"), "end 20100\n");
}

#[test]
fn what_is_no_checkpoint_and_what_cannot_be_saved_is_refused_with_the_reason() {
    let Some(farm) = Farm::up("ckpt-bad", None) else {
        return;
    };
    let pid = starts(&farm, "--stay");
    farm.sh("n1", &format!("armento checkpoint {pid} /tmp/a.ckpt"));
    farm.sh("n1", "head -c 5000 /tmp/a.ckpt > /tmp/short; { head -c 5000 /tmp/a.ckpt; echo x; tail -c +5003 /tmp/a.ckpt; } > /tmp/forged");
    let server = "/usr/bin/python3 -c 'import socket, time; s = socket.create_server((\"127.0.0.1\", 0)); time.sleep(60)' </dev/null >/dev/null 2>&1 & echo $!";
    let server = farm.sh("n1", server).trim().to_owned();
    let words = |line: &str, code: i32, said: &str| {
        let out = farm.run("n1", line);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{line}: {text}");
        assert!(
            text.contains(said) && text.contains("hint: "),
            "{line}: {text}"
        );
    };
    words("armento restart /tmp/short", 125, "truncated");
    words("armento restart /tmp/forged", 125, "changed");
    words("armento restart /tmp/tree.py", 125, "not a checkpoint");
    words("armento restart /tmp/none", 125, "No such file");
    words(
        "armento restart /tmp/a.ckpt </dev/null",
        125,
        &format!("{pid} is used by"),
    );
    words(
        "armento restart --pid new --on n9 /tmp/a.ckpt </dev/null",
        125,
        "no node n9",
    );
    words(
        &format!("armento checkpoint {pid} /tmp/a.ckpt"),
        125,
        "exists already",
    );
    words(
        &format!("armento checkpoint {pid} /none/a.ckpt"),
        125,
        "no directory",
    );
    words(
        "armento checkpoint 4194300 /tmp/b.ckpt",
        125,
        "no process 4194300",
    );
    words(
        &format!("armento checkpoint {server} /tmp/b.ckpt"),
        125,
        "descriptor 3 is",
    );
    words(
        &format!("armento checkpoint {pid}"),
        125,
        "a process and a file",
    );
    // Nothing was left, and the program has gone on.
    assert_eq!(
        farm.sh("n1", "ls -A /tmp | grep -c 'b.ckpt' || true")
            .trim(),
        "0"
    );
    until("its end", || {
        farm.sh("n1", "cat /tmp/wrote") == whole_output()
    });
    farm.sh("n1", &format!("kill {server}"));
}
