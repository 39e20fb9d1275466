for i in 1 2 3 4 5 6; do ( sleep 0.$((7 - i)); echo "job $i" > out.$i; exit $i ) & eval p$i=$!; done
for i in 1 2 3 4 5 6; do eval wait \$p$i; echo "job $i ended $?"; done
cat out.*
trap 'echo got TERM' TERM
kill -TERM $$
( trap 'echo child got USR1; exit 7' USR1; echo ready > ready; while :; do sleep 0.02; done ) &
while ! [ -s ready ]; do sleep 0.02; done
kill -USR1 $!; wait $!; echo "status $?"
sleep 100 & kill -KILL $!; wait $! 2>/dev/null; echo "status $?"
sh -c 'kill -ABRT $$' 2>/dev/null; echo "status $?"
trap 'echo leaving' EXIT
cat <<END | sed 's/^/> /'
here $((6 * 7)) document
END
umask 077; echo x > private; umask 022; echo y > public; mkdir -p a/b; cd a/b; pwd | sed 's|.*/a|a|'; cd ../..
exec 3> three; echo through 3 >&3; exec 3>&-; cat three
i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; echo $i
no-such-command 2>/dev/null; echo "status $?"; ./private 2>/dev/null; echo "status $?"
mkfifo ff; ( sleep 0.1; echo through a fifo > ff ) & cat ff; wait; rm ff
printf 'a b\nc d\n' | while read x y; do echo "$y $x"; done
exit 5
