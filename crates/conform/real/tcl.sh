cat > main.tcl <<'TCL'
proc fib n { expr {$n < 2 ? $n : [fib [expr {$n - 1}]] + [fib [expr {$n - 2}]]} }
puts "fib [fib 24]"
# The event loop: timers, a pipe, a server with two clients.
set order {}
foreach ms {120 40 80} { after $ms [list lappend order $ms] }
set pipe [open "|sh -c {for i in 1 2 3; do sleep 0.05; echo line \$i; done; exit 3}"]
fconfigure $pipe -blocking 0
fileevent $pipe readable {
    if {[gets $pipe line] >= 0} { puts "pipe $line" } elseif {[eof $pipe]} {
        fconfigure $pipe -blocking 1
        puts "closed [catch {close $pipe} m o] [lindex [dict get $o -errorcode] 0] [lindex [dict get $o -errorcode] 2]"; set done 1 }
}
vwait done
set served 0
proc accept {c a p} { fconfigure $c -buffering line -blocking 0; fileevent $c readable [list serve $c] }
proc serve c { if {[gets $c line] >= 0} { puts $c [string toupper $line] } elseif {[eof $c]} { close $c; incr ::served } }
set server [socket -server accept -myaddr 127.0.0.1 0]
set port [lindex [fconfigure $server -sockname] 2]
foreach n {1 2} { set c($n) [socket 127.0.0.1 $port]; fconfigure $c($n) -buffering line }
foreach round {a b c} { foreach n {1 2} {
    puts $c($n) "client $n $round"
    fconfigure $c($n) -blocking 0
    while {[gets $c($n) line] < 0} { after 5 {set tick 1}; vwait tick }
    puts $line } }
foreach n {1 2} { close $c($n) }
while {$served < 2} { vwait served }
puts "order $order"
for {set i 0} {$i < 20000} {incr i} { dict lappend d [expr {$i * 7919 % 13}] $i }
puts [lmap k [lsort -integer [dict keys $d]] { llength [dict get $d $k] }]
puts [string length [encoding convertto utf-8 [string repeat \u20ac 500]]]
set f [open out w]; fconfigure $f -translation binary; puts -nonewline $f [binary format I* {1 2 3}]; close $f
puts "size [file size out] [exec sh -c {echo out; echo err >&2} 2>@1]"
puts [catch {exec false} m o]
catch {error "deep" "" {MY CODE}} m o; puts [dict get $o -errorcode]
exit 7
TCL
tclsh main.tcl
echo "status $?"
