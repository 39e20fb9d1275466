//! What home sends of a file, against what this kernel says of it.

mod sys;

use armento_abi::attributes::{ASKED, Attributes, Form};
use std::ffi::CString;

#[test]
fn both_forms_are_those_of_the_kernel() {
    for path in ["/proc/self/exe", "/", "/dev/null", "/etc/passwd"] {
        let path = CString::new(path).expect("no zero");
        let birth = sys::statx(&path, libc::STATX_BASIC_STATS)[1] & 8 != 0;
        let asked = sys::statx(&path, ASKED);
        let last = asked.iter().rposition(|b| *b != 0);
        let a = Attributes(&asked[..last.map_or(0, |last| last + 1)]);
        assert_eq!(a.in_form(Form::Stat, birth), Some(sys::stat(&path)));
        for mask in [libc::STATX_MTIME, libc::STATX_BASIC_STATS, ASKED] {
            let native = sys::statx(&path, mask);
            assert_eq!(a.in_form(Form::Statx(mask), birth), Some(native));
        }
        for mask in [libc::STATX_DIOALIGN | ASKED, libc::STATX_MODE] {
            assert_eq!(a.in_form(Form::Statx(mask), birth), None);
        }
    }
    assert_eq!(Attributes(&[0; 300]).in_form(Form::Stat, false), None);
}
