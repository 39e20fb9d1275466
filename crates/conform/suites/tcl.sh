# See suites.rs for the verbs.
set -u
case $1 in
prepare)
    cd source/tests
    for file in *.test; do
        case $file in
        # Of other systems, or about the time and the network of the day.
        mac* | win* | registry.test | http*) ;;
        *) echo "$file" ;;
        esac
    done
    ;;
stage) ln -s "$SUITE/source/tests" . && mkdir tmp ;;
run)
    # Those skipped count on a timer of some milliseconds not being late.
    tclsh8.6 "tests/$2" -verbose 'pass skip error' -skip 'timer-6.4 timer-6.5 timer-6.29 socket_inet-2.13 socket_inet6-2.13' -tmpdir "$PWD/tmp" > log 2>&1
    status=$?
    sed -n -e 's/^++++ \([^ ]*\) PASSED.*/ok \1/p' -e 's/^++++ \([^ ]*\) SKIPPED.*/skip \1/p' \
        -e 's/^==== \([^ ]*\) .*FAILED$/FAIL \1/p' log
    echo "ended with $status"
    ;;
esac
