package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/docket-export/docket/bench/record"
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
		if err != nil || n%record.Bytes != 0 {
			http.Error(w, fmt.Sprintf("%d bytes are no records: %v", n, err), http.StatusBadRequest)
			return
		}
		c.add(n / record.Bytes)
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
	URL      string
	Loops    int // goroutines
	PerBatch int // records in a body
	Batches  int // of all loops together
}

func (o postLoop) run(ctx context.Context) (produced, error) {
	ctx, cancel := context.WithTimeout(ctx, produceWait)
	defer cancel()
	body := commitOf(float64(o.PerBatch))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = o.Loops // or those above two would be closed after each post
	transport.MaxConnsPerHost = o.Loops     // or it dials one more when none is idle for a moment
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: requestWait}
	p, err := timed(o.Loops, func(i int) error {
		for batch := i; batch < o.Batches; batch += o.Loops {
			if err := postOnce(ctx, client, o.URL, body); err != nil {
				return err
			}
		}
		return nil
	})
	p.Records = o.Batches * o.PerBatch
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
