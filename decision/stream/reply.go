package stream

import (
	"errors"
	"fmt"
)

// MaxReply bounds a line from the exporter: texts are cut so that every message
// fits, however much of it has to be escaped.
const MaxReply = 16 << 10

// Reply is a message from the exporter: an Answer, Ack, Refused or Closing.
type Reply interface {
	// Append appends the message as a line, newline included.
	Append(dst []byte) []byte
	reply()
}

// Answer is what the exporter says to a hello.
type Answer struct {
	Acked uint64 // highest number of this producer that is durable; 0: none
}

// Ack says that every line up to a number is durable or has been refused.
type Ack struct {
	Through uint64
}

// Why a line is refused. Others may come; they are final as well.
const (
	InvalidJSON = "InvalidJSON" // not JSON, not UTF-8, or nested too deeply
	NotObject   = "NotObject"   // JSON, but not an object
	TooLarge    = "TooLarge"    // longer than the exporter's limit
	// Unredactable: what must not be stored could not be removed from the line.
	Unredactable = "Unredactable"
)

// Refused names a line that was not stored. It counts as handled: no ack for a later line overtakes it, and the ack that
// follows covers it.
type Refused struct {
	Seq    uint64 // the number of the line
	Reason string // such as InvalidJSON
	Detail string // what was wrong, for a person; cut to 1 KiB
}

// Closing is the last line on a connection that the exporter ends: a broken
// hello, lost framing, another connection of the producer, shutdown.
type Closing struct {
	Reason string // for a person; cut to 1 KiB
}

func (Answer) reply()  {}
func (Ack) reply()     {}
func (Refused) reply() {}
func (Closing) reply() {}

// Append appends a as a line.
func (a Answer) Append(dst []byte) []byte {
	dst = appendUint(append(dst, `{"docket":{"version":`...), Version)
	dst = appendUint(append(dst, `,"acked":`...), a.Acked)
	return append(dst, "}}\n"...)
}

// Append appends a as a line.
func (a Ack) Append(dst []byte) []byte {
	dst = appendUint(append(dst, `{"ack":`...), a.Through)
	return append(dst, "}\n"...)
}

// Append appends r as a line.
func (r Refused) Append(dst []byte) []byte {
	dst = appendUint(append(dst, `{"refused":{"seq":`...), r.Seq)
	dst = appendText(append(dst, `,"reason":`...), r.Reason)
	if r.Detail != "" {
		dst = appendText(append(dst, `,"detail":`...), r.Detail)
	}
	return append(dst, "}}\n"...)
}

// Append appends c as a line.
func (c Closing) Append(dst []byte) []byte {
	dst = appendUint(append(dst, `{"docket":{"version":`...), Version)
	dst = appendText(append(dst, `,"error":`...), c.Reason)
	return append(dst, "}}\n"...)
}

// ParseReply reads one line from the exporter, without its newline.
func ParseReply(line []byte) (Reply, error) {
	o, err := parseObject(line)
	if err != nil {
		return nil, fmt.Errorf("reply: %w", err)
	}
	r, err := parseReply(o)
	if err != nil {
		return nil, fmt.Errorf("reply: %w", err)
	}
	return r, nil
}

func parseReply(o object) (Reply, error) {
	if _, n := o.find("ack"); n > 0 {
		return parseAck(o)
	}
	if _, n := o.find("refused"); n > 0 {
		return parseRefused(o)
	}
	if _, n := o.find("docket"); n > 0 {
		return parseDocket(o)
	}
	return nil, errors.New("not a message of docket stream v1")
}

func parseAck(o object) (Reply, error) {
	through, err := o.number("ack")
	return Ack{through}, err
}

func parseRefused(o object) (Reply, error) {
	body, err := o.object("refused")
	if err != nil {
		return nil, err
	}
	var r Refused
	if r.Seq, err = body.number("seq"); err != nil {
		return nil, err
	}
	if r.Reason, err = body.text("reason"); err != nil {
		return nil, err
	}
	if _, n := body.find("detail"); n > 0 {
		r.Detail, err = body.text("detail")
	}
	return r, err
}

// parseDocket reads an Answer or a Closing. A Closing is understood whatever its
// version: it may be the exporter's complaint about ours.
func parseDocket(o object) (Reply, error) {
	body, err := o.object("docket")
	if err != nil {
		return nil, err
	}
	if _, n := body.find("error"); n > 0 {
		reason, err := body.text("error")
		return Closing{reason}, err
	}
	version, err := body.number("version")
	if err != nil {
		return nil, err
	}
	if version != Version {
		return nil, fmt.Errorf("version %d is not supported, only version %d", version, Version)
	}
	acked, err := body.number("acked")
	return Answer{acked}, err
}
