//! The image of a process: decoded, checked, and the computations of a target before it changes anything.

use crate::wire::message;
use armento_migrate::files::Like;
use armento_migrate::image::Area;
use armento_migrate::image::areas::{in_both, steps};
use armento_migrate::image::files_of;
use armento_migrate::image::{Accept, Head, Layout, State, flags, objects, thread};
use armento_migrate::target::{drop_calls, flag_calls, step_call};
use armento_wire::talk::decode;

/// One part of an image; the first byte selects which.
pub fn image(data: &[u8]) {
    let Some((which, body)) = data.split_first() else {
        return;
    };
    match which {
        0 => message::<Head>(body),
        1 => message::<Accept>(body),
        2 => message::<Layout>(body),
        4 => message::<Vec<Like>>(body),
        _ => message::<State>(body),
    }
    match which {
        0 => head(body),
        1 => {}
        2 => last(body),
        4 => alike(body),
        _ => state(body),
    }
}

fn head(body: &[u8]) {
    let Ok(h) = decode::<Head>(body, "offer") else {
        return;
    };
    if h.check().is_ok() {
        shaped(&[], &h.areas);
        let _ = (files_of(&h.areas), objects::travels(&h.areas));
    }
}

fn last(body: &[u8]) {
    let Ok(l) = decode::<Layout>(body, "layout") else {
        return;
    };
    if l.check().is_ok() {
        shaped(&[], &l.areas);
        let _ = drop_calls(&l.dropped);
    }
}

fn alike(body: &[u8]) {
    let likes: Vec<Like> = decode(body, "files it may have").unwrap_or_default();
    for like in likes.iter().filter(|like| like.may_be_looked_for()) {
        assert!(like.path.is_absolute() && !like.path.to_string_lossy().contains("/../"));
    }
}

fn state(body: &[u8]) {
    let Ok(s) = decode::<State>(body, "state") else {
        return;
    };
    if s.check().is_err() {
        return;
    }
    let _ = flags::zero_calls(&s.zeros);
    for mut t in s.threads {
        assert!(thread::from_words(&t.regs).is_some());
        let nr = t.number();
        let _ = t.restarts();
        t.slept_in(nr);
        t.has_written(1, nr);
        t.begin_anew(nr);
    }
}

/// From one layout to another, as in a process that has the first.
pub fn layout(data: &[u8]) {
    let (old, new) = data.split_at(data.len() / 2);
    let Ok(old) = decode::<Layout>(old, "layout") else {
        return;
    };
    let Ok(new) = decode::<Layout>(new, "layout") else {
        return;
    };
    if old.check().is_ok() && new.check().is_ok() {
        shaped(&old.areas, &new.areas);
    }
}

fn shaped(old: &[Area], new: &[Area]) {
    let all = steps(old, new);
    for step in &all {
        let _ = (step_call(step), flag_calls(step));
    }
    // A second pass has no steps.
    assert!(steps(new, new).is_empty());
    let _ = in_both(old, new);
    let open = objects::opened_up(new, |_| true);
    let _ = (
        objects::sizes(new),
        objects::close_calls(&open),
        flags::lock_calls(new),
        flags::unlock_calls(new),
    );
}
