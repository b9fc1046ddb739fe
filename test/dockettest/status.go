package dockettest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/docket-export/docket/test/internal/poll"
)

// Status is what tests read of /status. It is written down here once more, and
// not taken from the product, because operators' scripts rely on these names.
type Status struct {
	Queue struct {
		ID      string `json:"id"`
		LastSeq uint64 `json:"lastSeq"`
		State   string `json:"state"`
	} `json:"queue"`
	Ledger Ledger `json:"ledger"`
	Sinks  []Sink `json:"sinks"`
}

// Ledger is the account of every line and record.
type Ledger struct {
	Received  uint64                `json:"received"`
	Stored    uint64                `json:"stored"`
	Duplicate uint64                `json:"duplicate"`
	Refused   map[string]uint64     `json:"refused"`
	Corrupt   uint64                `json:"corrupt"`
	Sinks     map[string]SinkLedger `json:"sinks"`
}

// SinkLedger is the account of one sink.
type SinkLedger struct {
	Delivered    uint64 `json:"delivered"`
	Filtered     uint64 `json:"filtered"`
	DeadLettered uint64 `json:"deadLettered"`
	Dropped      uint64 `json:"dropped"`
	Corrupt      uint64 `json:"corrupt"`
	Pending      uint64 `json:"pending"`
}

// Sink is the state of one sink.
type Sink struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Reason    string `json:"reason"`
	LastError string `json:"lastError"`
	Cursor    uint64 `json:"cursor"`
}

// Sink returns the state of the sink of that name, the zero Sink if there is none.
func (s Status) Sink(name string) Sink {
	for _, sink := range s.Sinks {
		if sink.Name == name {
			return sink
		}
	}
	return Sink{}
}

// Balance returns what does not add up in the books, nil if everything does.
func (l Ledger) Balance() error {
	refused := uint64(0)
	for _, n := range l.Refused {
		refused += n
	}
	if l.Received != l.Stored+refused+l.Duplicate {
		return fmt.Errorf("received %d is not stored %d + refused %d + duplicate %d", l.Received, l.Stored, refused, l.Duplicate)
	}
	for name, s := range l.Sinks {
		if l.Stored != s.Delivered+s.Filtered+s.DeadLettered+s.Dropped+s.Corrupt+s.Pending {
			return fmt.Errorf("sink %s: stored %d is not the sum of %+v", name, l.Stored, s)
		}
	}
	return nil
}

// Status returns the answer of /status. That its books balance, as they must at
// every moment, has been checked.
func (d *Docket) Status() Status {
	d.t.Helper()
	s, err := d.status()
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// Await asks for the status until ok returns nil for it, at most for timeout, and
// returns the status that was ok. The text of what it waits for completes the
// words "wait for". The books of every answer must balance.
func (d *Docket) Await(what string, timeout time.Duration, ok func(Status) error) Status {
	d.t.Helper()
	var s Status
	err := poll.Until(timeout, func() error {
		d.alive()
		var err error
		if s, err = d.status(); err != nil {
			return err
		}
		return ok(s)
	})
	if err != nil {
		d.t.Fatalf("wait for %s: %v", what, err)
	}
	return s
}

// Ready returns nil when /readyz answers 200.
func (d *Docket) Ready() error {
	_, err := d.get("/readyz")
	return err
}

// status ends the test when the books do not balance: that is never a state to
// wait out.
func (d *Docket) status() (Status, error) {
	d.t.Helper()
	body, err := d.get("/status")
	if err != nil {
		return Status{}, err
	}
	var s Status
	if err := json.Unmarshal(body, &s); err != nil {
		return Status{}, fmt.Errorf("read /status: %w in %s", err, body)
	}
	if err := s.Ledger.Balance(); err != nil {
		d.t.Fatalf("the ledger of /status does not balance: %v", err)
	}
	return s, nil
}

// get returns the body of a page of the admin endpoint that answers 200.
func (d *Docket) get(path string) ([]byte, error) {
	resp, err := d.http.Get("http://" + d.Admin + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s: %s", path, resp.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}
