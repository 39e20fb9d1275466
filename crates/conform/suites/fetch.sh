# fetch.sh PACKAGE FOLDER: the source of a Debian package, from wherever this machine gets its packages.
# apt checks what it downloads against the signed index, dpkg-source checks it against the .dsc again.
# Leaves FOLDER/source, or one line on standard error and a status that is not 0.
set -eu
package=$1 folder=$2
fail() { echo "$1" >&2; exit 1; }
command -v apt-get > /dev/null || fail "this machine has no apt-get"
command -v dpkg-source > /dev/null || fail "install the package dpkg-dev"
mkdir -p "$folder/apt/parts" "$folder/apt/lists/partial" "$folder/apt/archives/partial"
chmod 755 "$folder" "$folder/apt"

# The machine's own entries for Debian, of sources instead of programs.
uris=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 2> /dev/null | sed -n 's/^Debian //p' | sort -u)
[ -n "$uris" ] || fail "apt knows no Debian repository: run apt-get update"
ours() { for uri in $uris; do grep -q -F "${uri%/}" "$1" && return 0; done; return 1; }
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    [ -f "$file" ] && ours "$file" || continue
    case $file in
    *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" ;;
    *.list) sed -n 's/^deb /deb-src /p' "$file" ;;
    esac > "$folder/apt/parts/${file##*/}"
done

options="-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$folder/apt/parts"
options="$options -o Dir::State::Lists=$folder/apt/lists -o Dir::Cache::Archives=$folder/apt/archives"
options="$options -o Acquire::Retries=3 -o APT::Sandbox::User=root"
# shellcheck disable=SC2086 # options are words
apt() { timeout 300 apt-get -q $options "$@" > "$folder/apt/log" 2>&1; }
said() { grep -m1 '^[EW]:' "$folder/apt/log" || echo "no answer in time"; }
apt update || fail "apt-get update failed: $(said)"
rm -rf "$folder/source" "$folder/files"
mkdir "$folder/files"
cd "$folder/files"
# The version that is installed, so that its programs are what is tested, or else any that is there:
# an index may name what its mirror has lost.
versions=$(dpkg-query -W -f '${source:Version}\n' "$package" 2> /dev/null || true)
versions="$versions $(apt-cache $options showsrc --only-source "$package" 2> /dev/null | sed -n 's/^Version: //p' | sort -r -V -u)"
got=no
for version in $versions; do
    rm -f ./*
    if apt source --download-only "$package=$version"; then got=yes && break; fi
done
[ $got = yes ] || fail "apt-get source $package failed: $(said)"
size=$(du -sm . | cut -f1)
[ "$size" -le 100 ] || fail "the source of $package is $size MB, more than 100"
dpkg-source --no-copy --require-strong-checksums -x ./*.dsc "$folder/source" > "$folder/apt/log" 2>&1 ||
    fail "dpkg-source: $(tail -n1 "$folder/apt/log")"
cd "$folder"
rm -rf files apt
