package adminclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
)

// Followed is a line of the answer to Tail: a record, or how many were missed.
type Followed struct {
	Line    []byte // as it came
	Missed  uint64
	Record  segment.Record
	Outcome string // at the sink that is followed
	More    bool   // another line has come already
}

// Tail follows the records of a running docket: see the request /tail. It calls connected
// when docket begins to answer, and each with every line, which is valid until each
// returns. The answer has no end, so Tail always returns an error: why the answer broke
// off.
func (c *Client) Tail(ctx context.Context, query url.Values, connected func(), each func(Followed) error) error {
	res, err := c.Get(ctx, "/tail", query)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	connected()
	return c.eachLine(res.Body, func(line []byte, more bool) error {
		f := Followed{Line: line, More: more}
		var said struct {
			Missed  uint64
			Outcome string
		}
		head, _, isRecord := bytes.Cut(line, []byte(`,"record":`))
		if isRecord {
			head = append(bytes.Clone(head), '}')
		}
		err := json.Unmarshal(head, &said)
		f.Missed, f.Outcome = said.Missed, said.Outcome
		if err == nil && isRecord {
			f.Record, err = inspect.ParseRecord(line)
		} else if err == nil && f.Missed == 0 {
			err = errors.New("missing record")
		}
		if err != nil {
			return c.Unreadable(&MalformedError{fmt.Errorf("line %.100q: %w: it is not docket's admin endpoint", line, err)})
		}
		return each(f)
	})
}
