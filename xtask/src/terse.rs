//! Filters the output of `cargo test -- --show-output`: failed tests with their messages, and skipped tests. Even a log
//! of a few pages then shows why a run failed; the whole output is in a file below the build directory.

/// Lines of one binary's failures that are printed; the file has all.
const FAILURE_LINES_MAX: usize = 120;

#[derive(Debug, Default)]
pub struct Terse {
    /// Inside the part of a binary's output that follows `failures:`: the number of lines printed of it.
    failures: Option<usize>,
}

impl Terse {
    /// The line if it is to be printed.
    pub fn line<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.failures = None;
            return (!rest.starts_with("ok.")).then_some(line);
        }
        if line == "failures:" {
            self.failures.get_or_insert(0);
        }
        if let Some(told) = &mut self.failures {
            *told += 1;
            return match (*told).cmp(&FAILURE_LINES_MAX) {
                std::cmp::Ordering::Less => Some(line),
                std::cmp::Ordering::Equal => Some("... more in the file"),
                std::cmp::Ordering::Greater => None,
            };
        }
        (line.starts_with("skipped: ") || line.ends_with(" ... FAILED")).then_some(line)
    }
}

/// Lines and characters of a panic's message that are kept.
const MESSAGE_LINES_MAX: usize = 8;
const MESSAGE_CHARS_MAX: usize = 200;

/// The place and the first lines of each panic, from the same output.
#[derive(Debug, Default)]
pub struct Panics {
    /// Outputs of failed tests follow; before them stand those of the others.
    failures: bool,
    /// The test whose output follows.
    test: String,
    /// Lines that are still to be kept of the current message.
    left: usize,
}

impl Panics {
    /// A line to keep. The harness prints `---- NAME stdout ----`, the standard library
    /// `thread 'NAME' (TID) panicked at FILE:LINE:COLUMN:` and then the message.
    pub fn line(&mut self, line: &str) -> Option<String> {
        if line == "failures:" || line.starts_with("test result: ") {
            (self.failures, self.left) = (line == "failures:", 0);
        }
        if !self.failures {
            return None;
        }
        if let Some(test) = line
            .strip_prefix("---- ")
            .and_then(|l| l.strip_suffix(" stdout ----"))
        {
            (self.test, self.left) = (test.to_owned(), 0);
            return None;
        }
        if let Some((_, place)) = line.split_once("' ").and_then(|(start, rest)| {
            let place = rest.split_once("panicked at ")?.1;
            start.starts_with("thread '").then_some((start, place))
        }) {
            self.left = MESSAGE_LINES_MAX;
            return Some(format!("{}: panicked at {place}", self.test));
        }
        if line.starts_with("note: ") {
            self.left = 0;
        }
        self.left = self.left.checked_sub(1)?;
        let cut: String = line.chars().take(MESSAGE_CHARS_MAX).collect();
        Some(format!("    {cut}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_kept_with_their_test_and_message() {
        let all = "---- a stdout ----\nthread 'a' (6) panicked at a.rs:1:1:\nexpected\n\nfailures:\n\n\
            ---- b stdout ----\nsome output\n\nthread 'b' (7) panicked at a.rs:1:2:\nit broke\nbadly\n\
            note: run with `RUST_BACKTRACE=1`\nmore\n---- c stdout ----\n";
        let mut panics = Panics::default();
        let kept: Vec<String> = all.lines().filter_map(|l| panics.line(l)).collect();
        assert_eq!(
            kept,
            ["b: panicked at a.rs:1:2:", "    it broke", "    badly"]
        );
    }

    #[test]
    fn failures_and_skips_are_printed() {
        let all = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nsuccesses:\n\n---- a stdout ----\n\
            hello\nskipped: no lame\n\nfailures:\n\n---- b stdout ----\nit broke\n\nfailures:\n    b\n\n\
            test result: FAILED. 1 passed; 1 failed\nrunning 0 tests\ntest result: ok. 0 passed; 0 failed";
        let mut terse = Terse::default();
        let told: Vec<&str> = all.lines().filter_map(|l| terse.line(l)).collect();
        assert_eq!(
            told.join("\n"),
            "test b ... FAILED\nskipped: no lame\nfailures:\n\n---- b stdout ----\nit broke\n\nfailures:\n    b\n\n\
             test result: FAILED. 1 passed; 1 failed"
        );
    }

    #[test]
    fn number_of_failure_lines_is_bounded() {
        let mut terse = Terse::default();
        let told = std::iter::once("failures:")
            .chain(std::iter::repeat_n("x", 1000))
            .filter_map(|l| terse.line(l))
            .count();
        assert_eq!(told, FAILURE_LINES_MAX);
    }
}
