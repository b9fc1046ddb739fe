package client

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/docket-export/docket/decision/stream"
)

// Defaults of SenderConfig.
const (
	DefaultInFlightBytes = 8 << 20
	DefaultInFlightLines = 64 << 10
)

// SenderConfig configures a Sender. The callbacks are called one at a time, must
// not block and must not call the Sender, Stats excepted.
type SenderConfig struct {
	// Address of the exporter; see Config.Address.
	Address string
	// Producer names the stream of lines; see stream.CheckProducer. Empty: a random
	// name, which suits a producer that does not outlive its process. If the exporter
	// knows the name already, the stream continues.
	Producer string
	// MaxInFlightBytes bounds the memory of the lines not yet handled. 0:
	// DefaultInFlightBytes.
	MaxInFlightBytes int
	// MaxInFlightLines bounds how many they are. 0: DefaultInFlightLines.
	MaxInFlightLines int

	// Refused is told of a line that the exporter has not stored, and will not
	// be sent again. Seq counts the calls of Send from 1.
	Refused func(stream.Refused)
	// Acked is told that the exporter has handled the first n lines: each is on
	// its disk or has been refused. Flush returns only after that.
	Acked func(n uint64)
	// Connected is told of each connection. forgotten counts lines that the exporter
	// acknowledged and no longer knows. They were on its disk, and are not sent again.
	// forgotten is 0 unless the exporter has a new queue, or the producer was silent
	// for a day.
	Connected func(forgotten uint64)
	// Disconnected is told why a connection ended or could not be made, and how
	// long the sender waits before it tries again.
	Disconnected func(err error, wait time.Duration)

	// Dial connects to the exporter. nil: as Address says.
	Dial func(ctx context.Context) (net.Conn, error)
}

// Sender sends lines that are kept elsewhere, for example in a file. It waits for room, drops no
// line, and tells by its number what became of each line. A program that makes records uses a
// Client.
//
// Lines go out in acknowledged mode and are kept until they are handled. The Sender replaces broken
// connections for as long as it lives. It sends lines without an ack again under the same numbers,
// so that the exporter stores each of them once. Safe for concurrent use.
type Sender struct{ link *link }

// SenderStats counts what a Sender has done.
type SenderStats struct {
	Sent          uint64 // lines taken by Send
	Handled       uint64 // lines acknowledged or refused
	Refused       uint64 // lines refused
	InFlightLines int    // Sent less Handled
	InFlightBytes int    // their memory
	Connections   uint64 // connections on which the exporter has answered
	Forgotten     uint64 // the most that SenderConfig.Connected was told
	Connected     bool   // at this moment
}

// NewSender starts a sender. It does not wait for the exporter. An error is a
// mistake in config.
func NewSender(config SenderConfig) (*Sender, error) {
	if config.Dial == nil {
		dial, err := (&Config{Address: config.Address}).dial()
		if err != nil {
			return nil, err
		}
		config.Dial = dial
	}
	if config.Producer == "" {
		config.Producer = randomID()
	}
	if err := stream.CheckProducer(config.Producer); err != nil {
		return nil, err
	}
	if config.MaxInFlightBytes < 0 || config.MaxInFlightLines < 0 {
		return nil, errors.New("MaxInFlightBytes and MaxInFlightLines must not be negative")
	}
	if config.MaxInFlightBytes == 0 {
		config.MaxInFlightBytes = DefaultInFlightBytes
	}
	if config.MaxInFlightLines == 0 {
		config.MaxInFlightLines = DefaultInFlightLines
	}
	k := newLink(linkConfig{
		dial:         config.Dial,
		producer:     config.Producer,
		acked:        config.Acked,
		refused:      config.Refused,
		connected:    config.Connected,
		disconnected: config.Disconnected,
	}, newOutbox(config.MaxInFlightBytes, config.MaxInFlightLines, 1))
	k.start()
	return &Sender{k}, nil
}

// Send takes one line, without its newline, to be sent. It copies the line and blocks only while
// the limits of what is in flight are reached, until ctx is done. nil does not mean that the
// exporter has the line; see Flush and SenderConfig.Acked. A line that the protocol does not allow
// is an error and not sent. Such a line has a newline in it, is blank, is a hello, or is larger
// than MaxInFlightBytes.
func (s *Sender) Send(ctx context.Context, text []byte) error {
	if err := checkLine(text); err != nil {
		return err
	}
	l := newTextLine(text)
	err := s.link.fits(l)
	if err == nil {
		err = s.link.take(ctx, l)
	}
	if err != nil {
		l.recycle()
	}
	return err
}

// Flush waits until every line that was sent before is handled: on the
// exporter's disk, or refused.
func (s *Sender) Flush(ctx context.Context) error { return s.link.flush(ctx) }

// Close takes no more lines, waits like Flush, and ends the sender, whether or
// not ctx left it the time. left is how many lines are not handled; the exporter
// may have some of them all the same. The error is nil if there are none.
func (s *Sender) Close(ctx context.Context) (left int, err error) {
	s.link.stop()
	err = s.link.flush(ctx)
	s.link.end()
	if left = s.Stats().InFlightLines; left == 0 {
		return 0, nil
	}
	return left, err
}

// Stats returns the counts of this moment.
func (s *Sender) Stats() SenderStats {
	k := s.link
	k.mu.Lock()
	defer k.mu.Unlock()
	return SenderStats{
		Sent:          k.stats.taken,
		Handled:       k.stats.taken - uint64(k.box.count),
		Refused:       k.stats.refused,
		InFlightLines: k.box.count,
		InFlightBytes: k.box.used,
		Connections:   k.stats.connections,
		Forgotten:     k.stats.forgotten,
		Connected:     k.stats.connected,
	}
}
