//! Serves a directory by hand: `nfs-serve ADDRESS:PORT DIRECTORY [ADDRESS=NODE …]` as `/root`, and `/nodes` in
//! `DIRECTORY.nodes` if that is there. Ends with its input.

use armento_nfs::{Caller, Export, Exports, Key, Server};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, directory, nodes @ ..] = &words[..] else {
        eprintln!("usage: nfs-serve ADDRESS:PORT DIRECTORY [ADDRESS=NODE …]");
        std::process::exit(2);
    };
    let nodes: HashMap<IpAddr, String> = nodes
        .iter()
        .filter_map(|n| n.split_once('='))
        .filter_map(|(address, name)| Some((address.parse().ok()?, name.to_owned())))
        .collect();
    let own = format!("{directory}.nodes");
    let mut list = vec![
        Export::shared("/root", directory),
        Export::image("/image", directory, 1),
    ];
    if Path::new(&own).is_dir() {
        list.push(Export::per_node("/nodes", own));
    }
    let exports = Exports {
        list,
        key: Key([7; 32]),
    };
    let resolver = move |address: IpAddr| match nodes.get(&address) {
        Some(node) => Caller::Node(node.clone()),
        None => Caller::Stranger,
    };
    let address = address.parse().expect("ADDRESS:PORT");
    let running = Server::bind(address, exports, resolver).expect("bound");
    println!("{}", running.address());
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    for client in running.clients() {
        println!("{client:?}");
    }
    running.stop();
}
