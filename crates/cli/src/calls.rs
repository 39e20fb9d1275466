//! `armento doctor --calls`: the table of system calls, for people and scripts.

use crate::out::{say, say_json, table};
use armento_abi::{Place, Restart, Row, describe};
use serde_json::{Value, json};
use std::io::IsTerminal;

/// Columns of a standard terminal. Output to a pipe has one line for each call.
const WIDTH: usize = 80;
/// Remarks are on the lines below their call, indented past the numbers.
const INDENT: usize = 5;

pub fn run(as_json: bool) {
    let unlisted = unlisted();
    if as_json {
        let calls: Vec<Value> = describe().map(fields).collect();
        say_json(
            "armento.calls/1",
            json!({ "calls": calls, "unlisted": unlisted }),
        );
        return;
    }
    let rows: Vec<&Row> = describe().collect();
    let wrapped = std::io::stdout().is_terminal();
    let text = if wrapped { narrow(&rows) } else { wide(&rows) };
    say(&format!("{text}\n{}{}", legend(), beyond(&unlisted)));
}

fn fields(row: &Row) -> Value {
    let (place, otherwise) = row.place.words();
    let text = |text: &'static str| (!text.is_empty()).then_some(text);
    json!({
        "nr": row.nr,
        "name": row.name,
        "place": place,
        "when": text(row.when),
        "otherwise": otherwise,
        "restart": row.restart.word(),
        "posts": row.posts,
        "note": text(row.note),
    })
}

const HEADS: [(&str, bool); 6] = [
    ("NR", true),
    ("CALL", false),
    ("WHERE", false),
    ("STOPPED", false),
    ("POSTED", false),
    ("REMARKS", false),
];

fn cells(row: &Row) -> Vec<String> {
    vec![
        row.nr.to_string(),
        row.name.into(),
        row.place.to_string(),
        row.restart.word().into(),
        row.posts_word().into(),
        row.remarks(),
    ]
}

/// One line a call.
fn wide(rows: &[&Row]) -> String {
    let cells: Vec<_> = rows.iter().map(|row| cells(row)).collect();
    table(&HEADS, &cells)
}

/// With remarks on lines of their own.
fn narrow(rows: &[&Row]) -> String {
    let heads = &HEADS[..HEADS.len() - 1];
    let short = |row: &&Row| cells(row)[..heads.len()].to_vec();
    let cells: Vec<_> = rows.iter().map(short).collect();
    let lines = table(heads, &cells);
    let mut lines = lines.lines();
    let mut text = format!("{}\n", lines.next().unwrap_or_default());
    for (line, row) in lines.zip(rows) {
        text += &format!("{line}\n{}", wrap(&row.remarks(), INDENT));
    }
    text
}

