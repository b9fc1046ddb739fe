// Package httpsink posts batches to an HTTP receiver.
//
// A batch is one POST. How it becomes a request body, and what an answer in the
// receiver's protocol says about single records, is package encoding's; with the
// encodings ndjson and jsonArray the body is the records, byte for byte. Headers
// let a receiver recognise a redelivery:
//
//	docket-queue      UUID of the start of the queue, the first half of every record id
//	docket-first-seq  number of the first record
//	docket-last-seq   number of the last record
//	docket-records    how many records; seqs rise but may have gaps
//	docket-late       Replayed or Redriven, when a record of the batch may come
//	                  after records with higher numbers; else it is not there
//	idempotency-key   the same for the same records, see batchKey
//
// The guarantee is at least once, in order: when an answer is lost, or does not
// say that all records were accepted, the same records come again under the same
// numbers, perhaps with more behind them. A receiver that remembers the highest
// docket-last-seq it has stored for a docket-queue can drop records up to it,
// except in late batches.
//
// kindOf says what each status means for the batch.
package httpsink

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/httpsink/encoding"
)

// sink implements sinks.Sink.
type sink struct {
	config   *Config
	encoding encoding.Encoding
	wire     *connection
	tokens   *tokenSource // nil without OAuth2
	fixed    http.Header  // of every request; not changed after open
	secrets  []string     // in the URL
	compress compressor   // nil for none
	spares   chan []byte  // bodies that nobody reads any more

	// ask makes requests wait for a word of the receiver before they send the
	// body. A receiver that refuses a body without reading it, as too large say,
	// closes the connection, and its answer is often lost with it; asked first, it
	// is heard. Set by a receiver that hung up, cleared by an acceptance.
	ask atomic.Bool
}

func open(c *Config) (*sink, error) {
	e, err := encoding.New(c.Encoding, c.Config)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("http.url cannot be parsed") // err would show it
	}
	secrets := urlSecrets(u)
	if e.FilterPath != "" && !u.Query().Has("filter_path") {
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&filter_path="+e.FilterPath, "&")
	}
	wire, err := newConnection(peer{
		url: u, urlKey: "http.url", tlsKey: "http.tls", action: "post to",
		tls: c.TLS, timeout: time.Duration(c.Timeout),
	})
	if err != nil {
		return nil, err
	}
	s := &sink{config: c, encoding: e, wire: wire, fixed: fixedHeader(c, e), secrets: secrets, spares: make(chan []byte, 1)}
	if s.compress, err = newCompressor(c.Compression, c.CompressionLevel); err != nil {
		return nil, err
	}
	if c.OAuth2 != nil {
		if s.tokens, err = newTokenSource(c.OAuth2, time.Duration(c.Timeout)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Send implements sinks.Sink with one POST, or two when the first shows that an
// OAuth2 token is no longer good.
func (s *sink) Send(ctx context.Context, b sinks.Batch) error {
	if len(b.Items) == 0 {
		return nil
	}
	body, err := s.encode(b)
	if err != nil {
		return err
	}
	attempt, cancel := context.WithTimeout(ctx, time.Duration(s.config.Timeout))
	defer cancel()
	a, err := s.post(attempt, body, s.batchHeader(b))
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	if a.whole && s.compress == nil {
		s.keep(body)
	}
	return s.judge(a, b)
}

// encode returns the body of the request for b, which is nobody else's.
func (s *sink) encode(b sinks.Batch) ([]byte, error) {
	plain, err := s.encoding.Append(s.spare(b.Size()+b.Size()/8+64*len(b.Items)), b) // with room for what an encoding adds
	if err != nil || s.compress == nil {
		return plain, err
	}
	defer s.keep(plain)
	return s.compress(plain)
}

// maxSpare is the largest body that is kept: one of a batch of the default size is less.
const maxSpare = 4 << 20

// spare returns an empty body with room for size bytes. To make one for each batch would take
// half of the time of a delivery.
func (s *sink) spare(size int) []byte {
	select {
	case body := <-s.spares:
		if cap(body) >= size {
			return body[:0]
		}
	default:
	}
	return make([]byte, 0, size)
}

// keep keeps a body that nobody reads any more for a later batch.
func (s *sink) keep(body []byte) {
	if cap(body) > maxSpare {
		return
	}
	select {
	case s.spares <- body:
	default: // there are enough
	}
}

// Close implements sinks.Sink.
func (s *sink) Close(context.Context) error {
	s.close()
	return nil
}

func (s *sink) close() {
	s.wire.close()
	if s.tokens != nil {
		s.tokens.wire.close()
	}
}
