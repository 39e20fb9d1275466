//! Texts of /proc: a program chooses its name, the names of its files, and paths it requests.

use armento_abi::{body_file, cmdline_owner, proc_self_needs_home};
use armento_migrate::image::areas::{may_travel, of_body, of_deputy};
use armento_migrate::image::files::Names;
use armento_migrate::image::objects::Aim;
use armento_tracee::maps::{self, Vma};
use armento_tracee::status;

pub fn proc(data: &[u8]) {
    let _ = (body_file(data), cmdline_owner(data));
    let _ = proc_self_needs_home(data, 7);
    let text = String::from_utf8_lossy(data);
    let _ = status::parse(&text);
    let flags = maps::parse_flags(&text);
    let _ = maps::sealed(&flags);
    let all: Vec<Vma> = text.lines().filter_map(maps::parse_line).collect();
    for v in &all {
        assert!(v.start <= v.end, "{v:?}");
        let _ = (v.len(), v.is_vdso(), v.is_vsyscall());
    }
    let _ = of_body(&all, None);
    for aim in [Aim::Move, Aim::Checkpoint] {
        let _ = may_travel(&all, aim);
        let _ = of_deputy(&all, &Names::default(), aim);
    }
}
