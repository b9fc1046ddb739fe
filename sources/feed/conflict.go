package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources"
)

// Conflict says that the queue has lines under the name of a file from which no line
// was sent: another sender has used the name. The file must be sent under another name.
type Conflict struct {
	Producer string // the name
	Acked    uint64 // so many lines the queue has of it
}

func (c *Conflict) Error() string {
	return fmt.Sprintf("the queue has %d lines under the name %s that are not from this file: docket sends the file under another name", c.Acked, c.Producer)
}

// Tell stores a record of the conflict, once for each name, and returns when it is
// durable. An error means that ctx is done or the exporter is stopping.
func (c *Conflict) Tell(ctx context.Context, in sources.Intake, source string) error {
	f, acked, err := Open(ctx, in, source, Producer(source, "conflict", c.Producer), 1)
	if err != nil {
		return err
	}
	defer f.Close()
	if acked > 0 {
		return nil
	}
	record, err := json.Marshal(decision.ProducerConflict{
		EventType: decision.ProducerConflictEvent, Source: source, Producer: c.Producer,
		Acked: c.Acked, Detail: c.Error(), Time: time.Now().UTC(),
	})
	if err != nil {
		return fmt.Errorf("encode the record of a conflict: %w", err)
	}
	if err := f.Send(ctx, append(record, '\n'), 1); err != nil {
		return err
	}
	return f.Settle(ctx)
}
