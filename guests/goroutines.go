/* A Go program: collection in many goroutines, channels, tickers, contexts, a loop that only a signal
 * preempts, the poller with sockets, os/signal, children, a recovered fault. About 2 s. */
package main

import (
	"bufio"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

type node struct {
	next *node
	load []byte
}

func churn(seed int) (sum int) {
	var kept *node
	for i := 0; i < 60000; i++ {
		n := &node{nil, make([]byte, 100+(seed*i)%300)}
		if i%40 == 0 {
			n.next, kept = kept, n
		}
		if i%10000 == 0 {
			kept = nil
		}
		sum += len(n.load)
	}
	for n := kept; n != nil; n = n.next {
		sum++
	}
	return
}

func main() {
	var group sync.WaitGroup
	sums := make([]int, 12)
	for i := range sums {
		group.Add(1)
		go func(i int) { defer group.Done(); sums[i] = churn(i + 1) }(i)
	}
	group.Wait()
	runtime.GC()
	fmt.Println("churn", sums)

	in, out := make(chan int), make(chan int, 4)
	for w := 0; w < 200; w++ {
		go func() {
			for n := range in {
				if n%50 == 0 {
					time.Sleep(time.Millisecond)
				}
				out <- n * n % 1009
			}
		}()
	}
	go func() { for i := 0; i < 4000; i++ { in <- i }; close(in) }()
	total := 0
	for i := 0; i < 4000; i++ {
		total += <-out
	}
	fmt.Println("channels", total)

	// A ticker drops ticks for a late receiver, as a moved program may be, but no tick comes before its time.
	begun := time.Now()
	ticker, ticks, early := time.NewTicker(10*time.Millisecond), 0, 0
	late := time.After(150 * time.Millisecond)
	for done := false; !done || ticks < 15; {
		select {
		case <-ticker.C:
			ticks++
			if time.Since(begun) < time.Duration(ticks)*10*time.Millisecond {
				early++
			}
		case <-late:
			done = true
		}
	}
	fmt.Println("ticks", ticks >= 15, "early", early, "all in time", time.Since(begun) < 20*time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	fmt.Println(ctx.Err())

	// A busy goroutine is preempted by a signal.
	busy := make(chan int)
	go func() { n := 0; for i := 0; i < 300000000; i++ { n += i & 3 }; busy <- n }()
	fmt.Println("busy", <-busy)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil { panic(err) }
	go func() { for { c, err := l.Accept(); if err != nil { return }; go func() { io.Copy(c, c); c.Close() }() } }()
	answers := make([]string, 5)
	for i := range answers {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil { answers[i] = "no connection"; return }
			fmt.Fprintf(c, "hello %d\n", i)
			answers[i], _ = bufio.NewReader(c).ReadString('\n')
			c.Close()
		}(i)
	}
	group.Wait()
	fmt.Println(strings.Fields(strings.Join(answers, " ")))

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println(<-signals)
	text, err := exec.Command("sh", "-c", "echo child; exit 3").Output()
	fmt.Printf("%s%v\n", text, err)
	os.WriteFile("out", []byte(strings.Repeat("line\n", 9000)), 0o644)
	read, _ := os.ReadFile("out")
	fmt.Printf("%x\n", crc32.ChecksumIEEE(read))
	list := make([]int, 50000)
	for i := range list { list[i] = i * 7919 % 50021 }
	sort.Ints(list)
	fmt.Println(list[0], list[25000])
	func() {
		defer func() { fmt.Println("recovered", recover()) }()
		var p *node
		p.load = nil
	}()
	os.Exit(6)
}
