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

#[cfg(test)]
mod tests {
    use super::*;

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
