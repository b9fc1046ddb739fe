// Package client is what a policy engine imports to have its decisions exported:
//
//	c, err := client.New(client.Config{Address: "unix:///run/docket/docket.sock"})
//	...
//	defer c.Close(ctx)
//	...
//	c.TryLog(&decision.Record{Decision: decision.Deny, ...})
//
// Off, it costs the comparison of a pointer with nil. On, it takes a bounded
// memory, outlives restarts of the exporter without losing or doubling a record,
// and reports in the stream itself how many records it dropped.
//
//	client.go    Client: records in, and what became of them
//	config.go    Config
//	sender.go    Sender: lines in, for programs that keep them elsewhere
//	link.go      what both are made of: the lines under way (line.go)
//	room.go      callers that wait for room
//	flush.go     callers that wait until lines are finished
//	later.go     records that are made after the decision has left
//	connect.go   one connection after the other, and what the exporter answers
//	write.go     lines onto a connection
//	outbox.go    the lines that are not handled, and which of them is dropped first
//	losses.go    counts of dropped records, and the record that reports them
//	events.go    log messages
//	transport.go ways to the exporter: unix, tcp (tls.go), and those of others
//
// It imports the standard library only.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/docket-export/docket/decision"
)

// ErrFull says that a record was not taken, or was dropped for a more important
// one, because the buffer is full. It is counted; see Stats.Lost.
var ErrFull = errors.New("the buffer is full")

// Client brings records to the exporter. A nil *Client is one that is off: every
// method works, does nothing and succeeds. Safe for concurrent use.
type Client struct {
	config Config
	ranks  [len(kinds)]int // by kind of record
	link   *link
	events events
	later  later

	sequence atomic.Uint64 // the last number of NextSequence

	closing  sync.Once
	left     int   // what Close has returned
	closeErr error // the same
}

// Stats counts what a Client has done since New.
type Stats struct {
	Logged  uint64 // records taken
	Stored  uint64 // records that are on the exporter's disk
	Refused uint64 // records that the exporter has refused
	// Lost are the records that never reached the exporter, by decision
	// ("unspecified" for any other or none). They are told in the stream; see
	// LossEventType.
	Lost          map[decision.Decision]uint64
	Buffered      int // records taken and not yet acknowledged, and what is told of losses
	BufferedBytes int // their memory
	Connected     bool
	Connections   uint64 // connections on which the exporter has answered
	// Forgotten counts records that the exporter acknowledged and no longer knew at a
	// later connection, because it has a new queue.
	Forgotten uint64
}

// New starts a client. It does not wait for the exporter: what is logged before
// there is a connection waits in the buffer. Without an address it returns nil,
// the client that is off. An error is a mistake in config.
func New(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Address == "" {
		return nil, nil //nolint:nilnil // a nil *Client works
	}
	c := &Client{config: config.withDefaults()}
	dial, err := c.config.dial()
	if err != nil {
		return nil, err
	}
	c.ranks = ranksOf(c.config.Keep)
	box := newOutbox(c.config.MaxBufferedBytes-lossReserve, 0, len(kinds))
	producer := randomID()
	if c.config.Producer != "" {
		producer = c.config.Producer + "/" + producer
	}
	c.events = events{log: c.config.Log}
	c.link = newLink(linkConfig{
		dial:         dial,
		producer:     producer,
		acked:        func(uint64) { c.events.acked() },
		lost:         c.logLosses,
		connected:    c.events.connected,
		disconnected: c.disconnected,
	}, box)
	c.link.start()
	return c, nil
}

// ranksOf returns the rank of each kind of record: a kind that is not among keep
// comes behind all that are.
func ranksOf(keep []decision.Decision) (ranks [len(kinds)]int) {
	for k := range ranks {
		if ranks[k] = slices.Index(keep, kinds[k]); ranks[k] < 0 {
			ranks[k] = len(kinds) - 1
		}
	}
	return ranks
}

// Mode is what Export does.
func (c *Client) Mode() Mode {
	if c == nil {
		return Batch
	}
	return c.config.Mode
}

// NextSequence returns 1, 2, 3 and so on: numbers for Record.Sequence that all parts of
// a program share.
func (c *Client) NextSequence() uint64 {
	if c == nil {
		return 0
	}
	return c.sequence.Add(1)
}

// NextSequences returns the first of n numbers of NextSequence that follow each other, also while
// other goroutines ask for numbers. For n = 0 it returns 0.
func (c *Client) NextSequences(n int) (first uint64) {
	if c == nil || n <= 0 {
		return 0
	}
	return c.sequence.Add(uint64(n)) - uint64(n) + 1
}

