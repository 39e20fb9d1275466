#!/bin/sh
# Makes sure that the Debian packages named on the command line are installed.
# As root it installs what is missing; otherwise it prints the one line to run and exits 1.
# On systems without dpkg it only says what to look for, and goes on.
# --soft: when apt-get itself fails, go on without; tests that need them are then counted as skipped.
set -eu

soft=no
if [ "${1:-}" = --soft ]; then
    soft=yes
    shift
fi

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "need: no dpkg here; make sure these are installed: $*"
    exit 0
fi

missing=
for package in "$@"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "need: these Debian packages are missing:$missing" >&2
    echo "hint: run  sudo apt-get update && sudo apt-get install -y$missing" >&2
    exit 1
fi

echo "need: installing$missing"
# In a log, what apt-get says besides errors only hides what matters.
[ -t 1 ] || exec >/dev/null
export DEBIAN_FRONTEND=noninteractive
# Mirrors hiccup: three attempts, then the truth. The lock may be held by unattended-upgrades.
attempt=1
# shellcheck disable=SC2086 # a list of words on purpose
until apt-get -q -o DPkg::Lock::Timeout=120 update </dev/null &&
    apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 \
        install --no-install-recommends $missing </dev/null; do
    if [ "$attempt" -ge 3 ]; then
        echo "need: apt-get could not install:$missing" >&2
        [ "$soft" = no ] || exit 0
        echo "hint: check the network and /etc/apt/sources.list, then run make again" >&2
        exit 1
    fi
    attempt=$((attempt + 1))
    sleep 5
done
