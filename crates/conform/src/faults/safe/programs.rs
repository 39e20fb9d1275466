//! The programs that are kept safe: what they leave behind natively, and what has to be true of it when one ends early.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::guests::{self, How};

pub struct Program {
    pub name: &'static str,
    /// For `sh`, in a directory of its own; its standard output is the file `../out`. `$TALLY` is the campaign's own program,
    /// `$GUEST` the one of this name in `guests/`.
    pub line: &'static str,
    /// Files that are written from beginning to end: when it ends early, each is a beginning of the native one.
    pub grows: &'static [&'static str],
    /// What has to end with 0 then.
    pub check: Option<&'static str>,
    /// One process, without children.
    pub alone: bool,
    /// How often it is chosen.
    pub share: u64,
}

/// A guest of this name; it may leave anything when it ends early.
const fn guest(name: &'static str) -> Program {
    Program {
        name,
        line: r#"exec "$GUEST""#,
        grows: &[],
        check: None,
        alone: false,
        share: 2,
    }
}

/// Files and pipes, with computing and sleeps between.
const LINES: &str = r#"exec perl -e 'use IO::Handle; $| = 1; open(F, ">>", "wrote"); F->autoflush(1); pipe(R, W);
for $i (1..250) { for (1..20000) { $x = ($x * 69069 + $i + $_) % 4294967296 }
syswrite(W, "$i\n"); sysread(R, $b, 100); print F "$i $x $b"; print "$i $x\n"; select(undef, undef, undef, 0.005) } print "end\n"'"#;

/// The same for longer, with files that stay open: its home is lost.
pub const LONG: &str = "long";
const LONG_LINES: &str = r#"exec perl -e '$| = 1; open(F, ">>", "wrote");
for $i (1..1200) { for (1..20000) { $x = ($x * 69069 + $i + $_) % 4294967296 }
syswrite(F, "$i $x\n"); print "$i $x\n"; select(undef, undef, undef, 0.01) } print "end\n"'"#;

/// What it writes does not fit on its disk for a while: it tries again.
pub const PATIENT: &str = "patient";
const TRIES_AGAIN: &str = r#"exec perl -e '$| = 1; open(F, ">>", "wrote");
sub put { my $s = $_[0]; while (length $s) { $n = syswrite(F, $s); defined $n ? substr($s, 0, $n, "") : select(undef, undef, undef, 0.01) } }
for $i (1..200) { for (1..20000) { $x = ($x * 69069 + $i + $_) % 4294967296 }
put("$i $x " . "x" x 2000 . "\n"); print "$i\n" } print "end\n"'"#;

/// Transactions, each acknowledged by a line.
const SQL: &str = r#"perl -e 'print "create table t(i integer primary key, x integer);\n"; for (1..120) {
print "with recursive c(n, x) as (select 1, $_ union all select n + 1, (x * 69069 + n) % 4294967296 from c where n < 8000) insert into t select $_, max(x) from c;\n.print done $_\n" }
print "select count(*), sum(x) from t;\n"' > in.sql; exec sqlite3 -batch -init /dev/null db < in.sql"#;
const SQL_CHECK: &str = r#"n=$(grep -c '^done' ../out); m=$(sqlite3 db 'select count(*) from t' 2>/dev/null || echo 0)
test "$(sqlite3 db 'pragma integrity_check')" = ok && test "$m" -ge "$n""#;

/// Parent and child over a pair of sockets. One that loses the other ends as if killed itself.
const TALK: &str = r#"exec perl -e 'use Socket; use IO::Handle; $| = 1; socketpair($a, $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC);
if (!fork) { close $a; open(F, ">>", "child"); F->autoflush(1); while (sysread($b, $n, 4)) { $v = unpack("N", $n); print F "got $v\n";
for (1..15000) { $y = ($y * 69069 + $v + $_) % 4294967296 } syswrite($b, pack("N", $y)) } exit 0 }
close $b; open(G, ">>", "parent"); G->autoflush(1); for $i (1..200) { syswrite($a, pack("N", $i)); sysread($a, $r, 4) or kill 9, $$;
$v = unpack("N", $r); print G "$i $v\n"; print "$i $v\n" } close $a; wait; print "end $?\n"'"#;

/// Parent and child that share memory, and wait for each other by pipes.
const SHARED: &str = r#"cat > group.py <<'END'
import mmap, os, signal, struct, time
out = open("wrote", "a"); turns = 100; m = mmap.mmap(-1, 1 << 20)
r, w = os.pipe(); back, answer = os.pipe()
def get(at): return struct.unpack("q", m[at:at+8])[0]
def put(at, v): m[at:at+8] = struct.pack("q", v)
if os.fork() == 0:
    os.close(w); os.close(back)
    while os.read(r, 1):
        x = get(8)
        for k in range(8000): x = (x * 69069 + k) % 4294967296
        put(16, x); put(1000 + 8 * get(0), x); os.write(answer, b".")
    os._exit(7)
os.close(r); os.close(answer)
for i in range(turns):
    put(0, i); put(8, (get(16) + i) % 4294967296); os.write(w, b"x")
    if not os.read(back, 1): os.kill(os.getpid(), signal.SIGKILL)
    out.write(f"{i} {get(16)}\n"); out.flush(); print(i, get(16), flush=True); time.sleep(0.005)
os.close(w); _, status = os.wait()
print("end", os.WEXITSTATUS(status), sum(m[1000:1000 + 8 * turns]), flush=True)
END
exec /usr/bin/python3 group.py"#;

const PIPELINE: &str = r#"for i in 1 2 3; do perl -e 'for (1..40000) { $x = ($x * 69069 + $_) % 4294967296; print "$x\n" }' | sort -n | gzip -n > $i.gz
done; cat *.gz | gzip -dc | cksum"#;

