package once

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The headers that docket's kafka sink writes and this package reads.
const (
	HeaderID   = "docket-id"   // <id of the start of the queue>-<seq>
	HeaderSeq  = "docket-seq"  // number of the record in its queue, from 1
	HeaderLate = "docket-late" // why the record comes late; most records have none
)

// ErrNotDocket says that a message has no header of docket: something else wrote
// it. Whether that is a mistake or an ordinary message is for the caller to say.
var ErrNotDocket = errors.New("the message has no docket headers")

// Late says why a record comes although higher seqs may have come before. The list is
// open: there may be other reasons.
type Late string

// The reasons known today.
const (
	Replayed Late = "Replayed" // docket replay has set the sink back
	Redriven Late = "Redriven" // it comes from the dead letters
	Ahead    Late = "Ahead"    // it comes before its turn: others were refused, and docket asked whether any is accepted
)

// Delivery is what docket says of one delivery of a record. Every delivery of the
// record has the same Queue and Seq.
type Delivery struct {
	Queue string // id of the start of the queue that stored the record, a UUID
	Seq   uint64 // number of the record in that queue, from 1
	Late  Late   // empty for a delivery in order
}

// ParseHeaders reads the headers of a message, whatever type the Kafka library has for
// them: split takes one apart. It returns the zero Delivery with ErrNotDocket when none
// of them is docket's; any other error says which header is missing, occurs twice or
// cannot be read.
func ParseHeaders[H any](headers []H, split func(H) (key string, value []byte)) (Delivery, error) {
	var id, seq, late field
	for _, h := range headers {
		key, value := split(h)
		switch key {
		case HeaderID:
			id.set(value)
		case HeaderSeq:
			seq.set(value)
		case HeaderLate:
			late.set(value)
		}
	}
	if id.count+seq.count+late.count == 0 {
		return Delivery{}, ErrNotDocket
	}
	return parse(id, seq, late)
}

// field is one header.
type field struct {
	value string
	count int // how often it is there
}

func (f *field) set(value []byte) {
	f.value = string(value)
	f.count++
}

func parse(id, seq, late field) (Delivery, error) {
	if err := errors.Join(
		id.check(HeaderID, 1), seq.check(HeaderSeq, 1), late.check(HeaderLate, 0),
	); err != nil {
		return Delivery{}, err
	}
	n, err := parseSeq(seq.value)
	if err != nil {
		return Delivery{}, fmt.Errorf("header %s is %s: %w", HeaderSeq, excerpt(seq.value), err)
	}
	queue, ok := strings.CutSuffix(id.value, "-"+seq.value)
	if !ok || !isUUID(queue) {
		return Delivery{}, fmt.Errorf("header %s is %s, want the id of a queue (a UUID), a hyphen and the seq %s", HeaderID, excerpt(id.value), seq.value)
	}
	if late.count > 0 && late.value == "" {
		return Delivery{}, fmt.Errorf("header %s is empty", HeaderLate)
	}
	return Delivery{Queue: queue, Seq: n, Late: Late(late.value)}, nil
}

// check refuses a header that is missing, or there twice: two readers could
// understand it differently.
func (f field) check(key string, atLeast int) error {
	switch {
	case f.count < atLeast:
		return fmt.Errorf("header %s is missing", key)
	case f.count > 1:
		return fmt.Errorf("header %s occurs %d times", key, f.count)
	}
	return nil
}

// parseSeq takes the one way to write a seq, so that equal seqs are equal texts.
func parseSeq(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 || text[0] == '0' {
		return 0, errors.New("want a whole number from 1 to 18446744073709551615 without a sign or leading zeros")
	}
	return n, nil
}

// isUUID accepts 8-4-4-4-12 hexadecimal digits.
func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case i == 8, i == 13, i == 18, i == 23:
			if c != '-' {
				return false
			}
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return false
		}
	}
	return true
}

// excerpt quotes what may be anybody's bytes for an error text.
func excerpt(text string) string {
	const enough = 64 // a little more than an id
	if len(text) > enough {
		return strconv.Quote(text[:enough]) + "..."
	}
	return strconv.Quote(text)
}
