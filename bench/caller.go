package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/trial"
)

// caller asks a webhook for verdicts, as the API server does.
type caller struct {
	client *http.Client
	url    string
	loose  bool // the words of an answer do not count, only what it decides
}

// newCaller makes a caller of the webhook at address, whose certificate is in dir. It
// speaks HTTP/2 alone, or else HTTP/1.1 alone.
func newCaller(t *trial.T, dir, address string, http2 bool) *caller {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{
		TLSClientConfig:     trusting(dir),
		Protocols:           protocols,
		MaxIdleConnsPerHost: pacers, // or a connection would be closed that the next review needs
	}
	t.Cleanup(func() error { transport.CloseIdleConnections(); return nil })
	return &caller{&http.Client{Transport: transport, Timeout: load.Wait}, "https://" + address + "/v1/admit?timeout=10s", false}
}

// trusting is for connections to servers whose certificate is in dir.
func trusting(dir string) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trial.Must(os.ReadFile(filepath.Join(dir, "tls.crt"))))
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// ask returns an error unless the answer is that of the engine.
func (c *caller) ask(ctx context.Context, r review) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(r.request))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || !c.expected(text, r.answer)) {
		err = fmt.Errorf("the answer to a review is %s: %.200s", res.Status, text)
	}
	return err
}

func (c *caller) expected(got, want []byte) bool {
	refused := []byte(`"allowed":false`)
	return bytes.Equal(got, want) || c.loose && bytes.Contains(got, refused) == bytes.Contains(want, refused)
}

// await returns when the webhook answers.
func (c *caller) await(t *trial.T) {
	r := newReview(reviewBytes, false)
	t.Poll("for "+c.url, askPause, readyWait, func() bool { return c.ask(t.Context(), r) == nil })
}

// pace asks n times, and returns how long each answer took.
type pace func(n int, ask func(i int) error) ([]time.Duration, error)

// pacers is how many reviews can be under way at a steady rate.
const pacers = 64

// steadily asks so many times a second. The clock of each review starts when it is due: one
// that waits because others are slow has waited.
func steadily(rate int) pace {
	return func(n int, ask func(i int) error) ([]time.Duration, error) {
		began := time.Now()
		return share(pacers, n, func(i int) (time.Time, error) {
			due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
			sleepUntil(due)
			return due, ask(i)
		})
	}
}

// sleepUntil is exact where a timer of Go may be a millisecond late.
func sleepUntil(due time.Time) {
	for {
		left := unix.NsecToTimespec(int64(time.Until(due)))
		if left.Nano() <= 0 || unix.Nanosleep(&left, nil) == nil { // else a signal has come
			return
		}
	}
}

// atOnce has so many clients ask, each again when it has its answer.
func atOnce(clients int) pace {
	return func(n int, ask func(i int) error) ([]time.Duration, error) {
		return share(clients, n, func(i int) (time.Time, error) { return time.Now(), ask(i) })
	}
}

// share has each of some workers make its share of n calls, one after the other, and
// returns how long each took since the time that it returns.
func share(workers, n int, call func(i int) (since time.Time, err error)) ([]time.Duration, error) {
	waits, errs := make([]time.Duration, n), make([]error, workers)
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				var since time.Time
				since, errs[w] = call(i)
				waits[i] = time.Since(since)
			}
		})
	}
	running.Wait()
	return waits, errors.Join(errs...)
}
