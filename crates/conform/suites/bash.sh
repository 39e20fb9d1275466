# See suites.rs for the verbs.
set -u
case $1 in
prepare)
    cd source/tests
    for tool in recho zecho printenv xcase; do gcc -w -DHAVE_STRING_H -DHAVE_STDLIB_H -I.. -I../include -o $tool ../support/$tool.c || exit 1; done
    for file in run-*; do
        case $file in
        run-all | run-minimal | run-gprof) ;;
        # Two processes that speak in any order, reads that time out or not, a minute of sleeps.
        run-glob-test | run-coproc | run-nameref | run-read | run-jobs) ;;
        *) echo "${file#run-}" ;;
        esac
    done
    ;;
stage) : ;;
run)
    cd "$SUITE/source/tests" || exit
    export THIS_SH=/bin/bash BUILD_DIR=$PWD PATH=.:$PATH BASH_TSTOUT=$TMPDIR/out
    # What it shows is how its output differs from what was expected where bash was written. Its printf compares two
    # looks at the clock: between them a second may end.
    sh "./run-$2" 2> /dev/null | sed -e 's/([0-9][0-9]*)/(PID)/' -e '/^< current time mismatch/d' -e '/^259d257$/d'
    ;;
esac
