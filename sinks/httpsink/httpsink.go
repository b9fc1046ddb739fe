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
// except in late batches. With maxInFlight above 1 batches have no order, and
// the highest number says nothing.
//
// kindOf says what each status means for the batch.
package httpsink

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/httpsink/encoding"
)

// sink implements sinks.Sink. Sends may overlap: what one needs for itself is in
// its buffers.
type sink struct {
	config   *Config
	encoding encoding.Encoding
	wire     *connection
	tokens   *tokenSource // nil without OAuth2
	fixed    http.Header  // of every request; not changed after open
	secrets  []string     // in the URL
	free     chan *buffers

	// ask makes requests wait for a word of the receiver before they send the
	// body. A receiver that refuses a body without reading it, as too large say,
	// closes the connection, and its answer is often lost with it; asked first, it
	// is heard. Set by a receiver that hung up, cleared by an acceptance.
	ask atomic.Bool
}

// buffers are what one Send needs, kept for a next one.
type buffers struct {
	plain      []byte // the batch as the encoding writes it
	compressed []byte
	key        []byte     // what batchKey hashes
	compressor compressor // nil for none
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
	u.RawQuery = withQuery(u, e.Query())
	wire, err := newConnection(peer{
		url: u, urlKey: "http.url", tlsKey: "http.tls", action: "post to",
		tls: c.TLS, timeout: time.Duration(c.Timeout), inFlight: c.InFlight,
	})
	if err != nil {
		return nil, err
	}
	s := &sink{config: c, encoding: e, wire: wire, fixed: fixedHeader(c, e), secrets: secrets, free: make(chan *buffers, c.InFlight)}
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
	buf, err := s.borrow()
	if err != nil {
		return err
	}
	defer s.giveBack(buf)
	body, err := buf.encode(s.encoding, b)
	if err != nil {
		return err
	}
	attempt, cancel := context.WithTimeout(ctx, time.Duration(s.config.Timeout))
	defer cancel()
	a, err := s.post(attempt, body, s.batchHeader(b, buf))
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	return s.judge(a, b)
}

// borrow returns buffers that nobody uses.
func (s *sink) borrow() (*buffers, error) {
	select {
	case buf := <-s.free:
		return buf, nil
	default:
	}
	c, err := newCompressor(s.config.Compression, s.config.CompressionLevel)
	if err != nil {
		return nil, err
	}
	return &buffers{compressor: c}, nil
}

// maxSpare is the largest buffer that is kept: a batch of the default size, or what
// compression may make of one large record, is less.
const maxSpare = 4 << 20

// giveBack keeps buf for a later borrow.
func (s *sink) giveBack(buf *buffers) {
	if cap(buf.plain) > maxSpare {
		buf.plain = nil
	}
	if cap(buf.compressed) > maxSpare {
		buf.compressed = nil
	}
	select {
	case s.free <- buf:
	default: // there are enough
	}
}

// encode returns the body of the request for b. It is valid until the next call, and
// no longer than b.
func (buf *buffers) encode(e encoding.Encoding, b sinks.Batch) (body []byte, err error) {
	plain := e.Verbatim(b)
	if plain == nil {
		if buf.plain, err = e.Append(buf.plain[:0], b); err != nil {
			return nil, err
		}
		plain = buf.plain
	}
	if buf.compressor == nil {
		return plain, nil
	}
	buf.compressed, err = buf.compressor.compress(buf.compressed[:0], plain)
	return buf.compressed, err
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
