//! Compares the running kernel and its headers with the rows, for names without a row.
//!
//! A failure names the remedy: write a row, with the fate that the code has, or add the name to the row that it belongs
//! to.

mod btf;

use armento_census::{Name, find, knows_field, rows};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Structs of which every field has a row.
const STRUCTS: [&str; 12] = [
    "task_struct",
    "signal_struct",
    "sighand_struct",
    "mm_struct",
    "fs_struct",
    "files_struct",
    "nsproxy",
    "cred",
    "vm_area_struct",
    "file",
    "restart_block",
    "thread_struct",
];
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Type information of other kernels, files of the form of [`BTF`], joined by colons.
const MORE: &str = "ARMENTO_BTF";

fn kernel() -> String {
    let said = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", said.trim())
}

/// Fails with a sentence for each name without a row.
fn must_be_known(kernel_name: &str, what: &str, unknown: impl Iterator<Item = String>) {
    let unknown: Vec<String> = unknown.collect();
    assert!(
        unknown.is_empty(),
        "{kernel_name} has {what} without a row in the census: {}. Find out what becomes of each when its process moves, \
         then add it to the row it belongs to, or a row, below crates/census/src, and run cargo xtask gen",
        unknown.join(", ")
    );
}

fn entries(dir: &str) -> Vec<String> {
    let all = fs::read_dir(dir).into_iter().flatten().flatten();
    all.map(|e| e.file_name().to_string_lossy().into_owned())
        .collect()
}

fn known(name: impl Fn(&Name) -> bool) -> bool {
    rows().any(|r| r.names.iter().any(&name))
}

#[test]
fn files_of_proc_have_rows() {
    let task = entries("/proc/self/task").pop().expect("a thread");
    let mut all = BTreeSet::new();
    all.extend(entries("/proc/self"));
    all.extend(entries(&format!("/proc/self/task/{task}")));
    for dir in ["ns", "attr"] {
        let inside = entries(&format!("/proc/self/{dir}"));
        all.extend(inside.iter().map(|n| format!("{dir}/{n}")));
    }
    let unknown = |n: &String| !known(|k| matches!(k, Name::Proc(p) if p == n));
    must_be_known(
        &kernel(),
        "files in /proc/PID",
        all.into_iter().filter(unknown),
    );
}

#[test]
fn lines_of_status_have_rows() {
    let text = fs::read_to_string("/proc/self/status").expect("procfs");
    let lines = text.lines().filter_map(|l| l.split_once(':'));
    let unknown = |n: &&str| !known(|k| matches!(k, Name::Status(s) if s == n));
    let unknown = lines.map(|(n, _)| n).filter(unknown);
    must_be_known(
        &kernel(),
        "lines in /proc/PID/status",
        unknown.map(str::to_owned),
    );
}

#[test]
fn words_of_vm_flags_have_rows() {
    let text = fs::read_to_string("/proc/self/smaps").expect("procfs");
    let lines = text.lines().filter_map(|l| l.strip_prefix("VmFlags:"));
    let words: BTreeSet<&str> = lines.flat_map(str::split_whitespace).collect();
    let unknown = |n: &&str| !known(|k| matches!(k, Name::VmFlag(s) if s == n));
    let unknown = words.into_iter().filter(unknown);
    must_be_known(&kernel(), "words of VmFlags", unknown.map(str::to_owned));
}

