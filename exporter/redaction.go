package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/docket-export/docket/exporter/redact"
	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/sources"
)

// redaction applies the rules of one source before anything is stored.
type redaction struct {
	redactor       *redact.Redactor
	maxRecordBytes int
	log            *slog.Logger
	said           outage.Log // never over: records that no rule concerns are redacted meanwhile
}

// newRedaction returns the redaction of a source, nil when it has no rules.
func newRedaction(s SourceConfig, maxRecordBytes int, log *slog.Logger) (*redaction, error) {
	redactor, err := redact.New(s.Redact)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", s.Name, err)
	}
	if redactor == nil {
		return nil, nil
	}
	return &redaction{redactor: redactor, maxRecordBytes: maxRecordBytes, log: log.With("source", s.Name)}, nil
}

// Append implements sources.Redaction.
func (r *redaction) Append(dst, record []byte) ([]byte, error) {
	dst, err := r.redactor.Append(dst, record, r.maxRecordBytes)
	if errors.Is(err, redact.ErrTooLarge) {
		err = sources.ErrOutgrown
	}
	return dst, err
}

// append appends the redacted record to dst. With a reason dst comes back as it
// was, and the record is to be refused.
func (r *redaction) append(dst, record []byte) (appended []byte, reason sources.Reason, detail string) {
	dst, err := r.Append(dst, record)
	switch {
	case errors.Is(err, sources.ErrOutgrown):
		return dst, sources.TooLarge, fmt.Sprintf("record of %d bytes exceeds the limit of %d bytes after redaction", len(record), r.maxRecordBytes)
	case err != nil:
		r.failed(err)
		return dst, sources.Unredactable, err.Error()
	}
	return dst, "", ""
}

// failed logs an error when it is news: each record may meet it again.
func (r *redaction) failed(err error) {
	if r.said.Fails(err.Error()) {
		r.log.Error("records cannot be redacted and are refused: they are lost unless their producer keeps them", "error", err)
	}
}

// maxSpareBytes is the largest buffer that is kept for later chunks: sources rarely
// submit more at a time.
const maxSpareBytes = 1 << 20

// maxRedacting is how many chunks are redacted at a time, or wait for the queue.
const maxRedacting = 4

// spareBuffers lends the buffers that redacted records are written to, a few at a time.
type spareBuffers struct {
	pool  sync.Pool
	turns chan struct{} // holds one for each buffer that is lent
}

func newSpareBuffers() spareBuffers { return spareBuffers{turns: make(chan struct{}, maxRedacting)} }

// wait waits until a buffer may be lent, or ctx is done. next is to be called then.
func (b *spareBuffers) wait(ctx context.Context) error {
	select {
	case b.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// next lets the next one have a buffer.
func (b *spareBuffers) next() { <-b.turns }

func (b *spareBuffers) lend() *[]byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return buf
	}
	return new([]byte)
}

func (b *spareBuffers) giveBack(buf *[]byte) {
	if buf != nil && cap(*buf) <= maxSpareBytes {
		*buf = (*buf)[:0]
		b.pool.Put(buf)
	}
}
