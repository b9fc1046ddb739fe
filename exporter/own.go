package exporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sinks"
)

// ownSource is the source of the records that docket makes itself: of gaps in the
// lines of a producer, and of finished files of an export. No configured source can
// have this name.
const ownSource = sinks.OwnSource

// ownRecords stores records that docket makes itself. They count as received and
// stored, have a seq, and go to every sink, as any record does.
type ownRecords struct{ queue *queue.Queue }

// put stores record, whose JSON is one object. It returns nil once the record is
// durable, and blocks while the queue takes no more. Errors: those of Queue.Append,
// or that of ctx; the record may be stored all the same then. Calls may overlap.
func (o *ownRecords) put(ctx context.Context, record any) error {
	durable := make(chan struct{})
	if err := o.append(ctx, record, func() { close(durable) }); err != nil {
		return err
	}
	select {
	case <-durable:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("docket's own record: %w", context.Cause(ctx))
	}
}

// append is put without the waiting. A chunk that is appended to the queue later is not
// durable before record is. After an error record is not stored.
func (o *ownRecords) append(ctx context.Context, record any, durable func()) error {
	line, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("docket's own record: encode: %w", err)
	}
	chunk := queue.Chunk{Source: ownSource, Received: time.Now(), Records: append(line, '\n'), Count: 1, Lines: 1}
	if err := o.queue.Append(ctx, &chunk, durable); err != nil {
		return fmt.Errorf("docket's own record: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}
