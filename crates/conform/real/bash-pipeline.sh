exec bash --norc -c '
set -o pipefail
seq 1 60000 | sort -r | awk "NR % 3" | grep -v 7 | tee >(sha256sum > tee.sum) | wc -l
while read -r a b; do echo "$b-$a"; done < <(seq 1 2000 | paste - -) | sha256sum
diff <(seq 1 3000) <(seq 1 3000 | sed s/2999/x/); echo "diff $?"
false | true | (exit 4) | cat; echo "${PIPESTATUS[*]} $?"
yes | head -2; echo "${PIPESTATUS[*]}"
coproc up { while read -r l; do echo "${l^^}"; done; }
for w in one two three; do echo $w >&${up[1]}; read -r r <&${up[0]}; echo "$r"; done
exec {up[1]}>&-
wait
declare -A n; for i in $(seq 1 20000); do ((n[$((i % 17))] += i)); done; echo "${n[3]} ${n[16]}"
f() { local x=$1; ((x < 2)) && echo 1 || echo $(( $(f $((x - 1))) + $(f $((x - 2))) )); }; f 9
trap "echo trapped" USR1; kill -USR1 $BASHPID; sleep 0.1 & wait $!; echo "waited $?"
printf "%s\n" {a..e}{1..3} | xargs; exit 9'
