package adminclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
)

// Queue is the content of a running docket's queue at the time of the request: the
// counterpart of inspect.Queue.
type Queue struct {
	client *Client
	inspect.Contents
}

// Queue requests the content of the queue.
func (c *Client) Queue(ctx context.Context) (*Queue, error) {
	q := &Queue{client: c}
	return q, c.GetJSON(ctx, "/queue", nil, &q.Contents)
}

// ID is the UUID of the queue.
func (q *Queue) ID() string { return q.Contents.ID }

// FirstSeq is the seq of the first record that may be kept, 0 when none is.
func (q *Queue) FirstSeq() uint64 {
	if len(q.Segments) == 0 {
		return 0
	}
	return q.Segments[0].FirstSeq
}

// Sink returns the place of a sink; ok is false when the queue does not know it.
func (q *Queue) Sink(name string) (a state.Account, ok bool) {
	found, ok := q.Sinks[name]
	return state.Account{Next: found.Next}, ok
}

// Read is Client.Records, up to the last record at the time of the request.
func (q *Queue) Read(ctx context.Context, r segment.SeqRange, record func(segment.Record) error, lost func(inspect.Finding) error) error {
	r.To = min(r.To, q.LastSeq+1)
	return q.client.Records(ctx, r, record, lost)
}

// Records is inspect.Queue.Read for a running docket. When docket breaks off the answer to a
// slow reader, Records continues where it was.
func (c *Client) Records(ctx context.Context, r segment.SeqRange, record func(segment.Record) error, lost func(inspect.Finding) error) error {
	for r.From < r.To {
		from := r.From
		err := c.readOnce(ctx, &r, record, lost)
		if r.From > from && errors.Is(err, io.ErrUnexpectedEOF) {
			continue
		}
		return err
	}
	return nil
}

// readOnce makes one request, and moves r.From behind what it has read.
func (c *Client) readOnce(ctx context.Context, r *segment.SeqRange, record func(segment.Record) error, lost func(inspect.Finding) error) error {
	res, err := c.Get(ctx, "/queue/records", url.Values{
		"from": {strconv.FormatUint(r.From, 10)}, "to": {strconv.FormatUint(r.To-1, 10)},
	})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return c.eachLine(res.Body, func(line []byte) error {
		if bytes.HasPrefix(line, []byte(`{"finding":`)) {
			var said struct{ Finding inspect.FindingDocument }
			if err := json.Unmarshal(line, &said); err != nil {
				return c.Unreadable(malformed(line, err))
			}
			f := said.Finding.Finding()
			r.From = max(r.From, f.Lost.To)
			return lost(f)
		}
		found, err := inspect.ParseRecord(line)
		if err != nil {
			return c.Unreadable(malformed(line, err))
		}
		r.From = found.Seq + 1
		return record(found)
	})
}

func malformed(line []byte, err error) error {
	return &MalformedError{fmt.Errorf("line %.100q: %w: it is not docket's admin endpoint", line, err)}
}
