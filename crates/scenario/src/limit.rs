//! What no scheduler beats.

/// Shortest makespan of jobs of so much work each, that may move for nothing at any time, on processors of these
/// speeds: all of the work over all of the power, or, for each k below their number, the k longest jobs over the k
/// fastest processors. Speeds and work of one unit; seconds if work is seconds of speed 1.
///
/// PAPER: Horvath, Lam and Sethi, "A level algorithm for preemptive scheduling", J. ACM 24 (1977), 32-43.
pub fn limit(speeds: &[f64], work: &[f64]) -> f64 {
    let falling = |of: &[f64]| {
        let mut of = of.to_vec();
        of.sort_by(|a, b| b.total_cmp(a));
        of
    };
    let (speeds, work) = (falling(speeds), falling(work));
    let mut longest = 0.0f64;
    let (mut power, mut sum) = (0.0, 0.0);
    for (speed, job) in speeds
        .iter()
        .zip(&work)
        .take(speeds.len().saturating_sub(1))
    {
        power += speed;
        sum += job;
        longest = longest.max(sum / power);
    }
    let (power, sum): (f64, f64) = (speeds.iter().sum(), work.iter().sum());
    longest.max(sum / power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_job_the_fastest_node_and_the_whole_bound() {
        let check = |speeds: &[f64], work: &[f64], want: f64| {
            let got = limit(speeds, work);
            assert!((got - want).abs() < 1e-12, "{speeds:?} {work:?}: {got}");
        };
        check(&[1.0; 4], &[3.0], 3.0);
        check(&[1.0; 4], &[3.0; 4], 3.0);
        check(&[1.0; 4], &[3.0; 5], 3.75);
        check(&[0.1, 0.2, 0.3, 0.4], &[2.0], 5.0);
        check(&[0.1, 0.2, 0.3, 0.4], &[2.0, 2.0], 4.0 / 0.7);
        check(&[0.1, 0.2, 0.3, 0.4], &[2.0; 5], 10.0);
        check(&[1.0, 1.0], &[10.0, 1.0, 1.0], 10.0);
    }
}
