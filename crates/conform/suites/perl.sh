# See suites.rs for the verbs.
set -u
case $1 in
prepare)
    cd source
    # The installed perl with its own modules, where the tests look for those of a build.
    for folder in $(perl -e 'print join " ", grep { m{^/usr/(lib|share)/.*perl} } @INC'); do
        [ -d "$folder" ] && cp -rsf "$folder/." lib/ 2> /dev/null
    done
    ln -sf /usr/bin/perl perl
    ln -sf /usr/bin/perl t/perl
    cd t
    for file in base/*.t cmd/*.t comp/*.t io/*.t op/*.t re/*.t; do
        case $file in
        # Minutes of processor time each, and one call.
        re/uniprops*.t | re/pat_thr.t | re/regexp_*.t | re/speed*.t | re/fold_grind*.t | re/subst_wamp.t) ;;
        # A thousand children.
        io/crlf_through.t) ;;
        op/repeat.t | op/pack.t | op/sprintf2.t | op/lc.t | op/sub_lval.t) ;;
        *) echo "$file" ;;
        esac
    done
    ;;
stage)
    for entry in "$SUITE"/source/*; do [ "${entry##*/}" = t ] || ln -s "$entry" .; done
    # Tests write into their current directory only.
    mkdir t && for entry in "$SUITE"/source/t/*; do ln -s "$entry" t/; done
    ;;
run)
    cd t
    # The switches of its first line, as the harness gives them.
    switches=$(sed -n '1s/^#!.*perl *\(-.*\)/\1/p' "$2")
    # shellcheck disable=SC2086 # switches are words
    PERL_CORE=1 PERL_SKIP_TTY_TEST=1 ./perl $switches -I../lib "$2" > ../log 2> ../errors < /dev/null
    status=$?
    sed -n -e 's/^not ok \([0-9]*\).*# *[Tt][Oo][Dd][Oo].*/skip \1/p' -e 's/^not ok \([0-9]*\).*/FAIL \1/p' \
        -e 's/^ok \([0-9]*\).*# *[Ss][Kk][Ii][Pp].*/skip \1/p' -e 's/^ok \([0-9]*\).*/ok \1/p' ../log |
        awk '!seen[$2]++'
    echo "ended with $status"
    ;;
esac
