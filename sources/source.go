// Package sources is the interface between the exporter and the parts that receive
// records, as package sinks is for delivery. A source makes lines, hands them to the
// Intake and is told when they are durable. Each source is a package below this one
// and imports nothing of the exporter.
package sources

import (
	"context"
	"errors"
	"net"
)

// ErrTooManyGaps says that a producer cannot continue at the number that it wants: it
// would leave more gaps than docket remembers. Nothing has changed.
var ErrTooManyGaps = errors.New("too many gaps: docket cannot remember another gap of this producer: send the missing lines first, or use another name")

// Source takes lines in from outside.
type Source interface {
	// Run serves until ctx is done. It then stops reading, waits until what it
	// has submitted is durable, tells its producers so, and returns nil when
	// all its goroutines have ended. ready is called once, when producers can
	// reach the source. An error before that means the source could not start;
	// the exporter reports it and calls Run again later.
	Run(ctx context.Context, in Intake, ready func()) error
	// Connections is the number of producers connected now. Safe at any time.
	Connections() int
}

// Listener is a source that producers connect to. The exporter is ready once they can
// connect to every Listener; a source that only reads files is not waited for.
type Listener interface {
	// Addr is where producers connect, nil while they cannot. Safe at any time.
	Addr() net.Addr
}

// Standing is a source that depends on names in the file system, which somebody may remove or
// replace under it: a socket, certificates, what it keeps for a restart.
type Standing interface {
	// Stand looks whether the names still lead to what the source uses, and makes again what
	// it can. The error says what it cannot, and what to do: producers cannot connect to a
	// Listener then. It is called again and again, from one goroutine at a time, while Run
	// serves, and ends soon after ctx is done.
	Stand(ctx context.Context) error
}

// Successor is a source that can take over the listening socket of another source, so
// that no producer is turned away in between.
type Successor interface {
	// TakeOver is called at most once, before Run, while the source before still runs.
	// The source before ends next. TakeOver does nothing if before listens at another
	// place, or in another way.
	TakeOver(before Source)
}

// Reporter is a source with a state of its own. A source that reads files can work in
// part, and knows of decisions that are lost.
type Reporter interface {
	// Report says how the source is doing. Safe at any time.
	Report() Report
}

// Stateful is a source that has files in Env.StateDir.
type Stateful interface {
	// CheckState reports a file of the source's whose format version it does not read, as
	// a *fileversion.Error. It changes nothing. The exporter asks before it opens anything.
	CheckState() error
}

// Report is how a source is doing beside running.
type Report struct {
	// Trouble says what is wrong and what to do, for /status. The source is Degraded
	// then. Empty: nothing is wrong.
	Trouble string
	// Lost is how many gaps the source knows of since the start of the process. A gap is
	// a file, a run or lines that vanished before docket read them. Each was logged, and a
	// record says so where the source writes such records.
	Lost uint64
	// LostLines and LostBytes are how much of that is known at least. Where lines are known,
	// their bytes are not counted.
	LostLines, LostBytes uint64
	// PassedOver is how much the source has read and made no record of since the start of the
	// process, in lines, events or files, by reason. It is not an error by itself.
	PassedOver map[string]uint64
	// Audits is what became of the runs of an audit, where the source reads one.
	Audits Audits
}

// PassedOver is a Report.PassedOver of one reason; nil where there is none.
func PassedOver(reason string, n uint64) map[string]uint64 {
	if n == 0 {
		return nil
	}
	return map[string]uint64{reason: n}
}

// Intake is what a source needs of the exporter. Calls may overlap.
type Intake interface {
	// Open starts a session. For a numbered producer it first evicts that producer's
	// live session and waits until its lines are decided, so that acked is final. Every
	// line from o.Next to acked is durable, and need not be sent. acked is the highest
	// number of this producer that was received. If lines at or after o.Next were left
	// out before, acked is the number below the first of them. For docket's own
	// sources, whose Identity is empty, acked is always the highest. An error is
	// ErrTooManyGaps, or means that ctx is done or the exporter is stopping.
	Open(ctx context.Context, o Opening) (s Session, acked uint64, err error)
}

// Opening says who is about to send.
type Opening struct {
	Source string // name of the source in the configuration
	// Identity says who sends, as the source itself has found out: see package
	// identity. Producers of different identities are unrelated, even under one name.
	// Empty: the source itself, whose names no peer can use.
	Identity string
	Producer string // empty: lines are not numbered (plain mode)
	Next     uint64 // the number of the next line, at least 1; 0 when not numbered

	// Evict is called when a newer session claims the same producer. It must
	// not block, and must lead to Session.Close. Unused when not numbered.
	Evict func()
	// Settled is called, in order and from one goroutine at a time, whenever
	// the fate of more lines is durable, perhaps from within Submit. It must not
	// block. May be nil.
	Settled func(Receipt)
	// Drained is called after lines were refused, before more lines are decided. It returns
	// nil when every refusal from Settled has been passed on, so that refusals do not
	// gather. An error ends the session, and Submit returns it. May be nil.
	Drained func(ctx context.Context) error
}

// Session is one producer's way into the queue. Calls must not overlap.
type Session interface {
	// Submit decides the fate of whole lines, each ended by "\n": a line is stored,
	// recognised as a duplicate, or refused. Submit drops a "\r" before the newline. It
	// skips blank lines, which hold only white space of JSON: they have no number. It
	// returns when the lines are on their way to the disk. If they are on disk by then,
	// it has called Settled. It blocks while the queue takes no more. It may overwrite
	// lines, and keeps no reference to them. An error means nothing more can be
	// submitted: the queue has closed, or ctx is done. What was not settled is not
	// decided.
	Submit(ctx context.Context, lines []byte) error
	// SubmitTooLarge refuses one line that the source did not hold in full:
	// prefix is how it begins, length how long it was.
	SubmitTooLarge(ctx context.Context, prefix []byte, length int64) error
	// CountDuplicates counts lines that the source itself knows to be stored
	// already, and did not submit: they have no numbers. It blocks as Submit does.
	CountDuplicates(ctx context.Context, lines int) error
	// Settle waits until everything submitted is settled, or ctx is done.
	Settle(ctx context.Context) error
	// Close ends the session. What was submitted is still settled.
	Close()
}

// Receipt tells a source what has become durable.
type Receipt struct {
	// Through is the highest number whose fate is durable, with the fate of every lower
	// number of the session. 0 when the session is not numbered.
	Through uint64
	// Lines is how many lines this receipt settles, refused ones included.
	Lines int
	// Refused are the lines among them that were not stored.
	Refused []Refusal
	// Alone says that nothing else is under way in the intake: a system call of the
	// receiver delays nobody.
	Alone bool
}
