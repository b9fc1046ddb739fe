// Package httpsink posts batches to an HTTP receiver.
//
// A batch is one POST of newline-delimited JSON (application/x-ndjson): each
// record byte for byte, then "\n". Any 2xx answer means that the receiver has
// accepted every record. Four headers let it recognise a redelivery:
//
//	docket-queue      UUID of the queue, the first half of every record id
//	docket-first-seq  number of the first record
//	docket-last-seq   number of the last record
//	docket-records    how many records; seqs rise but may have gaps
//
// The guarantee is at least once, in order: when an answer is lost, or says
// anything but 2xx, the same records come again under the same numbers, perhaps
// with more behind them. A receiver that remembers the highest docket-last-seq
// it has stored for a docket-queue can drop what it knows.
//
// What each status means for the batch stands at kindOf.
package httpsink

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/docket-export/docket/sinks"
)

// sink implements sinks.Sink. Its fields are owned by Send.
type sink struct {
	config    *Config
	url       *url.URL
	client    *http.Client
	caVersion string // of the CAs that client trusts
	buf       []byte // one batch as NDJSON, lent to a payload during Send
}

func open(c *Config) (sinks.Sink, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("http.url cannot be parsed") // err would show it
	}
	s := &sink{config: c, url: u}
	if err := s.connect(); err != nil {
		return nil, err
	}
	return s, nil
}

// connect gives s a new client, and with it the CAs that are in the file now.
func (s *sink) connect() error {
	var version string
	if s.config.TLS != nil {
		version = s.config.TLS.CAVersion()
	}
	transport, err := newTransport(s.config.TLS)
	if err != nil {
		return err
	}
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	s.client = &http.Client{Transport: transport, CheckRedirect: stayOnServer}
	s.caVersion = version
	return nil
}

// renew connects anew when the CA file has changed.
func (s *sink) renew() error {
	if s.config.TLS == nil || s.config.TLS.CAVersion() == s.caVersion {
		return nil
	}
	if err := s.connect(); err != nil {
		return sinks.Failf(sinks.Misconfigured, "connect anew because http.tls.caFile has changed: %w", err)
	}
	return nil
}

// Send implements sinks.Sink with one POST.
func (s *sink) Send(ctx context.Context, b sinks.Batch) error {
	if err := s.renew(); err != nil {
		return err
	}
	attempt, cancel := context.WithTimeout(ctx, time.Duration(s.config.Timeout))
	defer cancel()

	s.buf = appendNDJSON(s.buf[:0], b)
	lent := &payload{data: s.buf}
	defer lent.release()
	req := s.request(attempt, b, lent)
	token, err := s.authorize(req)
	if err != nil {
		return err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return s.unanswered(ctx, attempt, err)
	}
	body := drain(res, cancel)
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return nil
	}
	return failure(res, body, []string{token, s.url.RawQuery})
}

func (s *sink) request(ctx context.Context, b sinks.Batch, lent *payload) *http.Request {
	first, last := b.Items[0].Seq, b.Items[len(b.Items)-1].Seq
	req := &http.Request{
		Method: http.MethodPost,
		URL:    s.url,
		Header: http.Header{
			"Content-Type":     {"application/x-ndjson"},
			"User-Agent":       {"docket"},
			"Docket-Queue":     {b.Queue},
			"Docket-First-Seq": {strconv.FormatUint(first, 10)},
			"Docket-Last-Seq":  {strconv.FormatUint(last, 10)},
			"Docket-Records":   {strconv.Itoa(len(b.Items))},
		},
		ContentLength: int64(len(lent.data)),
		Body:          lent.body(),
		// For a redirect, and for a connection that turns out to be closed
		// before anything was written to it.
		GetBody: lent.again,
	}
	return req.WithContext(ctx)
}

// authorize adds the bearer token, if one is configured, and returns it.
func (s *sink) authorize(req *http.Request) (string, error) {
	if s.config.BearerTokenFile == "" {
		return "", nil
	}
	token, err := s.config.BearerTokenFile.Read()
	if err != nil {
		return "", sinks.Failf(sinks.Misconfigured, "http.bearerTokenFile: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return token, nil
}

// Close implements sinks.Sink.
func (s *sink) Close(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}