#[test]
fn fields_of_the_kernels_structs_have_rows() {
    let mut files = vec![BTF.to_owned()];
    files.extend(
        std::env::var(MORE)
            .iter()
            .flat_map(|m| m.split(':'))
            .map(str::to_owned),
    );
    if !Path::new(BTF).exists() {
        println!("skipped: no {BTF}");
        files.remove(0);
    }
    for file in files {
        let raw = fs::read(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
        let btf =
            btf::Btf::parse(&raw).unwrap_or_else(|| panic!("{file}: no BTF that we can read"));
        for of in STRUCTS {
            let fields = btf.fields(of);
            assert!(!fields.is_empty(), "{file}: no struct {of}");
            let unknown = fields.into_iter().filter(|f| !knows_field(of, f));
            let kernel_name = if file == BTF { kernel() } else { file.clone() };
            let unknown = unknown.map(|f| format!("{of}.{f}"));
            must_be_known(&kernel_name, "fields", unknown);
        }
    }
}

/// `#define NAME NUMBER` of a header, for names with this prefix.
fn defines(header: &str, prefix: &str) -> Option<Vec<(String, u64)>> {
    let text = fs::read_to_string(header).ok()?;
    let one = |line: &str| {
        let mut words = line.strip_prefix("#define")?.split_whitespace();
        let (name, value) = (words.next()?, words.next()?);
        let number = value.strip_prefix("0x").map_or_else(
            || value.parse().ok(),
            |hex| u64::from_str_radix(hex, 16).ok(),
        );
        Some((name.to_owned(), number?)).filter(|(n, _)| n.starts_with(prefix))
    };
    Some(text.lines().filter_map(one).collect())
}

/// Options of `header` against the rows. `not`: prefixes of names that are no options.
fn header_is_known(
    header: &str,
    (prefix, not): (&str, &[&str]),
    as_name: impl Fn(&Name) -> Option<(u64, &'static str)>,
) {
    let Some(all) = defines(header, prefix) else {
        println!("skipped: no {header}");
        return;
    };
    let all = all
        .into_iter()
        .filter(|(n, _)| !not.iter().any(|p| n.starts_with(p)));
    let names: Vec<(u64, &str)> = rows()
        .flat_map(|r| r.names.iter())
        .filter_map(as_name)
        .collect();
    let unknown = all.filter(|(n, v)| !names.contains(&(*v, n)));
    must_be_known(
        header,
        "names",
        unknown.map(|(n, v)| format!("{n} ({v:#x})")),
    );
}

#[test]
fn options_of_prctl_have_rows() {
    header_is_known("/usr/include/linux/prctl.h", ("PR_", &[]), |n| match *n {
        Name::Prctl(v, w) => Some((v, w)),
        _ => None,
    });
}

#[test]
fn options_of_arch_prctl_have_rows() {
    let header = "/usr/include/x86_64-linux-gnu/asm/prctl.h";
    header_is_known(
        header,
        (
            "ARCH_",
            &["ARCH_SHSTK_SHSTK", "ARCH_SHSTK_WRSS", "ARCH_XCOMP_"],
        ),
        |n| match *n {
            Name::ArchPrctl(v, w) => Some((v, w)),
            _ => None,
        },
    );
}

#[test]
fn requests_of_ptrace_have_rows() {
    let not: &[&str] = &[
        "PTRACE_EVENT",
        "PTRACE_O_",
        "PTRACE_SYSCALL_INFO",
        "PTRACE_PEEKSIGINFO_",
    ];
    let request = |n: &Name| match *n {
        Name::Ptrace(v, w) => Some((v, w)),
        _ => None,
    };
    header_is_known("/usr/include/linux/ptrace.h", ("PTRACE_", not), request);
    header_is_known(
        "/usr/include/x86_64-linux-gnu/asm/ptrace-abi.h",
        ("PTRACE_", not),
        request,
    );
}

#[test]
fn advice_has_rows() {
    header_is_known(
        "/usr/include/asm-generic/mman-common.h",
        ("MADV_", &[]),
        |n| match *n {
            Name::Madvise(v, w) => Some((v, w)),
            _ => None,
        },
    );
}

#[test]
fn names_lead_to_their_rows() {
    let mut rows = find(Name::Status("TracerPid"));
    assert_eq!(rows.next().map(|r| r.id), Some("trace-tracer"));
    assert!(knows_field("task_struct", "personality") && !knows_field("file", "personality"));
}
