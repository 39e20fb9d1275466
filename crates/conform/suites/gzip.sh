# See suites.rs for the verbs.
set -u
case $1 in
prepare)
    cd source/tests
    for tool in gzip gunzip zcat zcmp zdiff zegrep zfgrep zforce zgrep zless zmore znew gzexe; do
        ln -sf "/bin/$tool" ../$tool
    done
    for file in *; do
        if grep -q 'init.sh' "$file" && [ -x "$file" ]; then echo "$file"; fi
    done
    ;;
stage) cp -r "$SUITE/source/tests" . && for tool in "$SUITE"/source/z* "$SUITE"/source/g*; do [ -L "$tool" ] && cp -P "$tool" .; done; : ;;
run)
    cd tests
    export srcdir=. abs_srcdir=$PWD abs_top_srcdir=$SUITE/source abs_top_builddir=${PWD%/*} GREP=grep AWK=awk
    sh "./$2" > log 2>&1
    case $? in
    0) echo "ok $2" ;;
    77) echo "skip $2" ;;
    *) echo "FAIL $2" && cat log >&2 ;;
    esac
    ;;
esac