/// `text` in lines of at most [`WIDTH`], each indented.
fn wrap(text: &str, indent: usize) -> String {
    let (mut wrapped, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + line.len() + 1 + word.len() > WIDTH {
            wrapped += &format!("{:indent$}{line}\n", "");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    if !line.is_empty() {
        wrapped += &format!("{:indent$}{line}\n", "");
    }
    wrapped
}

fn legend() -> String {
    let list = |title: &str, words: &[(&str, &str)]| {
        let lines = words.iter().map(|(w, what)| format!("  {w:<10}  {what}\n"));
        format!("{title}\n{}", lines.collect::<String>())
    };
    let stopped = Restart::ALL.map(|r| (r.word(), r.explain()));
    list("WHERE a call runs when its process is away:", &Place::WORDS)
        + &list(
            "STOPPED: when a stop or a move meets it and no handler runs:",
            &stopped,
        )
        + "POSTED: on a regular file of a local file system it is answered at once,\n\
           and home makes it before anything that the program does next.\n"
}

/// The text on calls that this kernel has and the table lacks.
fn beyond(unlisted: &Option<Vec<String>>) -> String {
    match unlisted {
        None => "Whether this kernel has more calls cannot be seen here (/proc/kallsyms);\n\
                 a process that makes one is moved home.\n"
            .into(),
        Some(names) if names.is_empty() => "This kernel has no call that the table lacks.\n".into(),
        Some(names) => {
            let what = "This kernel has calls that the table lacks; a process that makes one is moved home:";
            format!("{what}\n{}", wrap(&names.join(" "), 2))
        }
    }
}

/// Calls of the running kernel that no row names; `None` when it does not show its symbols.
fn unlisted() -> Option<Vec<String>> {
    let symbols = std::fs::read_to_string("/proc/kallsyms").ok()?;
    let names = entries(&symbols);
    (!names.is_empty()).then(|| lacking(&names))
}

/// KERNEL: arch/x86/include/asm/syscall_wrapper.h. The symbol of each call's entry.
const ENTRY: &str = "__x64_sys_";

fn entries(symbols: &str) -> Vec<&str> {
    let symbols = symbols.lines().filter_map(|l| l.split_whitespace().nth(2));
    // The compiler's split-off parts of functions have a dot in their names.
    let whole = symbols.filter(|s| !s.contains('.'));
    whole.filter_map(|s| s.strip_prefix(ENTRY)).collect()
}

/// KERNEL: kernel/sys_ni.c, syscall_32.tbl, Linux 6.18. Entries that no 64-bit number of this architecture uses, beside
/// those known by their ending; and `ni`, the entry for unimplemented calls.
const OTHER_TABLES: &[&str] = &[
    "fadvise64_64",
    "fstatfs64",
    "gethostname",
    "ipc",
    "llseek",
    "mmap_pgoff",
    "ni_syscall",
    "nice",
    "old_getrlimit",
    "old_msgctl",
    "old_readdir",
    "old_semctl",
    "old_shmctl",
    "oldumount",
    "olduname",
    "pciconfig_iobase",
    "pciconfig_read",
    "pciconfig_write",
    "recv",
    "rtas",
    "s390_ipc",
    "s390_pci_mmio_read",
    "s390_pci_mmio_write",
    "send",
    "sgetmask",
    "signal",
    "sigpending",
    "sigprocmask",
    "sigsuspend",
    "socketcall",
    "spu_create",
    "spu_run",
    "ssetmask",
    "statfs64",
    "stime",
    "subpage_prot",
    "sync_file_range2",
    "vm86",
    "vm86old",
    "waitpid",
];

/// Entries with another name than their call. KERNEL: syscall_64.tbl, Linux 6.18.
const OTHER_NAMES: &[&str] = &[
    "newfstat",
    "newlstat",
    "newstat",
    "newuname",
    "sendfile64",
    "umount",
];

fn lacking(entries: &[&str]) -> Vec<String> {
    // 16-bit ids, 32-bit times, and the entries of 32-bit programs.
    let narrow = |e: &str| e.starts_with("ia32_") || e.ends_with("16") || e.ends_with("32");
    let listed = |e: &str| describe().any(|row| row.name == e);
    let mut names: Vec<String> = entries
        .iter()
        .filter(|e| !listed(e) && !narrow(e))
        .filter(|e| !OTHER_TABLES.contains(e) && !OTHER_NAMES.contains(e))
        .map(|e| (*e).to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<&'static Row> {
        describe().collect()
    }

    #[test]
    fn each_call_has_one_complete_line() {
        let text = wide(&rows());
        assert_eq!(text.lines().count(), 1 + rows().len());
        let line = |name: &str| {
            let mut lines = text.lines();
            lines.find(|l| l.split_whitespace().nth(1) == Some(name))
        };
        let words = |name| line(name).unwrap_or_default().split_whitespace();
        assert_eq!(words("getpid").next(), Some("39"));
        let futex: Vec<_> = words("futex").collect();
        assert_eq!(futex[2..7], ["body", "or", "host", "goes", "on"]);
        assert!(line("futex").is_some_and(|l| l.contains("at the body when it is not FUTEX_WAIT")));
    }

    #[test]
    fn table_on_a_terminal_has_at_most_80_columns() {
        let text = narrow(&rows()) + &legend() + &beyond(&None) + &beyond(&Some(Vec::new()));
        for line in text.lines() {
            assert!(line.len() <= WIDTH, "{line}");
        }
        let mut lines = text.lines().skip_while(|l| !l.contains(" mmap "));
        lines.next();
        let remark = lines.next().unwrap_or_default();
        assert!(remark.starts_with("     at the body when"), "{remark}");
    }

    #[test]
    fn wrapping_loses_no_word() {
        let words = "a word ".repeat(40) + &"long".repeat(30);
        let text = wrap(&words, INDENT);
        let (before, after) = (words.split_whitespace(), text.split_whitespace());
        assert!(before.eq(after));
        assert_eq!(wrap("", INDENT), "");
    }

    #[test]
    fn json_has_the_same_table() {
        let calls: Vec<Value> = rows().into_iter().map(fields).collect();
        let of = |name: &str| calls.iter().find(|c| c["name"] == name).cloned();
        let want = json!({
            "nr": 9, "name": "mmap", "place": "body",
            "when": "the memory is private and anonymous, without huge pages", "otherwise": "host",
            "restart": "kernel", "posts": false,
            "note": "files are mapped by the host; writable shared mappings come home",
        });
        assert_eq!(of("mmap"), Some(want));
        let want = json!({
            "nr": 7, "name": "poll", "place": "home", "when": null, "otherwise": null,
            "restart": "goes on", "posts": false, "note": null,
        });
        assert_eq!(of("poll"), Some(want));
    }

    #[test]
    fn calls_of_a_newer_kernel_are_named() {
        let symbols = "\
0000000000000000 T __x64_sys_read
0000000000000000 T __x64_sys_listns
0000000000000000 t __pfx___x64_sys_listns
0000000000000000 T __ia32_sys_other
0000000000000000 t __x64_sys_setitimer.cold
0000000000000000 W __x64_sys_vm86
0000000000000000 T __x64_sys_newstat
0000000000000000 T __x64_sys_chown16
0000000000000000 T __x64_sys_recvmmsg_time32
";
        assert_eq!(lacking(&entries(symbols)), ["listns"]);
        assert_eq!(entries("0000000000000000 T vfs_read\n"), [""; 0]);
    }
}
