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
	Seq         uint64 // of the record in its queue; one letter a seq
	Source      string
	Producer    string
	Received    time.Time
	Reason      string // the failure as the sink put it, without secrets
	Status      string // code of the destination's answer; may be empty
	Answer      string // its words; may be empty
	Attempts    int
	FirstFailed time.Time
	LastFailed  time.Time
	Redriving   bool   // waits to be sent again
	Record      []byte // byte for byte as it would be sent; without a newline
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
	// ReadOnly changes no file, not even to set damage aside.
	ReadOnly bool
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

// ID is the record id for this seq: the id that a sink receives with the
// record.
func ID(queue string, seq uint64) string {
	return queue + "-" + strconv.FormatUint(seq, 10)
}

// ParseID returns the seq of the record of queue that text names: by its id, or by
// its seq alone. An error says what is wrong with text.
func ParseID(queue, text string) (uint64, error) {
	number := text
	if at := strings.LastIndexByte(text, '-'); at >= 0 {
		if text[:at] != queue {
			return 0, fmt.Errorf("%q is not a record of this queue: its record ids begin with %s-", text, queue)
		}
		number = text[at+1:]
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || seq == 0 {
		return 0, fmt.Errorf("%q is not a record id: use an id from docket deadletter ls, such as %s, or its number, such as 17", text, ID(queue, 17))
	}
	return seq, nil
}
