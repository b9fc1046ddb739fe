// Command engine stands for a policy engine: it sends numbered records to docket, one after the
// other, and prints a line "acked PRODUCER/RUN/N" for each that docket has on disk.
// The text between the blanks is the requestUID of the record.
//
// It prints "sent" when it has sent as many as it should, and waits. Told to stop by SIGTERM it prints
// so, goes on for the time of -linger, as an engine does that answers what it has begun, and prints
// "end" with the number of records that docket has not acknowledged.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

type options struct {
	address       string
	every, linger time.Duration
	count, size   int
	deaf          bool
}

func main() {
	var o options
	flag.StringVar(&o.address, "address", "unix:///run/docket/docket.sock", "where docket listens")
	flag.DurationVar(&o.every, "every", 10*time.Millisecond, "between two records")
	flag.DurationVar(&o.linger, "linger", 0, "how long it goes on after SIGTERM")
	flag.IntVar(&o.count, "count", 0, "how many records; 0: until SIGTERM")
	flag.IntVar(&o.size, "size", 100, "bytes of the message of a record")
	flag.BoolVar(&o.deaf, "deaf", false, "ignore SIGTERM")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	c, err := client.New(client.Config{Address: o.address, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	var stop <-chan time.Time
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	began, message := time.Now().UnixNano(), strings.Repeat("x", o.size)
	for n := 1; ; n++ {
		if o.count > 0 && n > o.count {
			tick.Stop() // from now on it waits for its end
			fmt.Println("sent")
		} else {
			send(c, &decision.Record{
				Decision: decision.Deny, Process: decision.Admission, Timestamp: time.Now(), Message: message,
				RequestUID: fmt.Sprintf("%s/%x/%d", host, began, n),
			})
		}
		select {
		case <-tick.C:
		case <-stop:
			return end(c)
		case <-term:
			fmt.Println("SIGTERM")
			if !o.deaf && stop == nil {
				stop = time.After(o.linger)
			}
		}
	}
}

// send sends a record and says whether docket has it on disk.
func send(c *client.Client, r *decision.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Log(ctx, r); err != nil {
		fmt.Println("not acked", r.RequestUID, err)
		return
	}
	fmt.Println("acked", r.RequestUID)
}

func end(c *client.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	left, err := c.Close(ctx)
	fmt.Println("end", left)
	return err
}
