//go:build soak

package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

func hello(producer string, next int) string {
	return fmt.Sprintf("{\"docket\":{\"version\":1,\"producer\":%q,\"next\":%d}}\n", producer, next)
}

// again writes text until it cannot.
func again(nc net.Conn, text string) {
	for {
		if _, err := io.WriteString(nc, text); err != nil {
			return
		}
	}
}

// streamAttacks are those over the socket with lines that are not refused.
func streamAttacks() []attack {
	unfinished := `{"pad":"` + strings.Repeat("x", 1<<20-100)
	sends := func(n int, text string) func(context.Context, *arena) {
		return func(ctx context.Context, a *arena) {
			a.each(ctx, n, func(_ int, nc net.Conn) { io.WriteString(nc, text) })
		}
	}
	return []attack{
		{name: "57 unfinished lines of 1 MB", run: sends(57, unfinished)},
		{name: "1,000 unfinished lines of 1 MB", run: sends(1000, unfinished)},
		{name: "1,000 unfinished lines of 3 KB", run: sends(1000, unfinished[:3000])},
		{name: "1,500 idle connections", run: sends(1500, "")},
		{name: "1,000 times half a hello", run: sends(1000, `{"docket":{"version":1,"prod`)},
		{name: "500 slow lines", run: func(ctx context.Context, a *arena) {
			a.each(ctx, 500, func(_ int, nc net.Conn) {
				io.WriteString(nc, unfinished[:8000])
				for range 100 {
					if _, err := io.WriteString(nc, "x"); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}},
		{name: "1 MiB records on 50 connections", run: func(ctx context.Context, a *arena) {
			a.each(ctx, 50, func(_ int, nc net.Conn) { again(nc, unfinished+"\"}\n") })
		}},
		{name: "16 MiB records among short ones", limits: "limits: {maxRecordBytes: 16Mi}", run: func(ctx context.Context, a *arena) {
			large := `{"pad":"` + strings.Repeat("x", 16<<20-100) + "\"}\n" + strings.Repeat("{}\n", 1000)
			a.each(ctx, 8, func(_ int, nc net.Conn) { again(nc, large) })
		}},
		{name: "over-long lines on 200 connections", run: func(ctx context.Context, a *arena) {
			a.each(ctx, 200, func(_ int, nc net.Conn) { again(nc, unfinished+unfinished+"\n") })
		}},
		{name: "20,000 producer names", run: func(ctx context.Context, a *arena) {
			for i := 0; i < 20000 && ctx.Err() == nil; i++ {
				nc, err := a.dial()
				if err != nil {
					return
				}
				io.WriteString(nc, hello(fmt.Sprintf("%s-%d", strings.Repeat("n", 100), i), 1)+"{}\n")
				nc.Close()
			}
		}},
		{name: "duplicates on 50 connections", run: func(ctx context.Context, a *arena) {
			a.each(ctx, 50, func(i int, nc net.Conn) {
				io.WriteString(nc, hello(fmt.Sprint("twice", i), 1)+strings.Repeat("{}\n", 1000))
				nc.Close()
				if nc, err := a.dial(); err == nil {
					defer context.AfterFunc(ctx, func() { nc.Close() })()
					io.WriteString(nc, hello(fmt.Sprint("twice", i), 1))
					again(nc, strings.Repeat("{}\n", 1000))
				}
			})
		}},
		{name: "blank lines on 50 connections", run: func(ctx context.Context, a *arena) {
			a.each(ctx, 50, func(_ int, nc net.Conn) { again(nc, strings.Repeat("\n", 64<<10)) })
		}},
		{name: "deep nesting on 20 connections", run: func(ctx context.Context, a *arena) {
			deep := strings.Repeat(`{"a":[`, 4900) + strings.Repeat(`]}`, 4900) + "\n"
			a.each(ctx, 20, func(_ int, nc net.Conn) { again(nc, deep) })
		}},
		{name: "acks that nobody reads on 1,000 connections", run: func(ctx context.Context, a *arena) {
			a.each(ctx, 1000, func(i int, nc net.Conn) {
				io.WriteString(nc, hello(fmt.Sprint("deaf", i), 1))
				for range 100 {
					if _, err := io.WriteString(nc, "{}\n"); err != nil {
						return
					}
				}
			})
		}},
	}
}

// refusedAttacks are those with lines that are refused.
func refusedAttacks() []attack {
	flood := func(n int, text string) func(context.Context, *arena) {
		return func(ctx context.Context, a *arena) {
			a.each(ctx, n, func(_ int, nc net.Conn) { again(nc, text) })
		}
	}
	var varied strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&varied, "{\"n\":%d,%s\n", i, strings.Repeat(" ", i%50))
	}
	return []attack{
		{name: "200 KB of x lines on one connection", run: func(ctx context.Context, a *arena) {
			a.each(ctx, 1, func(_ int, nc net.Conn) { io.WriteString(nc, strings.Repeat("x\n", 100<<10)) })
		}},
		{name: "x lines on 100 connections", run: flood(100, strings.Repeat("x\n", 32<<10))},
		{name: "refused lines that differ on 50 connections", run: flood(50, varied.String())},
		{name: "1 MB of NULs a line on 20 connections", run: flood(20, strings.Repeat("\x00", 1<<20-1)+"\n")},
		{name: "bytes that are no UTF-8 on 20 connections", run: flood(20, strings.Repeat("{\"a\":\""+strings.Repeat("\xff", 60<<10)+"\"}\n", 10))},
		{name: "refusals that are read on 50 connections", run: func(ctx context.Context, a *arena) {
			a.each(ctx, 50, func(i int, nc net.Conn) {
				go io.Copy(io.Discard, nc)
				io.WriteString(nc, hello(fmt.Sprint("refused", i), 1))
				again(nc, varied.String())
			})
		}},
		{name: "refusals that nobody reads on 1,000 connections", run: func(ctx context.Context, a *arena) {
			a.each(ctx, 1000, func(i int, nc net.Conn) {
				io.WriteString(nc, hello(fmt.Sprint("unread", i), 1))
				io.WriteString(nc, varied.String())
			})
		}},
		{name: "redaction that makes records 30 times as long", sources: `  redact: [{pointer: "/a/*", action: Replace, with: "` + strings.Repeat("*", 60) + `"}]`,
			run: flood(50, `{"a":[`+strings.Repeat("0,", 10000)+"0]}\n")},
	}
}
