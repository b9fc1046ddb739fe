package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	receiveCommand  = "receive"
	postLoopCommand = "postloop"
	// requestWait bounds one request, however busy the machine is.
	requestWait = 10 * time.Second
)

// serveHTTP is the least that a receiver does: it reads the body and says 200.
func serveHTTP(l net.Listener, c *counter) (stop func(), err error) {
	server := &http.Server{ReadHeaderTimeout: requestWait, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := readBody(r)
		if err != nil || n%recordBytes != 0 {
			http.Error(w, fmt.Sprintf("%d bytes are no records: %v", n, err), http.StatusBadRequest)
			return
		}
		c.add(n / recordBytes)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // until it is closed
	}()
	return func() {
		_ = server.Close()
		<-served
	}, nil
}

// readBody reads the body in large pieces and returns its size.
func readBody(r *http.Request) (size int, err error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Body.Read(buf)
		size += n
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
	}
}

// postLoop is the plain program: each of its goroutines posts the same body again
// and again, one at a time, on a connection of its own that stays open.
type postLoop struct {
	url      string
	loops    int // goroutines
	perBatch int // records in a body
	batches  int // of all loops together
}

// postLoop runs the loop in a process of its own.
func (l *lab) postLoop(ctx context.Context, o postLoop) (produced, error) {
	var p produced
	out, err := l.run(ctx, postLoopCommand, "-url", o.url, "-loops", strconv.Itoa(o.loops),
		"-batch", strconv.Itoa(o.perBatch), "-batches", strconv.Itoa(o.batches))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(out, &p)
}

// postLoopMain is such a process.
func postLoopMain(ctx context.Context, args []string, out io.Writer) error {
	var o postLoop
	flags := flag.NewFlagSet(postLoopCommand, flag.ContinueOnError)
	flags.StringVar(&o.url, "url", "", "")
	flags.IntVar(&o.loops, "loops", 1, "")
	flags.IntVar(&o.perBatch, "batch", 1, "")
	flags.IntVar(&o.batches, "batches", 1, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p, err := o.run(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(p)
}

func (o postLoop) run(ctx context.Context) (produced, error) {
	ctx, cancel := context.WithTimeout(ctx, produceWait)
	defer cancel()
	body := commitOf(float64(o.perBatch))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = o.loops // or those above two would be closed after each post
	transport.MaxConnsPerHost = o.loops     // or it dials one more when none is idle for a moment
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: requestWait}
	p, err := timed(o.loops, func(i int) error {
		for batch := i; batch < o.batches; batch += o.loops {
			if err := postOnce(ctx, client, o.url, body); err != nil {
				return err
			}
		}
		return nil
	})
	p.Records = o.batches * o.perBatch
	return p, err
}

func postOnce(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the receiver says %s", res.Status)
	}
	return nil
}
