//! Files of /proc about the memory or the state of the process itself.

/// Files whose content is wrong if a hollow deputy is read.
const OF_THE_BODY: &[&str] = &[
    "arch_status",
    "auxv",
    "clear_refs",
    "ksm_merging_pages",
    "ksm_stat",
    "map_files",
    "maps",
    "mem",
    "numa_maps",
    "oom_score",
    "pagemap",
    "sched",
    "schedstat",
    "smaps",
    "smaps_rollup",
    "stack",
    "stat",
    "statm",
    "status",
    "syscall",
    "timers",
    "wchan",
];

/// Those of them that show its memory: programs open them only on purpose.
const OF_MEMORY: &[&str] = &[
    "clear_refs",
    "map_files",
    "maps",
    "mem",
    "numa_maps",
    "pagemap",
    "smaps",
    "smaps_rollup",
];

/// The process to which a file belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The process that opens it.
    Own,
    /// A process or thread, by its number at home.
    Of(u32),
}

/// A file of /proc whose content is wrong if a hollow deputy is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyFile {
    pub owner: Owner,
    /// It shows memory; the others show state and sums.
    pub memory: bool,
}

/// The process and the file of /proc that `path` names. Only absolute paths are recognised.
fn file_of(path: &[u8]) -> Option<(Owner, &[u8])> {
    if !path.starts_with(b"/") {
        return None;
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let [b"proc", who, rest @ ..] = parts.as_slice() else {
        return None;
    };
    let number = |s: &[u8]| std::str::from_utf8(s).ok()?.parse().ok();
    let owner = match *who {
        b"self" | b"thread-self" => Owner::Own,
        other => Owner::Of(number(other)?),
    };
    match *rest {
        [b"task", _, file, ..] | [file, ..] => Some((owner, file)),
        [] => None,
    }
}

/// The file of this kind that `path` names.
pub fn body_file(path: &[u8]) -> Option<BodyFile> {
    let (owner, file) = file_of(path)?;
    let among = |list: &[&str]| list.iter().any(|name| name.as_bytes() == file);
    among(OF_THE_BODY).then_some(BodyFile {
        owner,
        memory: among(OF_MEMORY),
    })
}

/// The process whose arguments or environment `path` shows.
pub fn cmdline_owner(path: &[u8]) -> Option<Owner> {
    let (owner, file) = file_of(path)?;
    matches!(file, b"cmdline" | b"environ").then_some(owner)
}

/// Whether opening `path` needs the process `pid` at home: its own /proc files about memory, registers and CPU time.
pub fn proc_self_needs_home(path: &[u8], pid: u32) -> bool {
    body_file(path).is_some_and(|f| f.owner == Owner::Own || f.owner == Owner::Of(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_needs_home() {
        let check = |path: &str, want| {
            assert_eq!(proc_self_needs_home(path.as_bytes(), 42), want, "{path}");
        };
        for file in ["maps", "smaps", "stat", "statm", "status", "mem", "pagemap"] {
            check(&format!("/proc/self/{file}"), true);
            check(&format!("/proc/thread-self/{file}"), true);
            check(&format!("/proc/42/{file}"), true);
            check(&format!("/proc/42/task/43/{file}"), true);
            check(&format!("//proc/./self/../42//{file}"), true);
            check(&format!("/proc/43/{file}"), false);
        }
        check("/proc/self/map_files/400000-401000", true);
        for file in [
            "fd",
            "fd/3",
            "fdinfo/1",
            "exe",
            "cwd",
            "root",
            "cmdline",
            "environ",
            "comm",
            "limits",
            "cgroup",
            "mounts",
            "mountinfo",
            "oom_score_adj",
            "uid_map",
            "ns/pid",
            "task",
        ] {
            check(&format!("/proc/self/{file}"), false);
        }
        check("/proc/stat", false);
        check("/proc/self", false);
        check("/proc", false);
        check("proc/self/maps", false);
        check("/tmp/proc/self/maps", false);
        check("", false);
    }

    #[test]
    fn files_of_other_processes_are_distinguished() {
        let check = |path: &str, want: Option<(Owner, bool)>| {
            let got = body_file(path.as_bytes()).map(|f| (f.owner, f.memory));
            assert_eq!(got, want, "{path}");
        };
        check("/proc/43/maps", Some((Owner::Of(43), true)));
        check("/proc/43/task/44/smaps", Some((Owner::Of(43), true)));
        check("/proc/43/status", Some((Owner::Of(43), false)));
        check("/proc/self/mem", Some((Owner::Own, true)));
        check("/proc/43/comm", None);
        check("/proc/sys/mem", None);
        check("/proc/99999999999/mem", None);
        assert_eq!(cmdline_owner(b"/proc/43/cmdline"), Some(Owner::Of(43)));
        assert_eq!(
            cmdline_owner(b"/proc/self/task/4/environ"),
            Some(Owner::Own)
        );
        assert_eq!(cmdline_owner(b"/proc/cmdline"), None);
        assert_eq!(cmdline_owner(b"/tmp/self/cmdline"), None);
    }
}
