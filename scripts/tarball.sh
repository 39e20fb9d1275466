#!/bin/sh
# Packs the program, its units, settings, manual pages and completions into BUILT/armento-VERSION-x86_64.tar.gz.
# Before: `armento pages target/pages`.
set -eu

built=$1
version=$("$built/release/armento" --version | cut -d ' ' -f 2)
name=armento-$version-x86_64
root=$built/$name
rm -rf "$root"
mkdir -p "$root/apparmor"
install -s -m 755 "$built/release/armento" "$root/armento"
install -m 644 packaging/armento.service packaging/armento-boot-server.service packaging/tmpfiles.d/armento.conf packaging/config.toml packaging/INSTALL.md "$root"
install -m 644 packaging/apparmor/armento "$root/apparmor"
install -D -m 644 -t "$root/monitoring" packaging/monitoring/*
install -m 644 LICENSE-APACHE LICENSE-MIT "$root"
cp -r target/pages/man target/pages/bash target/pages/zsh target/pages/fish "$root"
tar -C "$built" --owner=0 --group=0 --sort=name -czf "$built/$name.tar.gz" "$name"
rm -rf "$root"
echo "$built/$name.tar.gz"
