package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/process"
)

const (
	opaConnections = 4
	opaPerBody     = 250 // some 32 KB compressed
)

// opaEvent is a decision as OPA logs it, with what makes each unlike the others.
const opaEvent = `{"labels":{"id":"7c1e5a64-38f5-4c5b-8c39-0b1f0e2c7f11","version":"1.22.0"},"decision_id":"773fe343-3d33-4dc3-b31d-%012d",` +
	`"bundles":{"main":{"revision":"4f2c1b"}},"path":"k8s/admission/allow","input":{"request":{"uid":"0b6f1c1e-5a0e-4a57-9a55-%012[1]d","kind":{"group":"","version":"v1","kind":"Pod"},` +
	`"namespace":"shop","name":"cart-%[1]d","operation":"CREATE","userInfo":{"username":"alice@example.com","groups":["developers","system:authenticated"]},` +
	`"object":{"metadata":{"name":"cart-%[1]d","labels":{"app":"cart","tier":"backend"}},"spec":{"containers":[{"name":"main","image":"registry.example.test/cart:1.%[1]d","resources":{"limits":{"cpu":"500m","memory":"256Mi"}}}]}}}},` +
	`"result":false,"requested_by":"127.0.0.1:39190","timestamp":"2026-01-05T10:04:07.377551896Z","metrics":{"timer_rego_query_eval_ns":80351,"timer_server_handler_ns":510851},"req_id":%[1]d}`

// opaBody is one upload.
type opaBody struct {
	compressed []byte
	size       int // decompressed
}

func newOPABody(first int) (opaBody, error) {
	var text bytes.Buffer
	for i := range opaPerBody {
		text.WriteByte("[,"[min(i, 1)])
		fmt.Fprintf(&text, opaEvent, first+i)
	}
	text.WriteString("]\n")
	size := text.Len()
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := text.WriteTo(w); err != nil {
		return opaBody{}, err
	}
	if err := w.Close(); err != nil {
		return opaBody{}, err
	}
	return opaBody{compressed.Bytes(), size}, nil
}

// opa posts decisions to docket.
func (l *lab) opa(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	bodies := make([]opaBody, l.records/opaPerBody)
	total := 0
	for i := range bodies {
		if bodies[i], err = newOPABody(i * opaPerBody); err != nil {
			return nil, err
		}
		total += bodies[i].size
	}
	s, err := l.startHeld(ctx, dir, fmt.Sprintf(`- {name: opa, opa: {address: %q}}`, address), "GOMAXPROCS=1")
	if err != nil {
		return nil, err
	}
	defer s.kill()
	defer s.profile(ctx)()
	before, err := s.CPUTime()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := postAll(ctx, "http://"+address+"/logs", bodies); err != nil {
		return nil, errors.Join(err, s.LastWords())
	}
	took := time.Since(began)
	after, err := s.CPUTime()
	if err != nil {
		return nil, err
	}
	events, cpu := len(bodies)*opaPerBody, (after - before).Seconds()
	if err := s.waitStored(ctx, events); err != nil {
		return nil, err
	}
	return map[string]float64{
		"rate": float64(total) / 1e6 / took.Seconds(), "events": float64(events) / took.Seconds(),
		"cpuRate": float64(total) / 1e6 / cpu, "cpu": cpu / float64(events) * 1e6,
	}, nil
}

// postAll posts the bodies over several connections; each must be answered 2xx.
func postAll(ctx context.Context, url string, bodies []opaBody) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: opaConnections}}
	defer client.CloseIdleConnections()
	errs := make([]error, opaConnections)
	var posting sync.WaitGroup
	for c := range opaConnections {
		posting.Go(func() {
			for i := c; i < len(bodies) && errs[c] == nil; i += opaConnections {
				errs[c] = post(ctx, client, url, bodies[i].compressed)
			}
		})
	}
	posting.Wait()
	return errors.Join(errs...)
}

func post(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("answered %s: %s", resp.Status, said)
	}
	return err
}
