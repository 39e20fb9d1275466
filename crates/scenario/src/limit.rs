//! Lower bounds of the makespan.

/// Shortest makespan of jobs of so much work each, which may move without cost at any time, on processors of these
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

/// Makespan of `jobs` equal programs of `seconds` on `nodes` equal nodes by the rule of the MOSIX farm's paper: a node
/// shares itself evenly, and whenever nodes become idle the numbers are balanced again.
///
/// PAPER: Mastroserio, Taurino and Tortone, "MOSIX: High performance Linux farm", the column "optimal" of its first
/// test (errata E-38: all rows but N = 31 follow it).
pub fn levelled(jobs: usize, nodes: usize, seconds: f64) -> f64 {
    let (mut jobs, mut left, mut at) = (jobs, seconds, 0.0);
    loop {
        let (each, more) = (jobs / nodes, jobs % nodes);
        if each == 0 {
            return at + left;
        }
        // Nodes with fewer programs become idle; on the others each program has this part of its work left.
        at += left * each as f64;
        if more == 0 {
            return at;
        }
        jobs = more * (each + 1);
        left /= (each + 1) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_rule_gives_the_published_values() {
        // N and `optimal_recomputed_s` of the paper's first test.
        for (n, want) in [
            (1, 300.0),
            (2, 300.0),
            (4, 300.0),
            (8, 300.0),
            (16, 300.0),
            (17, 450.0),
            (20, 450.0),
            (24, 450.0),
            (25, 525.0),
            (27, 525.0),
            (31, 581.25),
            (32, 600.0),
            (33, 700.0),
            (36, 700.0),
            (38, 750.0),
            (40, 750.0),
            (43, 833.33),
            (47, 883.33),
            (48, 900.0),
        ] {
            let got = levelled(n, 16, 300.0);
            assert!((got - want).abs() < 0.005, "{n}: {got}");
        }
    }

    #[test]
    fn longest_job_fastest_node_and_total_work_are_bounds() {
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
