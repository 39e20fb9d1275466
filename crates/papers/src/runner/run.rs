//! The runs of an experiment, one after the other.

use super::experiment::{Experiment, Measured, Run};
use super::results::{Build, Discarded, Results, SCHEMA, Sample};
use super::setting::{On, Setting};
use super::stop::Stop;
use anyhow::{Context, Result, bail};
use armento_lab::{Facts, say};
use std::path::Path;
use std::time::{Duration, Instant};

/// What the user asks for; none: the experiment's own.
#[derive(Clone, Debug, Default)]
pub struct Order {
    pub scale: Option<f64>,
    pub on: Option<On>,
    pub nodes: Option<usize>,
    pub repeats: u32,
    pub full: bool,
    pub resume: bool,
}

/// How it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub measured: usize,
    pub discarded: usize,
}

impl Experiment {
    /// The setting of an order, if the experiment and this machine can do it.
    pub fn setting(&self, order: &Order) -> Result<Setting> {
        let id = self.id;
        let on = order.on.unwrap_or(self.on);
        if on != self.on {
            bail!(
                "{id} runs on the {}, not on the {}\nhint: leave --on out",
                self.on.word(),
                on.word()
            );
        }
        let scale = order.scale.unwrap_or(self.scale);
        if !self.scale_range.contains(&scale) {
            let (least, most) = (self.scale_range.start(), self.scale_range.end());
            bail!(
                "{id}: a scale of {scale} is not possible\nhint: --scale {least} to {most}; 1 is as long as in the paper, {} the default",
                self.scale
            );
        }
        let nodes = order.nodes.unwrap_or(self.nodes);
        if !self.nodes_range.contains(&nodes) {
            let (least, most) = (self.nodes_range.start(), self.nodes_range.end());
            let range = match least == most {
                true => format!("{least}"),
                false => format!("{least} to {most}"),
            };
            bail!("{id} cannot have {nodes} nodes\nhint: --nodes {range}");
        }
        let setting = Setting {
            scale,
            on,
            nodes,
            full: order.full,
        };
        (self.fits)(&setting)?;
        Ok(setting)
    }

    /// Fails with the packages to install, and what else is missing.
    pub fn check_tools(&self) -> Result<()> {
        let have = |program: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
        };
        let missing = self.tools.iter().filter(|t| !have(t.program));
        let mut packages: Vec<&str> = missing.map(|t| t.package).collect();
        packages.dedup();
        if !packages.is_empty() {
            let list = packages.join(" ");
            bail!(
                "{} needs these Debian packages: {list}\nhint: apt-get install -y {list}",
                self.id
            );
        }
        if self.on == On::Lab && !armento_lab::is_root() {
            bail!(
                "{} raises labs, which needs root\nhint: sudo armento paper run {}",
                self.id,
                self.id
            );
        }
        Ok(())
    }
}

