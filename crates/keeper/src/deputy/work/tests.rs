use super::*;
use armento_tracee::region::Region;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

fn own() -> (Work, Receiver<i64>) {
    let (done, rx) = channel();
    let (nr, args) = (libc::SYS_getpid, [0; 6]);
    (Work::Own { nr, args, done }, rx)
}

/// The kinds of what waits, in its order.
fn waiting(st: &State) -> Vec<&'static str> {
    let kind = |w: &Work| match w {
        Work::Ignore { .. } => "ignore",
        Work::End { .. } => "end",
        Work::Own { .. } => "own",
        _ => "other",
    };
    st.queue.iter().map(kind).collect()
}

#[test]
fn dispositions_for_an_exec_come_first_and_in_order() {
    let mut st = State::default();
    let (work, _rx) = own();
    st.queue.push_back(work);
    for sig in [2, 3] {
        st.push_first(Work::Ignore { sig, yes: true });
    }
    let (nr, code) = (libc::SYS_exit_group, 0);
    st.push_first(Work::End { nr, code });
    assert_eq!(waiting(&st), ["ignore", "ignore", "end", "own"]);
    let Some(Work::Ignore { sig: 2, .. }) = st.queue.front() else {
        panic!("they are in the order in which they came");
    };
}

#[test]
fn the_end_of_a_deputy_ends_its_waiters_at_once() {
    let mut st = State::default();
    let ((work, queued), (done, doing)) = (own(), channel());
    st.queue.push_back(work);
    st.doing = Some(Doing::Own(Some(done)));
    st.over();
    assert!(queued.recv().is_err() && doing.recv().is_err());
}

#[test]
fn the_slot_of_an_unborn_child_is_not_reused() {
    let file = armento_tracee::sys::memfd("test", 0).expect("memfd_create(2)");
    let region = Arc::new(Region::new(file, 1, 1).expect("a region"));
    let child = Box::new(region.slot().expect("it has one"));
    assert!(region.slot().is_none());
    let (done, made) = channel();
    let mut st = State {
        doing: Some(Doing::Clone(child, done)),
        ..State::default()
    };
    st.over();
    assert!(made.recv().is_err());
    assert!(region.slot().is_none(), "it may still come there");
    drop(st);
    assert!(region.slot().is_some());
}
