package httpsink

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/httpsink/encoding"
)

// withQuery returns the query of u with the parameters of more that it has not.
func withQuery(u *url.URL, more string) string {
	has, extra := u.Query(), url.Values{}
	wants, _ := url.ParseQuery(more) // written by package encoding, whose tests parse it
	for name, values := range wants {
		if !has.Has(name) {
			extra[name] = values
		}
	}
	switch {
	case len(extra) == 0:
		return u.RawQuery
	case u.RawQuery == "":
		return extra.Encode()
	}
	return u.RawQuery + "&" + extra.Encode()
}

// fixedHeader is what every request of a sink has in common.
func fixedHeader(c *Config, e encoding.Encoding) http.Header {
	h := http.Header{}
	for name, value := range c.Headers {
		h.Set(name, value)
	}
	h.Set("Content-Type", e.ContentType())
	h.Set("User-Agent", "docket")
	if c.Compression != compressNone {
		h.Set("Content-Encoding", c.Compression)
	}
	if e.AnswerDecides() {
		h.Set("Accept-Encoding", "gzip") // it may be as long as the batch
	}
	return h
}

// batchHeader is the header of the request for b, but for what shows who we are.
func (s *sink) batchHeader(b sinks.Batch, buf *buffers) http.Header {
	h := maps.Clone(s.fixed)
	h["Docket-Queue"] = []string{b.Queue}
	h["Docket-First-Seq"] = []string{strconv.FormatUint(b.Items[0].Seq, 10)}
	h["Docket-Last-Seq"] = []string{strconv.FormatUint(b.Items[len(b.Items)-1].Seq, 10)}
	h["Docket-Records"] = []string{strconv.Itoa(len(b.Items))}
	h["Idempotency-Key"] = []string{batchKey(b, buf)}
	for i := range b.Items {
		if late := b.Items[i].Late; late != sinks.OnTime {
			h["Docket-Late"] = []string{string(late)}
			break
		}
	}
	return h
}

// batchKey names the records of b and how late they are: 32 hexadecimal digits of
// a SHA-256. The same records have the same key at every attempt and after a
// restart. First and last seq would not do: when one record has been set aside,
// others remain between the same two. Records that are replayed or redriven have
// another key than before, since a receiver that remembers keys would keep them
// out, or answer as it did when it refused them. When the same records are
// redriven once more, the key is that of their first redrive.
func batchKey(b sinks.Batch, buf *buffers) string {
	buf.key = append(buf.key[:0], b.Queue...)
	for i := range b.Items {
		late := b.Items[i].Late
		buf.key = binary.BigEndian.AppendUint64(buf.key, b.Items[i].Seq)
		buf.key = append(buf.key, byte(len(late)))
		buf.key = append(buf.key, late...)
	}
	sum := sha256.Sum256(buf.key)
	return hex.EncodeToString(sum[:16])
}

// post posts body and returns the answer. A token that the receiver does not
// take any more is replaced, once. ctx bounds it all. body is the caller's again
// when post returns.
func (s *sink) post(ctx context.Context, body []byte, h http.Header) (*answer, error) {
	lent := newPayload(body)
	defer lent.release()
	who, err := s.authorize(ctx, h)
	if err != nil {
		return nil, err
	}
	a, err := s.exchange(ctx, lent, h, who)
	if err != nil || a.res.StatusCode != http.StatusUnauthorized || who.token == nil || who.fetched {
		return a, err
	}
	s.tokens.drop(who.token)
	h = h.Clone() // net/http may still look at the one before
	if who, err = s.authorize(ctx, h); err != nil {
		return nil, err
	}
	return s.exchange(ctx, lent, h, who)
}

// exchange makes one request and reads its answer.
func (s *sink) exchange(ctx context.Context, lent *payload, h http.Header, who credentials) (*answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if g := s.config.Signature; g != nil {
		if err := g.sign(h, h.Get("Idempotency-Key"), time.Now(), lent.data); err != nil {
			return nil, err
		}
	}
	asked := s.ask.Load()
	if asked {
		h.Set("Expect", "100-continue")
	}
	client, err := s.wire.renewed()
	if err != nil {
		return nil, err
	}
	// Without a version net/http sends Expect, and does not wait for the word.
	req := &http.Request{Method: http.MethodPost, URL: s.wire.url, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if len(lent.data) > 0 {
		req.ContentLength, req.Body = int64(len(lent.data)), lent.body()
		// For a redirect, and for a connection that turns out to be closed before
		// anything was written to it.
		req.GetBody = lent.again
	}
	res, err := client.Do(req.WithContext(ctx))
	if err != nil {
		switch {
		case hungUp(err):
			s.ask.Store(true)
		case errors.Is(err, errNotWhole):
			s.ask.Store(false) // that word may have been a 2xx
		}
		return nil, s.wire.unanswered(ctx, err)
	}
	a := readAnswer(res, max(maxAnswer, s.encoding.MaxAnswer()), s.answerWait(), cancel)
	a.secrets = slices.Concat(who.secrets, s.secrets)
	// 417 is a receiver that does not know of asking.
	if asked && (isSuccess(res.StatusCode) || res.StatusCode == http.StatusExpectationFailed) {
		s.ask.Store(false)
	}
	return a, nil
}

// answerWait is how long the rest of an answer is waited for.
func (s *sink) answerWait() time.Duration {
	if s.encoding.AnswerDecides() {
		return time.Duration(s.config.Timeout)
	}
	return drainTime
}
