//! Runs inside a node: tasks on standard input, outcomes on standard output.

use std::io::{BufRead, BufReader, Read, Write};

use anyhow::{Context, Result};

use crate::guests;
use crate::runner::launch;
use crate::sys;
use crate::task::{End, LINE_MAX, Outcome, Task};

pub fn serve() -> Result<()> {
    sys::catch_interrupts();
    sys::adopt_orphans()?;
    let mut input = BufReader::new(std::io::stdin());
    while let Some(task) = next(&mut input)? {
        let outcome = answer(&task);
        let mut line = serde_json::to_vec(&outcome)?;
        line.push(b'\n');
        let mut output = std::io::stdout().lock();
        output.write_all(&line)?;
        output.flush()?;
        if sys::interrupted() {
            break;
        }
    }
    Ok(())
}

fn next(input: &mut impl BufRead) -> Result<Option<Task>> {
    let mut line = String::new();
    if input.take(LINE_MAX as u64).read_line(&mut line)? == 0 {
        return Ok(None);
    }
    serde_json::from_str(&line).context("not a task").map(Some)
}

fn answer(task: &Task) -> Outcome {
    let Some(guest) = guests::find(&task.guest, task.script.as_deref()) else {
        return Outcome::without_run(End::Broken("this program has no such guest".into()));
    };
    launch::once(&guest, task)
        .unwrap_or_else(|cause| Outcome::without_run(End::Broken(format!("{cause:#}"))))
}
