package httpsink

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/google/uuid"

	"github.com/docket-export/docket/sinks"
)

// Probe implements sinks.Prober with a POST that has everything of a delivery
// except records: its body is empty. So it finds problems of the network,
// proxies, TLS and the receiver, and no record is written.
//
// It succeeds with 2xx, unless that is a page or a challenge, and with an answer that Send takes for a rejection of
// records, mostly 400 and 422. In most protocols an empty body is no batch, and
// a receiver that says so has let the request in. It fails with 413, which says
// that even an empty body is too large. By encoding:
//
//   - ndjson, jsonArray, cloudEvents: the receiver decides what an empty body means;
//     one that stores a line for every request stores an empty line;
//   - otlp in protobuf: 200, for an export of nothing; in JSON 400;
//   - splunkHEC: 400 "No data" follows the check of the token, which else is 401 or 403;
//   - elasticsearchBulk: 400 "request body is required" follows the check of the
//     user. Any other 400 is a URL that is not of the bulk API. Whether the user may
//     write to the index is asked for each record, and therefore not here;
//   - loki: 400 or 204, and 401 without a tenant.
func (c *Config) Probe(ctx context.Context, _ sinks.Env) error {
	s, err := open(c)
	if err != nil {
		return sinks.Failf(sinks.Misconfigured, "open: %w", err)
	}
	defer s.close()
	attempt, cancel := context.WithTimeout(ctx, time.Duration(c.Timeout))
	defer cancel()

	connected := false
	traced := httptrace.WithClientTrace(attempt, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})
	h := s.fixed.Clone()
	h.Del("Content-Encoding")
	h.Set("Docket-Records", "0")
	h.Set("Idempotency-Key", uuid.NewString()) // an answer to it may be remembered
	a, err := s.post(traced, nil, h)
	switch {
	case err != nil && ctx.Err() == nil && attempt.Err() != nil && !connected:
		return sinks.Failf(sinks.Transient, "connect to %s: no connection within %s: check host and port in http.url, and whether a firewall or network policy blocks the way", s.wire.url.Host, c.Timeout)
	case err != nil:
		return err
	case isSuccess(a.res.StatusCode):
		return s.unproven(a)
	case a.res.StatusCode == http.StatusBadRequest && contains(a.body, nothingSent...):
		return nil
	}
	f := sinks.FailureOf(s.judge(a, sinks.Batch{}))
	if f.Kind == sinks.Rejected && a.res.StatusCode != http.StatusRequestEntityTooLarge {
		return nil
	}
	return f
}

// nothingSent are the texts, by which alone it can be told, of a 400 that has
// nothing against a request but that it has no body.
var nothingSent = []string{
	"No data",                  // Splunk
	"request body is required", // Elasticsearch, OpenSearch
}