// Producer is the name under which the exporter knows c: Config.Producer and a random
// part. It names one numbering: a record's sequence is unique together with it.
func (c *Client) Producer() string {
	if c == nil {
		return ""
	}
	return c.link.producer
}

// Enabled reports whether c is not off: whether it is worth making a record.
func (c *Client) Enabled() bool { return c != nil }

// Log sends r and returns nil when it is on the exporter's disk. Until then it waits: for room in
// the buffer, for the exporter to come, for its ack. An error of ctx does not mean that the record
// is not stored: once taken it stays under way. ErrClosed says that Close came first. RefusedError
// says that the exporter refused the record, which is larger than it accepts. If the connection
// breaks with that refusal, Log takes the record for stored, although the exporter has it among its
// refused lines. r is the caller's again on return.
func (c *Client) Log(ctx context.Context, r *decision.Record) error {
	if c == nil {
		return nil
	}
	l, err := c.encode(r)
	if err != nil {
		return err
	}
	result, err := c.take(ctx, l)
	if err != nil {
		return err
	}
	return c.await(ctx, result)
}

// TryLog takes r to be sent and never waits. An error says that it was not taken
// and is counted as lost: ErrFull, or why it cannot be encoded. A record that was
// taken is dropped only for a more important one that has no room; see
// Config.Keep. r is the caller's again on return, with its slices and maps.
func (c *Client) TryLog(r *decision.Record) error {
	if c == nil {
		return nil
	}
	return c.tryLog(r)
}

func (c *Client) tryLog(r *decision.Record) error {
	l, err := c.encode(r)
	if err != nil {
		c.link.lose(kindOf(r.Decision), lostInvalid)
		return err
	}
	return c.offer(l)
}

// Export does with r what Config.Mode says: Batch is TryLog; Blocking is Log
// within Config.Timeout, or less if ctx ends sooner. Neither returns an error: a
// record that was not taken is counted as lost. BlockingStrict is Blocking whose
// error is returned, so that the caller can refuse what it cannot prove.
func (c *Client) Export(ctx context.Context, r *decision.Record) error {
	return c.ExportAll(ctx, r)
}

