//! Checkpoints of programs that share memory: by MAP_SHARED | MAP_ANONYMOUS, and by memfds; of POSIX timers.

use super::{CLEAN, TURNS, cuts_off, starts_program, whole_sums};
use crate::lab::{Farm, long};

/// A parent and a child that hand numbers to each other in shared memory and in a memfd: each turn begins with the signal of
/// a POSIX timer, and checks what mappings and descriptors show. A second timer has an hour left. (Numbers of system calls:
/// timer_create 222 to timer_delete 226; F_ADD_SEALS 1033, F_GET_SEALS 1034.)
const SHARED: &str = r#"import os, sys, mmap, signal, ctypes, struct, fcntl
turns = int(sys.argv[1]); out = open(sys.argv[2], "a")
libc = ctypes.CDLL(None)
RT = signal.SIGRTMIN + 1
signal.pthread_sigmask(signal.SIG_BLOCK, [RT])
def timer(how):
    event = struct.pack("QiiI", 0x123456789, RT, how, 0).ljust(64, b"\0"); number = ctypes.c_int(-1)
    assert libc.syscall(222, 1, event, ctypes.byref(number)) == 0
    return number.value
for t in [timer(1), timer(1)]: libc.syscall(226, t)
beat, quiet = timer(0), timer(1)
libc.syscall(223, beat, 0, struct.pack("qqqq", 0, 20000000, 0, 20000000), None)
libc.syscall(223, quiet, 0, struct.pack("qqqq", 3600, 0, 3600, 0), None)
shared = mmap.mmap(-1, 1 << 20)
if os.path.exists("/tmp/plain"):
    seen = read = mmap.mmap(-1, 65536); seals = lambda: 2
    def put(b): seen[4096:4116] = b
else:
    box = os.memfd_create("box", os.MFD_ALLOW_SEALING); os.ftruncate(box, 65536)
    fcntl.fcntl(box, 1033, 2); seen = mmap.mmap(box, 65536); read = mmap.mmap(box, 65536, prot=mmap.PROT_READ)
    put = lambda b: os.pwrite(box, b, 4096); seals = lambda: fcntl.fcntl(box, 1034)
shared[500000:500004] = b"kept"; seen[60000:60004] = b"kept"
r, w = os.pipe(); back, answer = os.pipe()
child = os.fork()
if child == 0:
    os.close(w); os.close(back); sum = 0
    while os.read(r, 1):
        sum += struct.unpack("q", shared[8:16])[0]
        shared[16:24] = struct.pack("q", sum); put(b"%020d" % sum); os.write(answer, b".")
    os._exit(7)
os.close(r); os.close(answer)
for i in range(turns):
    signal.sigwaitinfo([RT])
    shared[8:16] = struct.pack("q", i); os.write(w, b"x"); os.read(back, 1)
    sum = struct.unpack("q", shared[16:24])[0]; told = int(seen[4096:4116]); only_read = int(read[4096:4116])
    assert sum == told == only_read == i * (i + 1) // 2, (i, sum, told, only_read)
    out.write(f"{i} {sum}\n"); out.flush()
os.close(w); _, status = os.wait()
left = ctypes.create_string_buffer(32); assert libc.syscall(224, quiet, left) == 0
assert shared[500000:500004] == seen[60000:60004] == b"kept"
hour = 3400 < struct.unpack("qqqq", left.raw)[2] <= 3600
out.write(f"end {os.WEXITSTATUS(status)} {seals()} {hour} {beat} {quiet}\n")
"#;

#[test]
fn processes_that_share_memory_go_on_together() {
    let Some(farm) = Farm::up("ckpt-shared", None) else {
        return;
    };
    let mut pid = starts_program(&farm, "--stay", SHARED);
    // Without the parent the child's memory is shared with a process outside.
    let child = farm.sh("n1", &format!("pgrep -P {pid} -f tree.py"));
    let alone = format!("armento checkpoint {} /tmp/one.ckpt", child.trim());
    let refused = farm.run("n1", &alone);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(125), "{text}");
    assert!(
        text.contains(&format!("process {pid} (")) && text.contains("hint: "),
        "{text}"
    );
    farm.sh("n1", &format!("armento checkpoint {pid} /tmp/one.ckpt"));
    cuts_off(&farm, &pid, "/tmp/one.ckpt");
    // A checkpoint of what was restarted is as good as the first.
    let start = format!(
        "{CLEAN} armento restart --pid new /tmp/one.ckpt </dev/null >/dev/null 2>/tmp/err & echo $!"
    );
    pid = farm.sh("n1", &start).trim().to_owned();
    let grown = "tail -1 /tmp/wrote | cut -d' ' -f1";
    let then = farm.sh("n1", grown);
    crate::lab::until("more of its lines", || farm.sh("n1", grown) != then);
    crate::lab::until("its row", || {
        let doc = crate::restarts::json(&farm, "n1", "armento ps --json").unwrap_or_default();
        let procs = doc["procs"].as_array().cloned().unwrap_or_default();
        procs.iter().any(|p| p["pid"].as_u64() == pid.parse().ok())
    });
    farm.sh("n1", &format!("armento checkpoint {pid} /tmp/two.ckpt"));
    cuts_off(&farm, &pid, "/tmp/two.ckpt");
    let elsewhere = farm.run("n1", "armento restart --on n2 /tmp/two.ckpt </dev/null");
    let text = String::from_utf8_lossy(&elsewhere.stderr).into_owned();
    assert_eq!(elsewhere.status.code(), Some(125), "{text}");
    assert!(text.contains("begin on this node"), "{text}");
    let again = farm.run("n1", "armento restart --pid new /tmp/two.ckpt </dev/null");
    let text = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        again.status.success(),
        "{text}{}",
        farm.sh("n1", "cat /tmp/out")
    );
    let whole = whole_sums(TURNS) + "end 7 2 True 2 3\n";
    assert_eq!(farm.sh("n1", "cat /tmp/wrote"), whole);
}

#[test]
fn processes_that_share_memory_at_another_node_go_on_together() {
    if !long() {
        return;
    }
    let Some(farm) = Farm::up("ckpt-group", None) else {
        return;
    };
    // One with a memfd open stays at home.
    farm.sh("n1", "touch /tmp/plain");
    let pid = starts_program(&farm, "--stay", SHARED);
    farm.sh("n1", &format!("armento migrate {pid} n2"));
    farm.sh("n1", &format!("armento checkpoint {pid} /tmp/away.ckpt"));
    let place = farm.sh(
        "n1",
        &format!("armento ps --json | grep -c '\"n2\"' || true; kill -0 {pid}"),
    );
    assert_ne!(place.trim(), "0", "they run on where they were");
    cuts_off(&farm, &pid, "/tmp/away.ckpt");
    let again = farm.run("n1", "armento restart /tmp/away.ckpt </dev/null");
    let text = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        again.status.success(),
        "{text}{}",
        farm.sh("n1", "cat /tmp/out")
    );
    let whole = whole_sums(TURNS) + "end 7 2 True 2 3\n";
    assert_eq!(farm.sh("n1", "cat /tmp/wrote"), whole);
}
