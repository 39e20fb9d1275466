//! Why a program that is kept safe may end: the reasons that `docs/manual/safe.md` lists, as its user reads them.

/// What its standard error says, in part.
const LISTED: &[&str] = &[
    "it went another way than before",
    "could not go on: it has no checkpoint yet",
    "could not go on: signal ",
    "could not go on: a new thread or process",
    "could not go on: the end of a thread",
    "could not go on: a call that only home can make",
    "could not go on: a call was made in several steps",
    "could not go on: a call was made that no checkpoint covers",
    "could not go on: its calls returned more than",
    "could not go on: its node mapped a file at an address of its own",
    "could not go on: a process that shares its memory has",
    "could not go on: a file that it maps has changed",
    "could not go on: no node could build it",
    "which others can find",
];
/// Characters of a reason that are counted as one kind.
const SHOWN_MAX: usize = 120;

/// The reason, if a process of the program has ended because its node was lost. `Err`: one that is not listed.
pub fn reason(stderr: &str) -> Option<Result<String, String>> {
    let mut ends = stderr.lines().filter(|l| {
        l.starts_with("armento: process ")
            && (l.contains(" ended: ") || l.contains(" was killed on "))
    });
    let line = ends.next()?;
    let found = LISTED.iter().find_map(|said| line.find(said));
    let Some(at) = found else {
        return Some(Err(line.to_owned()));
    };
    let why = line[at..].trim_start_matches("could not go on: ");
    Some(Ok(why.chars().take(SHOWN_MAX).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_an_end_is_one_of_the_listed_ones() {
        let check = |stderr: &str, want: Option<Result<&str, &str>>| {
            let want = want.map(|w| w.map(str::to_owned).map_err(str::to_owned));
            assert_eq!(reason(stderr), want, "{stderr}");
        };
        check("perl: warning\n", None);
        let gap = "armento: process 7 (perl) ended: n2, where it ran, was lost, and it could not go on: signal 10 came to it";
        check(gap, Some(Ok("signal 10 came to it")));
        let other = "armento: process 7 (perl) ended: n2, where it ran, was lost, and it could not go on: whatever";
        check(other, Some(Err(other)));
        let way = "armento: process 7 (perl) ended: its node was lost, and since its last checkpoint it went another way than before: x";
        check(way, Some(Ok("it went another way than before: x")));
    }
}