// ExportAll is Export of several records, which it sends in their order and waits for together. It
// returns the first error.
func (c *Client) ExportAll(ctx context.Context, records ...*decision.Record) error {
	if c == nil {
		return nil
	}
	if c.config.Mode == Batch {
		for _, r := range records {
			_ = c.tryLog(r) // counted
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	results, err := make([]<-chan error, len(records)), error(nil)
	for i, r := range records {
		var notTaken error
		if results[i], notTaken = c.export(ctx, r); err == nil {
			err = notTaken
		}
	}
	for _, result := range results {
		if result == nil {
			continue
		}
		if unknown := c.await(ctx, result); err == nil { // it is under way, with or without an ack
			err = unknown
		}
	}
	if c.config.Mode != BlockingStrict {
		return nil
	}
	return err
}

// export takes r. One that is not taken is lost in mode Blocking.
func (c *Client) export(ctx context.Context, r *decision.Record) (result <-chan error, err error) {
	why := lostInvalid
	l, err := c.encode(r)
	if err == nil {
		if result, err = c.take(ctx, l); err == nil {
			return result, nil
		}
		why = whyLost(err)
	}
	if c.config.Mode == Blocking {
		c.link.lose(kindOf(r.Decision), why)
	}
	return nil, err
}

// LogLine is Log for a record that is JSON already: one object, without a
// newline in it. Its bytes are stored as they are. The line is copied.
func (c *Client) LogLine(ctx context.Context, text []byte, d decision.Decision) error {
	return c.LogLines(ctx, []Line{{text, d}})[0]
}

// Line is a record that is JSON already; see LogLine.
type Line struct {
	Text     []byte
	Decision decision.Decision // how important it is
}

// LogLines is LogLine for several records, which it sends in their order before
// it waits for all of them. It returns an error for each.
func (c *Client) LogLines(ctx context.Context, texts []Line) []error {
	errs := make([]error, len(texts))
	if c == nil {
		return errs
	}
	results := make([]<-chan error, len(texts))
	for i, text := range texts {
		var l *line
		if l, errs[i] = c.line(text.Text, text.Decision); errs[i] == nil {
			results[i], errs[i] = c.take(ctx, l)
		}
	}
	for i, result := range results {
		if errs[i] == nil {
			errs[i] = c.await(ctx, result)
		}
	}
	return errs
}

// TryLogLine is TryLog for a record that is JSON already; see LogLine. d says
// how important it is.
func (c *Client) TryLogLine(text []byte, d decision.Decision) error {
	if c == nil {
		return nil
	}
	l, err := c.line(text, d)
	if err != nil {
		c.link.lose(kindOf(d), lostInvalid)
		return err
	}
	return c.offer(l)
}

// encode makes a line of r.
func (c *Client) encode(r *decision.Record) (*line, error) {
	l := newLine(usualText)
	text, err := r.AppendLine(l.text)
	if err != nil {
		l.recycle()
		return nil, err
	}
	l.text = text
	c.classify(l, r.Decision)
	return l, nil
}

// line makes a line of text.
func (c *Client) line(text []byte, d decision.Decision) (*line, error) {
	if err := checkLine(text); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(text, lossPrefix) {
		return nil, errors.New("line is a loss record, which only the client itself writes")
	}
	l := newTextLine(text)
	c.classify(l, d)
	return l, nil
}

func (c *Client) classify(l *line, d decision.Decision) {
	l.kind = kindOf(d)
	l.rank = c.ranks[l.kind]
}

// offer takes l if there is room at once.
func (c *Client) offer(l *line) error {
	err := c.link.fits(l)
	if err != nil {
		c.link.lose(l.kind, lostTooLarge)
	} else if err = c.link.tryTake(l); err == nil {
		return nil
	}
	l.recycle()
	return err
}

// take takes l, for which it waits for room. What becomes of it comes out of
// result. An error says that it was not taken.
func (c *Client) take(ctx context.Context, l *line) (result <-chan error, err error) {
	// After take the line is no longer ours.
	outcome := make(chan error, 1)
	l.result = outcome
	if err = c.link.fits(l); err == nil {
		err = c.link.take(ctx, l)
	}
	if err == nil {
		return outcome, nil
	}
	l.recycle()
	if errors.Is(err, ErrFull) {
		err = fmt.Errorf("%w: %s", err, c.link.why())
	}
	return nil, err
}

// await waits for what becomes of a line.
func (c *Client) await(ctx context.Context, result <-chan error) error {
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result: // at the same moment
		return err
	default:
		return fmt.Errorf("%w: %s", ending(ctx), c.link.why())
	}
}

// Flush waits until everything that was put off before has run, and every record
// that was logged before is stored, refused, or lost; see Later and Stats.
func (c *Client) Flush(ctx context.Context) error {
	if c == nil {
		return nil
	}
	if err := c.flushLater(ctx); err != nil {
		return err
	}
	return c.link.flush(ctx)
}

// Close takes no more records, sends what it can until ctx is done, and ends the client. left
// counts lost records: the exporter has not acknowledged them, and may have some of them. left also counts each
// function that was put off and has not run, see Later. The error says why there are any, or why
// the exporter could not be told of what was lost before. A second Close waits for the first, and
// returns the same.
func (c *Client) Close(ctx context.Context) (left int, err error) {
	if c == nil {
		return 0, nil
	}
	c.closing.Do(func() { c.left, c.closeErr = c.close(ctx) })
	return c.left, c.closeErr
}

func (c *Client) close(ctx context.Context) (left int, err error) {
	unmade, unmadeErr := c.endLater(ctx)
	c.countLost()
	left, err = c.closeLink(ctx)
	if unmade == 0 {
		return left, err
	}
	return left + unmade, errors.Join(unmadeErr, err)
}

func (c *Client) closeLink(ctx context.Context) (left int, err error) {
	c.link.stop()
	err = c.link.flush(ctx)
	why := c.link.why()
	c.link.end()
	c.logLosses()
	lines, left := c.link.unhandled()
	if lines == 0 {
		return 0, nil
	}
	if err == nil { // a record can be handled without being stored, and so can a loss record
		return 0, errors.New("docket refused the loss record")
	}
	return left, fmt.Errorf("%w: %s", err, why)
}

// Stats returns the counts of this moment. It costs little: a metrics library
// can call it for each of its values.
func (c *Client) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	k := c.link
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Stats{
		Logged:        k.stats.taken,
		Stored:        k.stats.stored,
		Refused:       k.stats.refused,
		Lost:          make(map[decision.Decision]uint64),
		Buffered:      k.box.count,
		BufferedBytes: k.box.used,
		Connected:     k.stats.connected,
		Connections:   k.stats.connections,
		Forgotten:     k.stats.forgotten,
	}
	c.later.mu.Lock()
	defer c.later.mu.Unlock()
	for i, n := range k.losses.total {
		if n += c.later.lost[i]; n > 0 {
			s.Lost[kinds[i]] = n
		}
	}
	return s
}

// randomID returns a unique name: a version 4 UUID.
func randomID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
