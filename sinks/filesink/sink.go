package filesink

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/docket-export/docket/sinks"
)

// sink implements sinks.Sink. What Send has accepted is durable.
type sink struct {
	config Config
	log    *slog.Logger
	disk   disk
	store  *store // nil after a failure, and once closed
	buffer *bufio.Writer
}

// Send implements sinks.Sink. A done ctx is seen before the batch is written;
// from then on Send waits for the disk, a few milliseconds as a rule.
func (s *sink) Send(ctx context.Context, b sinks.Batch) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("file sink: not sent: %w", err)
	}
	queue, err := uuid.Parse(b.Queue)
	if err != nil {
		return fmt.Errorf("file sink: queue id %q: %w", b.Queue, err)
	}
	if err := s.ready(); err != nil {
		return failure("open again", err)
	}
	items := s.store.unseen(queue, b.Items)
	if len(items) == 0 {
		return nil
	}
	if s.due(queue, items) {
		if err := s.store.finish(); err != nil {
			return failure("finish the active file", err)
		}
	}
	if err := s.store.append(queue, items, s.buffer); err != nil {
		return failure("append a batch", err)
	}
	return nil
}

// ready opens the store again if something has happened to it. Records of
// before then get no company in their file: see "Failures" in the package
// comment.
func (s *sink) ready() error {
	if s.store != nil && s.store.intact() {
		return nil
	}
	if err := s.reopen(); err != nil {
		return err
	}
	if s.store.position.size > 0 {
		return s.store.finish()
	}
	return nil
}

func (s *sink) reopen() (err error) {
	if s.store != nil {
		// Whatever its files may still report, nothing is believed of them that
		// is not read again.
		_ = s.store.close()
	}
	s.store, err = openStore(s.config.Directory, s.log, s.disk)
	return err
}

// due says whether the active file is to be finished before items are written:
// it belongs to another queue, would grow too large, or is too old.
func (s *sink) due(queue uuid.UUID, items []sinks.Item) bool {
	p, limits := s.store.position, s.config.Rotate
	if p.size == 0 {
		return false
	}
	size := p.size
	for i := range items {
		size += int64(len(items[i].Record)) + 1
	}
	return queue != p.queue ||
		limits.MaxBytes > 0 && size > int64(limits.MaxBytes) ||
		limits.MaxAge > 0 && time.Since(p.opened) >= time.Duration(limits.MaxAge)
}

// Close implements sinks.Sink. The active file stays as it is.
func (s *sink) Close(context.Context) error {
	if s.store == nil {
		return nil
	}
	err := s.store.close()
	s.store = nil
	if err != nil {
		return failure("close", err)
	}
	return nil
}
