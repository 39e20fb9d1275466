#!/usr/bin/perl
# files.pl FILE GATES N: computes until the first gate is there, writes a line, reads everything and prints it; the same
# for each gate.
$| = 1;
my ($file, $gates, $n) = @ARGV;
open F, "+>", $file or die;
for my $i (1 .. $n) {
    my $x;
    do { $x = 0; $x += $_ % 7 for 1 .. 20000 } until -e "$gates/$i";
    seek F, 0, 2;
    print F "$i $x\n";
    seek F, 0, 0;
    my $lines = 0;
    $lines++ while <F>;
    printf "%d %d %.6f %s\n", $lines, $x, sin($i) * exp($i / 9), join ",", map { "ab" x $_ } 1 .. $i % 9;
}
