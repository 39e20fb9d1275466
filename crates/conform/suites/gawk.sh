# See suites.rs for the verbs.
set -u
case $1 in
prepare)
    cd source
    { ./configure --quiet --disable-nls && cd test && make -s Makefile; } > ../log 2>&1 || exit 1
    # The tests of the language by their first letter, and those of gawk's own.
    sed -n '/^BASIC_TESTS *=/,/[^\\]$/p; /^UNIX_TESTS *=/,/[^\\]$/p; /^GAWK_EXT_TESTS *=/,/[^\\]$/p' Makefile |
        sed -e 's/^[A-Z_]* *=//' -e 's/\\$//' | tr -s ' \t' '\n' | grep '^[a-z]' | sort -u > units.all
    cut -c1 units.all | sort -u
    ;;
stage) cp -r "$SUITE/source/test" . && chmod -R u+w test ;;
run)
    cd test
    for name in $(grep "^$2" "$SUITE/source/test/units.all"); do
        rm -f "_$name"
        make -s AWK=gawk AWKPROG=gawk "$name" > /dev/null 2>&1
        if [ -e "_$name" ]; then echo "FAIL $name"; else echo "ok $name"; fi
    done
    ;;
esac
