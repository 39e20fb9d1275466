# See suites.rs for the verbs.
set -u
case $1 in
prepare)
    cd source/tests
    make -s datagen > ../log 2>&1 || exit 1
    cd cli-tests
    find . -mindepth 2 -name '*.sh' -perm -u+x | sed 's/^\.\///' | grep -v '^common/\|^bin/' | sort
    ;;
stage) cp -r "$SUITE/source/tests/cli-tests" . && chmod -R u+w cli-tests ;;
run)
    cd cli-tests
    python3 ./run.py --zstd /usr/bin/zstd --zstdgrep /usr/bin/zstdgrep --zstdless /usr/bin/zstdless \
        --datagen "$SUITE/source/tests/datagen" "$2" > log 2>&1
    case $? in
    0) echo "ok $2" ;;
    *) echo "FAIL $2" && cat log >&2 ;;
    esac
    ;;
esac