pub const PROGRAMS: &[Program] = &[
    Program {
        name: "calm",
        line: r#"exec "$TALLY" 700 calm"#,
        grows: &["../out", "log", "reader"],
        check: None,
        alone: true,
        share: 24,
    },
    Program {
        name: "tally",
        line: r#"exec "$TALLY" 400"#,
        grows: &["../out", "log", "reader", "children"],
        check: None,
        alone: false,
        share: 4,
    },
    Program {
        name: "lines",
        line: LINES,
        grows: &["../out", "wrote"],
        check: None,
        alone: true,
        share: 20,
    },
    Program {
        name: PATIENT,
        line: TRIES_AGAIN,
        grows: &["../out", "wrote"],
        check: None,
        alone: true,
        share: 8,
    },
    Program {
        name: "sqlite",
        line: SQL,
        grows: &["../out"],
        check: Some(SQL_CHECK),
        alone: false,
        share: 10,
    },
    Program {
        name: "talk",
        line: TALK,
        grows: &["../out", "parent", "child"],
        check: None,
        alone: false,
        share: 10,
    },
    Program {
        name: "shared",
        line: SHARED,
        grows: &["../out", "wrote"],
        check: None,
        alone: false,
        share: 6,
    },
    Program {
        name: "pipeline",
        line: PIPELINE,
        grows: &[],
        check: None,
        alone: false,
        share: 4,
    },
    Program {
        name: LONG,
        line: LONG_LINES,
        grows: &["../out", "wrote"],
        check: None,
        alone: true,
        share: 3,
    },
    guest("threads"),
    guest("conds"),
    guest("pipes"),
    guest("streams"),
    guest("files"),
    guest("forks"),
    guest("epolls"),
];

/// Names of their processes, as the kernel has them.
pub const NAMES: [&str; 14] = [
    "tally", "perl", "sqlite3", "python3", "sort", "gzip", "cksum", "threads", "conds", "pipes",
    "streams", "files", "forks", "epolls",
];

/// A program with what it leaves natively.
pub struct Known {
    pub program: &'static Program,
    /// Where its guest is.
    pub guest: Option<PathBuf>,
    /// The content of its files, by their names from its directory.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Known {
    /// The variables that its line names.
    pub fn variables(&self, tally: &Path) -> String {
        let guest = self.guest.as_deref().unwrap_or(Path::new(""));
        format!(
            "export TALLY={} GUEST={};",
            tally.display(),
            guest.display()
        )
    }
}

/// Runs those of them that are `wanted` natively, twice: what they leave must be the same.
pub fn known(tally: &Path, wanted: impl Fn(usize) -> bool) -> Result<Vec<Known>> {
    let one = |program: &'static Program, wanted: bool| {
        let guest = match wanted && program.line.contains("$GUEST") {
            true => Some(compiled(program.name)?),
            false => None,
        };
        let mut known = Known {
            program,
            guest,
            files: BTreeMap::new(),
        };
        if !wanted {
            return Ok(known);
        }
        known.files = native(&known, tally)?;
        let again = native(&known, tally)?;
        ensure!(
            known.files == again,
            "natively {} leaves other files each time",
            program.name
        );
        Ok(known)
    };
    std::thread::scope(|s| {
        let all = PROGRAMS.iter().enumerate();
        let all: Vec<_> = all
            .map(|(n, program)| {
                let wanted = wanted(n);
                s.spawn(move || one(program, wanted))
            })
            .collect();
        let joined = all.into_iter().map(|t| match t.join() {
            Ok(known) => known,
            Err(_) => anyhow::bail!("a thread panicked"),
        });
        joined.collect()
    })
}

fn compiled(name: &str) -> Result<PathBuf> {
    let all = guests::select(&[name.into()], false)?;
    let guest = all.first().context("a guest of the campaign")?;
    match guest.how {
        How::Source { file, source } => guests::compiled(name, file, source),
        _ => anyhow::bail!("the guest {name} is no source"),
    }
}

fn native(known: &Known, tally: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let name = known.program.name;
    let dir = std::env::temp_dir().join(format!("armento-safe-{name}-{}", std::process::id()));
    let own = dir.join("w");
    fs::create_dir_all(&own)?;
    let script = format!("{} {}", known.variables(tally), known.program.line);
    let out = fs::File::create(dir.join("out"))?;
    let done = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&own)
        .stdin(Stdio::null())
        .stdout(out)
        .output()?;
    let files = files(&dir)?;
    fs::remove_dir_all(&dir)?;
    ensure!(
        done.status.success(),
        "natively {name} ends with {}: {}",
        done.status,
        String::from_utf8_lossy(&done.stderr).trim()
    );
    Ok(files)
}

/// All regular files of a life, by their names from its program's directory.
pub fn files(life: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut all = BTreeMap::new();
    all.insert("../out".to_owned(), fs::read(life.join("out"))?);
    let own = life.join("w");
    let mut todo = vec![own.clone()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            let kind = fs::symlink_metadata(&path)?.file_type();
            if kind.is_dir() {
                todo.push(path);
            } else if kind.is_file() {
                let name = path.strip_prefix(&own).unwrap_or(&path);
                all.insert(name.to_string_lossy().into_owned(), fs::read(&path)?);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_names_of_their_own() {
        let mut names: Vec<&str> = PROGRAMS.iter().map(|p| p.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn guests_of_the_campaign_exist() {
        for p in PROGRAMS.iter().filter(|p| p.line.contains("$GUEST")) {
            assert!(guests::find(p.name, None).is_some(), "{}", p.name);
            assert!(NAMES.contains(&p.name), "{}", p.name);
        }
    }
}
