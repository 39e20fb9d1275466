//! Trees of real programs: captured, written to a file, made again, and captured once more: the kernel must say the same.
//!
//! Memory is the engine's, so a restarted program begins anew; the environment tells it then to do nothing but wait.

mod capture;
mod damage;
mod lives;
mod restart;
mod run;
mod sys;
mod terminal;

use std::panic::catch_unwind;

const TESTS: &[(&str, fn())] = &[
    (
        "descriptors_are_captured_and_made_again",
        restart::one_process,
    ),
    ("trees_are_made_again_with_new_numbers", restart::tree_new),
    (
        "trees_are_made_again_with_their_numbers",
        restart::tree_same,
    ),
    ("a_shells_pipeline_is_made_again", lives::pipeline),
    ("exit_status_and_signals_reach_the_shell", lives::ends),
    ("kept_files_come_back", lives::kept_files),
    ("a_users_process_is_the_users_again", lives::of_a_user),
    ("a_restarted_job_obeys_its_shell", terminal::job_control),
    ("a_full_disk_leaves_nothing", terminal::no_space),
    ("everything_uncarried_is_named", capture::uncarried),
    (
        "running_programs_are_not_refused_for_running",
        capture::while_running,
    ),
    ("a_tree_must_be_whole", capture::not_whole),
    ("changed_files_are_named", capture::changed_files),
    ("what_hinders_a_restart_is_found_before_it", damage::before),
    ("a_failure_on_the_way_ends_all", damage::on_the_way),
];

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|w| w == "restart") {
        run::become_tree(&words[1..]);
    }
    if words.first().is_some_and(|w| w == "save") {
        return run::save(&words[1..]);
    }
    if words.first().is_some_and(|w| w == "fill") {
        return terminal::fill(words[1].as_ref());
    }
    // As the harness does it: filters, the list of tests, and one line a test.
    if words.iter().any(|w| w == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    sys::keep_descriptors();
    if std::process::Command::new("python3")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped: this needs python3");
        return;
    }
    words.retain(|w| !w.starts_with('-'));
    let chosen = |name: &str| words.is_empty() || words.iter().any(|w| name.contains(w.as_str()));
    let tests: Vec<_> = TESTS.iter().filter(|(name, _)| chosen(name)).collect();
    println!("\nrunning {} tests", tests.len());
    let mut bad = 0;
    for (name, test) in &tests {
        let end = catch_unwind(test);
        bad += usize::from(end.is_err());
        println!(
            "test {name} ... {}",
            if end.is_ok() { "ok" } else { "FAILED" }
        );
    }
    let (said, good) = (if bad == 0 { "ok" } else { "FAILED" }, tests.len() - bad);
    let out = TESTS.len() - tests.len();
    println!(
        "\ntest result: {said}. {good} passed; {bad} failed; 0 ignored; 0 measured; {out} filtered out"
    );
    std::process::exit(if bad == 0 { 0 } else { 101 });
}