/// Runs what is missing, and keeps it in `folder` run by run.
pub fn begin(
    e: &Experiment,
    order: &Order,
    folder: &Path,
    stop: &Stop,
) -> Result<(Results, Ended)> {
    let setting = e.setting(order)?;
    e.check_tools()?;
    let mut results = match earlier(e, order, &setting, folder)? {
        Some(earlier) => earlier,
        None => fresh(e, &setting, order.repeats)?,
    };
    results.complete = false;
    let runs = (e.runs)(&setting);
    let all = (0..order.repeats).flat_map(|repeat| runs.iter().map(move |run| (run, repeat)));
    let missing: Vec<(&Run, u32)> = all
        .filter(|(run, repeat)| !results.has(&run.name, *repeat))
        .collect();
    results.discarded.retain(|d| {
        missing
            .iter()
            .all(|(run, r)| (&run.name, r) != (&d.run, &d.repeat))
    });
    let mut ended = Ended::default();
    let mut clock = Clock::new(missing.iter().map(|(run, _)| run.expect_s).collect());
    for (i, (run, repeat)) in missing.iter().enumerate() {
        say!(
            "{}: {} of {}: {}{}",
            e.id,
            i + 1,
            missing.len(),
            run.name,
            clock.left()
        );
        let (began, at) = (Instant::now(), now());
        let seed = u64::from(*repeat) + 1;
        let measured = (e.perform)(run, &setting, &results.setup, seed);
        if stop.is_asked() {
            // The thread that handles the signal ends this process.
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        let measured = measured.with_context(|| format!("{}: {}", e.id, run.name))?;
        let took_s = began.elapsed().as_secs_f64();
        clock.passed(took_s);
        match &measured.problem {
            Some(why) => {
                eprintln!(
                    "armento paper: {}: {}: sample discarded: {why}",
                    e.id, run.name
                );
                ended.discarded += 1;
                results.discarded.push(Discarded {
                    run: run.name.clone(),
                    repeat: *repeat,
                    at,
                    why: why.clone(),
                });
            }
            None => {
                ended.measured += 1;
                let place = (run.name.clone(), *repeat);
                results
                    .samples
                    .push(sample(place, seed, at, took_s, measured));
            }
        }
        results.complete = i + 1 == missing.len() && ended.discarded == 0;
        results.machine.after();
        results.save(folder)?;
    }
    if missing.is_empty() {
        say!("{}: nothing is missing", e.id);
        results.complete = true;
        results.save(folder)?;
    }
    Ok((results, ended))
}

fn sample((run, repeat): (String, u32), seed: u64, at: String, took_s: f64, m: Measured) -> Sample {
    Sample {
        run,
        repeat,
        seed,
        at,
        took_s,
        values: m.values,
        raw: m.raw,
        traffic: m.traffic,
    }
}

/// The results to go on with.
fn earlier(
    e: &Experiment,
    order: &Order,
    setting: &Setting,
    folder: &Path,
) -> Result<Option<Results>> {
    if !order.resume {
        return Ok(None);
    }
    let Some(earlier) = Results::load(folder, e.id)? else {
        return Ok(None);
    };
    let anew = "hint: run it anew without --resume, or keep these results elsewhere: --data DIR";
    if earlier.build != Build::here() {
        bail!(
            "{}: the results at hand are of another build ({} {}), and would be mixed with those of this one\n{anew}",
            e.id,
            earlier.build.version,
            earlier.build.hash
        );
    }
    if earlier.setting != *setting {
        bail!(
            "{}: the results at hand have scale {} and {} nodes, asked for are {} and {}\n{anew}",
            e.id,
            earlier.setting.scale,
            earlier.setting.nodes,
            setting.scale,
            setting.nodes
        );
    }
    Ok(Some(Results {
        repeats: order.repeats.max(earlier.repeats),
        ..earlier
    }))
}

fn fresh(e: &Experiment, setting: &Setting, repeats: u32) -> Result<Results> {
    let program = std::env::current_exe().context("cannot find our own binary")?;
    Ok(Results {
        schema: SCHEMA.to_owned(),
        experiment: e.id.to_owned(),
        build: Build::here(),
        machine: Facts::before(&program)?,
        setup: (e.prepare)(setting)?,
        setting: setting.clone(),
        repeats,
        samples: Vec::new(),
        discarded: Vec::new(),
        complete: false,
    })
}

fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// The time left: what was expected, corrected by what earlier runs took.
struct Clock {
    /// Of the runs to come, the next one last.
    expected: Vec<f64>,
    passed_s: f64,
    passed_expected_s: f64,
}

impl Clock {
    fn new(mut expected: Vec<f64>) -> Clock {
        expected.reverse();
        Clock {
            expected,
            passed_s: 0.0,
            passed_expected_s: 0.0,
        }
    }

    fn left_s(&self) -> f64 {
        let rest: f64 = self.expected.iter().sum();
        match self.passed_expected_s > 0.0 {
            true => rest * self.passed_s / self.passed_expected_s,
            false => rest,
        }
    }

    /// Empty where all is done in a moment.
    fn left(&self) -> String {
        match self.left_s() {
            s if s < 2.0 => String::new(),
            s if s < 100.0 => format!(" (some {s:.0} s left)"),
            s => format!(" (some {:.0} min left)", s / 60.0),
        }
    }

    fn passed(&mut self, took_s: f64) {
        self.passed_expected_s += self.expected.pop().unwrap_or(0.0);
        self.passed_s += took_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_what_runs_took() {
        let mut clock = Clock::new(vec![10.0, 20.0, 30.0]);
        assert_eq!(clock.left(), " (some 60 s left)");
        clock.passed(20.0);
        assert_eq!(clock.left_s(), 100.0);
        clock.passed(25.0);
        clock.passed(1.0);
        assert_eq!(clock.left(), "");
    }
}
