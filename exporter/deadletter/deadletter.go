package deadletter

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Letter is one record set aside.
type Letter struct {
	Seq         uint64    `json:"seq,omitempty"`         // of the record in its queue; one letter a seq
	Incarnation string    `json:"incarnation,omitempty"` // of the queue that stored the record: the first half of its id
	Source      string    `json:"source,omitempty"`
	Producer    string    `json:"producer,omitempty"`
	Received    time.Time `json:"received,omitzero"`
	Reason      string    `json:"reason,omitempty"` // the failure as the sink put it, without secrets
	Status      string    `json:"status,omitempty"` // code of the destination's answer
	Answer      string    `json:"answer,omitempty"` // its words
	Attempts    int       `json:"attempts,omitempty"`
	FirstFailed time.Time `json:"firstFailed,omitzero"`
	LastFailed  time.Time `json:"lastFailed,omitzero"`
	Redriving   bool      `json:"-"` // waits to be sent again
	Record      []byte    `json:"-"` // byte for byte as it would be sent; without a newline
}

var (
	// ErrFull says that a letter does not fit within the bound.
	ErrFull = errors.New("dead letters are full")
	// ErrDamaged says that a letter exists but cannot be read. Such a letter can be
	// removed.
	ErrDamaged = errors.New("damaged on disk")
)

// Options configure a Store.
type Options struct {
	// MaxBytes bounds the letters. 0: no bound.
	MaxBytes int64
	// Log receives reports of damage; nil: no log.
	Log *slog.Logger
}

// Stats describe a Store.
type Stats struct {
	Letters   int // all, those waiting to be sent again included
	Redriving int
	// Bytes is the size of the letters in the log. The file also holds up to the
	// same amount of removed letters, and exists twice while docket rewrites it.
	Bytes    int64
	MaxBytes int64
}

// ID is the id of the letter's record: the one that a sink receives with the record.
func (l *Letter) ID() string { return ID(l.Incarnation, l.Seq) }

// ID is the id of a record that an incarnation of the queue stored.
func ID(incarnation string, seq uint64) string {
	return incarnation + "-" + strconv.FormatUint(seq, 10)
}

// IDError says that a text does not name a record.
type IDError struct{ Text string }

func (e *IDError) Error() string {
	return fmt.Sprintf("%q is not a record id: use an id from docket deadletter ls, or its number, such as 17", e.Text)
}

// FindAll returns the seqs of the letters that c names, nil for all, and the ids without a letter.
func (s *Store) FindAll(c Change) (seqs []uint64, unknown []string, err error) {
	if c.All {
		return nil, nil, nil
	}
	seqs = []uint64{}
	for _, id := range c.IDs {
		seq, ok, err := s.Find(id)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			seqs = append(seqs, seq)
		} else {
			unknown = append(unknown, id)
		}
	}
	return seqs, unknown, nil
}

// Find returns the seq of the letter that text names: by the id of its record, or by its seq
// alone. ok is false when there is no such letter. A damaged letter does not tell its id and is
// found by any with its seq. Find fails with *IDError when text is no id.
func (s *Store) Find(text string) (seq uint64, ok bool, err error) {
	at := strings.LastIndexByte(text, '-')
	seq, err = strconv.ParseUint(text[at+1:], 10, 64)
	if err != nil || seq == 0 || at == 0 || strconv.FormatUint(seq, 10) != text[at+1:] {
		return 0, false, &IDError{text}
	}
	letter, ok, err := s.Get(seq)
	if errors.Is(err, ErrDamaged) {
		return seq, ok, nil
	}
	return seq, ok && (at < 0 || letter.ID() == text), err
}
