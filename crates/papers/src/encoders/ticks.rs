//! Time that a hypervisor gave to other machines.

/// Ticks of all processors since the machine started: stolen, and in all.
#[derive(Clone, Copy, Debug)]
pub struct Ticks(u64, u64);

impl Ticks {
    /// KERNEL: /proc/stat, proc_stat(5): user nice system idle iowait irq softirq steal.
    pub fn now() -> Ticks {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        let fields = first.split_whitespace().skip(1).take(8);
        let all: Vec<u64> = fields.map(|f| f.parse().unwrap_or(0)).collect();
        Ticks(all.get(7).copied().unwrap_or(0), all.iter().sum())
    }

    /// Percent stolen since then.
    pub fn stolen_percent(self) -> f64 {
        let now = Ticks::now();
        let (stolen, all) = (now.0.saturating_sub(self.0), now.1.saturating_sub(self.1));
        100.0 * stolen as f64 / all.max(1) as f64
    }
}
