package httpsink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"
)

// post posts body and returns the answer. A token that the receiver does not
// take any more is replaced, once. ctx bounds it all. Nothing may write to body afterwards, unless the
// answer is whole: net/http may go on reading it after it has returned an answer or an error.
func (s *sink) post(ctx context.Context, body []byte, h http.Header) (*answer, error) {
	who, err := s.authorize(ctx, h)
	if err != nil {
		return nil, err
	}
	a, err := s.exchange(ctx, body, h, who)
	if err != nil || a.res.StatusCode != http.StatusUnauthorized || who.token == nil || who.fetched {
		return a, err
	}
	s.tokens.drop(who.token)
	h = h.Clone() // net/http may still look at the one before
	if who, err = s.authorize(ctx, h); err != nil {
		return nil, err
	}
	if a, err = s.exchange(ctx, body, h, who); err == nil {
		a.whole = false // the first request may still be read from
	}
	return a, err
}

// exchange makes one request and reads its answer.
func (s *sink) exchange(ctx context.Context, body []byte, h http.Header, who credentials) (*answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := s.ask.Load()
	if asked {
		h.Set("Expect", "100-continue")
	}
	client, err := s.wire.client()
	if err != nil {
		return nil, err
	}
	// Without a version net/http sends Expect, and does not wait for the word.
	again := false
	req := &http.Request{Method: http.MethodPost, URL: s.wire.url, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if len(body) > 0 {
		req.ContentLength, req.Body = int64(len(body)), io.NopCloser(bytes.NewReader(body))
		// For a redirect, and for a connection that turns out to be closed before
		// anything was written to it.
		req.GetBody = func() (io.ReadCloser, error) {
			again = true
			return io.NopCloser(bytes.NewReader(body)), nil
		}
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
	a := readAnswer(res, s.encoding.MaxAnswer, s.answerWait(), cancel)
	a.secrets = slices.Concat(who.secrets, s.secrets)
	a.whole = isSuccess(res.StatusCode) && !again // see wholeRequests
	// 417 is a receiver that does not know of asking.
	if asked && (isSuccess(res.StatusCode) || res.StatusCode == http.StatusExpectationFailed) {
		s.ask.Store(false)
	}
	return a, nil
}

// answerWait is how long the rest of an answer is waited for.
func (s *sink) answerWait() time.Duration {
	if s.encoding.AnswerDecides {
		return time.Duration(s.config.Timeout)
	}
	return drainTime
}
