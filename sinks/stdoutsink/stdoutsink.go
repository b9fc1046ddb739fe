// Package stdoutsink is the sink "stdout": it writes records to standard output,
// one a line. It is for trying out: accepted means that the write has returned,
// and a redelivery is written again.
package stdoutsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Definition is the sink "stdout". Its batches do not wait: a person is watching.
var Definition = sinks.Definition{
	Kind:      "stdout",
	Batch:     sinks.BatchLimits{MaxRecords: 500, MaxBytes: 1 << 20},
	NewConfig: func() sinks.Config { return &Config{} },
	Sample: `# Standard output, for trying out.
- name: NAME
  #when: record.enforcementAction == "deny"   # only these records; without it, all
  stdout: {}
`,
}

// Config is the section "stdout" of a sink. It has no fields.
type Config struct{}

// Validate implements sinks.Config.
func (*Config) Validate() config.Problems { return nil }

// Open opens a sink on standard output, through a descriptor of its own: a
// write to descriptor 1 whose reader is gone would end the process, and with it
// every other sink.
func (*Config) Open(context.Context, sinks.Env) (sinks.Sink, error) {
	fd, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, sinks.Failf(sinks.Misconfigured, "stdout sink: open standard output: %w: start docket with a standard output", err)
	}
	return newSink(os.NewFile(uintptr(fd), "stdout")), nil
}

// sink implements sinks.Sink.
type sink struct {
	out   io.WriteCloser
	lines bytes.Buffer // of the batch at work; owned by write while that runs

	// writing receives the result of a write that a cancelled Send has left
	// behind, because nothing can end it; nil when there is none.
	writing chan error
	torn    bool // the last write ended within a line
	closed  bool
}

func newSink(out io.WriteCloser) *sink { return &sink{out: out} }

// Send implements sinks.Sink: one write for the whole batch. When ctx is done
// before a reader has taken the batch, Send returns and the write continues.
// The next Send first waits for this write, and returns its failure as its own.
func (s *sink) Send(ctx context.Context, b sinks.Batch) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	s.lines.Reset()
	if s.torn {
		s.lines.WriteByte('\n') // the rest of a line must not swallow a record
	}
	for _, it := range b.Items {
		s.lines.Write(it.Record)
		s.lines.WriteByte('\n')
	}
	s.writing = make(chan error, 1)
	go s.write(s.writing)
	return s.wait(ctx)
}

// write writes the lines. Send and Close touch nothing of s but writing before
// they have received the result.
func (s *sink) write(result chan<- error) {
	n, err := s.out.Write(s.lines.Bytes())
	if n > 0 {
		s.torn = s.lines.Bytes()[n-1] != '\n'
	}
	result <- err
}

// wait returns once no write is at work, with the failure of the last one, or
// when ctx is done.
func (s *sink) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stdout sink: %w", err)
	}
	if s.writing == nil {
		return nil
	}
	select {
	case err := <-s.writing:
		s.writing = nil
		return failure(err)
	case <-ctx.Done():
		return fmt.Errorf("stdout sink: write: the reader does not read: %w", ctx.Err())
	}
}

func failure(err error) error {
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EBADF) {
		return sinks.Failf(sinks.Misconfigured,
			"stdout sink: %w: the reader is gone: start docket with a reader, or remove the sink", err)
	}
	if err != nil {
		return fmt.Errorf("stdout sink: %w", err)
	}
	return nil
}

// Close implements sinks.Sink. Close gives up a write that no reader takes when
// ctx is done.
func (s *sink) Close(ctx context.Context) error {
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.wait(ctx)
	return errors.Join(err, s.out.Close())
}
