//! mosctl.

use super::out::say;
use crate::failed::Failed;
use crate::farm::{Farm, Member, switches};
use crate::parse::{Control, Figure};
use crate::show::status;
use armento_client::Session;
use armento_client::api::{STANDARD_SPEED, SwitchChange, SwitchInfo};
use std::thread::sleep;
use std::time::Duration;

/// Interval between two looks whether processes have gone home.
const CHECK_EVERY: Duration = Duration::from_millis(100);

pub fn perform(control: &Control) -> Result<i32, Failed> {
    if *control == Control::Yard {
        return say(&format!("{STANDARD_SPEED}\n")).map(|()| 0);
    }
    let mut session = Session::connect()?;
    match control {
        Control::Whois(word) => whois(&mut session, word.as_deref()),
        Control::Get(figure, word) => tell(&mut session, *figure, word.as_deref()),
        _ => {
            let mut info = switches(&mut session, Some(change(control)))?;
            // As openMosix: until done, or interrupted.
            while left(control, &info) > 0 {
                sleep(CHECK_EVERY);
                info = switches(&mut session, None)?;
            }
            Ok(0)
        }
    }
}

/// The switches that a word sets.
fn change(control: &Control) -> SwitchChange {
    let mut c = SwitchChange::default();
    match control {
        Control::Stay(on) => c.stay = Some(*on),
        Control::Block(on) => c.block = Some(*on),
        Control::Quiet(on) => c.quiet = Some(*on),
        Control::Mfs(on) => c.mfs = Some(*on),
        Control::Expel => (c.block, c.expel) = (Some(true), true),
        Control::Bring => (c.stay, c.bring) = (Some(true), true),
        Control::Whois(_) | Control::Get(..) | Control::Yard => {}
    }
    c
}

/// Processes that are still to leave or to come.
fn left(control: &Control, info: &SwitchInfo) -> u64 {
    match control {
        Control::Expel => info.guests + info.unheard,
        Control::Bring => info.brings,
        _ => 0,
    }
}

fn own(farm: &Farm) -> Result<&Member, Failed> {
    farm.here().ok_or_else(Failed::unexpected)
}

/// Without a word the own ID; for an ID its address; for an address or a name its ID.
fn whois(session: &mut Session, word: Option<&str>) -> Result<i32, Failed> {
    let farm = Farm::ask(session)?;
    let text = match word {
        None => format!("This is MOSIX #{}\n", own(&farm)?.id),
        Some(word) => {
            let m = farm.find(word)?;
            match word.parse::<u16>() == Ok(m.id) {
                true => format!("{}\n", m.address()),
                false => format!("{}\n", m.id),
            }
        }
    };
    say(&text).map(|()| 0)
}

fn tell(session: &mut Session, figure: Figure, word: Option<&str>) -> Result<i32, Failed> {
    let farm = Farm::ask(session)?;
    let m = match word {
        Some(word) => farm.find(word)?,
        None => own(&farm)?,
    };
    let never = m.info.cores == 0 && !matches!(figure, Figure::Status | Figure::IsUp);
    if never {
        return Err(Failed::new(
            format!("{} has not reported yet", m.info.name),
            "`armento nodes` shows which nodes answer",
        ));
    }
    let text = match figure {
        Figure::Load => format!("{}\n", m.load()),
        Figure::Speed => format!("{}\n", m.info.speed),
        Figure::Memory => format!("{}\n", m.mem_total_bytes()),
        Figure::Free => format!("{}\n", m.mem_free_bytes()),
        Figure::IsUp => if m.is_up() { "yes\n" } else { "no\n" }.into(),
        Figure::Status if m.info.here => status(m, Some(&switches(session, None)?)),
        Figure::Status => status(m, None),
    };
    say(&text)?;
    Ok(i32::from(figure == Figure::IsUp && !m.is_up()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expel_blocks_and_bring_stays() {
        let c = change(&Control::Expel);
        assert!(c.expel && c.block == Some(true) && c.stay.is_none());
        let c = change(&Control::Bring);
        assert!(c.bring && c.stay == Some(true) && c.block.is_none());
        assert_eq!(change(&Control::Mfs(false)).mfs, Some(false));
    }
}
