package deadletter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Summary is a letter as the admin endpoint and the command line show it: all but
// its record.
type Summary struct {
	ID          string    `json:"id"` // that of the record
	Sink        string    `json:"sink"`
	State       string    `json:"state"`
	Reason      string    `json:"reason"`
	Status      string    `json:"status"` // code of the destination's answer; may be empty
	Answer      string    `json:"answer"` // its words; may be empty
	Attempts    int       `json:"attempts"`
	FirstFailed time.Time `json:"firstFailed"`
	LastFailed  time.Time `json:"lastFailed"`
	Source      string    `json:"source"`
	Producer    string    `json:"producer,omitempty"`
	Received    time.Time `json:"received"`
}

// The states of a letter.
const (
	Kept      = "Kept"
	Redriving = "Redriving" // waits to be sent again
)

// Summary describes l, a letter of sink.
func (l Letter) Summary(sink string) Summary {
	s := Summary{
		ID: l.ID(), Sink: sink, State: Kept, Reason: l.Reason, Status: l.Status, Answer: l.Answer,
		Attempts: l.Attempts, FirstFailed: l.FirstFailed, LastFailed: l.LastFailed,
		Source: l.Source, Producer: l.Producer, Received: l.Received,
	}
	if l.Redriving {
		s.State = Redriving
	}
	return s
}

// WithRecord returns s as one line of JSON without a newline. Its last member,
// "record", is the record, byte for byte.
func (s Summary) WithRecord(record []byte) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("dead letter %s: %w", s.ID, err)
	}
	text = append(text[:len(text)-1], `,"record":`...)
	text = append(text, record...)
	return append(text, '}'), nil
}

// Count says how many letters a sink has.
type Count struct {
	Sink      string `json:"sink"`
	Kept      int    `json:"kept"`
	Redriving int    `json:"redriving"`
	Bytes     int64  `json:"bytes"`
	MaxBytes  int64  `json:"maxBytes,omitempty"` // 0: there is no bound, or it is not known
}

// Count returns s as the counts of sink.
func (s Stats) Count(sink string) Count {
	return Count{Sink: sink, Kept: s.Letters - s.Redriving, Redriving: s.Redriving, Bytes: s.Bytes, MaxBytes: s.MaxBytes}
}

// Change asks for a redrive or a purge: of the letters with these ids, or of all.
type Change struct {
	IDs []string `json:"ids,omitempty"`
	All bool     `json:"all,omitempty"`
}

// Changed answers a Change.
type Changed struct {
	// Count is how many letters were changed. A redrive does not change a letter
	// that already waits to be sent again.
	Count int `json:"count"`
	// Unknown are the ids without a letter.
	Unknown []string `json:"unknown,omitempty"`
}

// ParseWithRecord is the reverse of WithRecord. The record is a part of text.
func ParseWithRecord(text []byte) (s Summary, record []byte, err error) {
	text = bytes.TrimSuffix(text, []byte("\n"))
	// Within a string of JSON a quote has a backslash before it, so this is the member.
	head, record, found := bytes.Cut(text, []byte(`,"record":`))
	record, whole := bytes.CutSuffix(record, []byte("}"))
	if !found || !whole {
		return s, nil, errors.New("not a dead letter with its record")
	}
	err = json.Unmarshal(append(bytes.Clone(head), '}'), &s)
	return s, record, err
}
