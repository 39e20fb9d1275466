//! How nodes find, reach and join each other: each failed start has one clear line, and leaves nothing behind.

mod addresses;
mod clocks;
mod net;
mod refusals;

use net::Net;

#[test]
fn impossible_join_says_why_and_changes_nothing() {
    let Some(net) = Net::up("join", 3) else {
        return;
    };
    refusals::init_never_chooses_loopback(&net);
    let join = refusals::init_finds_the_address(&net);
    refusals::unreachable_members(&net, &join);
    net.daemon("n1", "");
    refusals::tokens(&net);
    refusals::names_and_machines(&net, &join);
    refusals::unreachable_own_addresses(&net, &join);
    refusals::clocks(&net, &join);
    refusals::then_it_works(&net, &join);
}

#[test]
fn member_advertising_wrong_address_is_detected() {
    let Some(net) = Net::up("told", 2) else {
        return;
    };
    refusals::advertised_address(&net);
}

#[test]
fn nodes_survive_changed_and_late_addresses() {
    let Some(net) = Net::up("moves", 2) else {
        return;
    };
    addresses::change_under_guests(&net);
    addresses::appear_late(&net);
}

#[test]
fn farm_works_with_ipv6_only() {
    let Some(net) = Net::up("six", 2) else {
        return;
    };
    addresses::ipv6_only(&net);
}

#[test]
fn clock_skew_is_reported_once() {
    let Some(net) = Net::up("clock", 2) else {
        return;
    };
    clocks::skew_is_reported(&net);
}
