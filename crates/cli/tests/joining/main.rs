//! How nodes find, reach and join each other: every bad beginning has one clear line, and leaves nothing behind.

mod addresses;
mod clocks;
mod net;
mod refusals;

use net::Net;

#[test]
fn a_join_that_cannot_work_says_why_and_changes_nothing() {
    let Some(net) = Net::up("join", 3) else {
        return;
    };
    refusals::init_never_chooses_loopback(&net);
    let join = refusals::init_finds_the_address(&net);
    refusals::member_not_there(&net, &join);
    net.daemon("n1", "");
    refusals::tokens(&net);
    refusals::names_and_machines(&net, &join);
    refusals::ways_that_lead_nowhere(&net, &join);
    refusals::clocks(&net, &join);
    refusals::then_it_works(&net, &join);
}

#[test]
fn a_member_that_tells_a_wrong_address_is_found_out() {
    let Some(net) = Net::up("told", 2) else {
        return;
    };
    refusals::told_address(&net);
}

#[test]
fn addresses_change_and_come_late() {
    let Some(net) = Net::up("moves", 2) else {
        return;
    };
    addresses::change_under_guests(&net);
    addresses::come_late(&net);
}

#[test]
fn a_farm_needs_no_ipv4() {
    let Some(net) = Net::up("six", 2) else {
        return;
    };
    addresses::ipv6_only(&net);
}

#[test]
fn clocks_that_are_apart_are_told_once_and_clearly() {
    let Some(net) = Net::up("clock", 2) else {
        return;
    };
    clocks::are_told(&net);
}
