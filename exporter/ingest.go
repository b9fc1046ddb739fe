package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/sources"
)

// ErrStopping says that the exporter takes no more lines, and no new configuration.
var ErrStopping = errors.New("exporter is stopping")

// ingest is the way from every source into the queue: it decides the fate of
// each line, and keeps one live session for each producer: each name of a source and an
// identity, so that no peer can end, or learn of, the session of another.
type ingest struct {
	queue          *queue.Queue
	maxRecordBytes int
	refused        *refusedLog
	refusing       chan struct{} // has a token from the first refusal of a verdict until its lines are kept: they take memory
	buffers        spareBuffers  // of redacted records
	log            *slog.Logger
	own            *ownRecords
	gaps           func(source string, lines uint64) // counts lines that producers skipped
	oddLoss        sync.Once                         // a loss record that cannot be read is logged once: producers must not fill the log

	// inFlight counts the chunks of all sessions that are not settled.
	inFlight atomic.Int64

	last lastRecords

	mu   sync.Mutex
	live map[queue.Producer]*session // guarded by mu
	// told are the gaps that were told of last, at most maxTold; guarded by mu.
	told map[queue.Producer]state.Gap
}

// maxTold bounds the gaps that are known to be told of. One that is not known any more is
// told again, unless a line behind it was stored.
const maxTold = 1024

// intake is the intake of one source. It implements sources.Intake.
type intake struct {
	*ingest
	redaction *redaction // nil: records are stored as they come
}

// Open implements sources.Intake.
func (in intake) Open(ctx context.Context, o sources.Opening) (sources.Session, uint64, error) {
	s := &session{
		in: in.ingest, opening: o, redaction: in.redaction, last: in.last.of(o.Source), next: o.Next, idle: make(chan struct{}),
		producer: queue.Producer{Source: o.Source, Identity: o.Identity, Name: o.Producer},
	}
	close(s.idle)
	if o.Producer == "" {
		return s, 0, nil
	}
	if err := in.claim(ctx, s); err != nil {
		return nil, 0, err
	}
	numbers, known, err := in.queue.Position(ctx, s.producer)
	if err == nil && !numbers.Fits(o.Next) {
		err = sources.ErrTooManyGaps
	}
	if err != nil {
		s.Close()
		return nil, 0, err
	}
	s.received = numbers
	if known {
		s.jump, s.jumped = numbers.Jump(o.Next)
	}
	return s, numbers.Acked(o.Next), nil
}

// claim makes s the live session of its producer, once the one before has ended
// and all its lines are settled: only then is the producer's position final.
func (in *ingest) claim(ctx context.Context, s *session) error {
	for {
		in.mu.Lock()
		old := in.live[s.producer]
		if old == nil {
			s.gone = make(chan struct{})
			in.live[s.producer] = s
			in.queue.Hold(s.producer)
			in.mu.Unlock()
			return nil
		}
		in.mu.Unlock()
		old.opening.Evict()
		select {
		case <-old.gone:
		case <-ctx.Done():
			return fmt.Errorf("producer %s: waiting for its older connection: %w", s.opening.Producer, context.Cause(ctx))
		}
	}
}

// settled returns once all that ended sessions of a source have submitted is durable, those of
// earlier processes among them. The source has no other session.
func (in *ingest) settled(ctx context.Context, source string) error {
	for {
		var gone <-chan struct{}
		in.mu.Lock()
		for p, s := range in.live {
			if p.Source == source {
				gone = s.gone
			}
		}
		in.mu.Unlock()
		if gone == nil {
			_, _, err := in.queue.Position(ctx, queue.Producer{Source: source})
			return err
		}
		select {
		case <-gone:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the queue: %w", context.Cause(ctx))
		}
	}
}

// maxNamed bounds the producers that a line of the log names.
const maxNamed = 5

// connected names peers of these sources that have a connection in acknowledged mode: each as
// its source, its identity and its name.
func (in *ingest) connected(of map[string]int) []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	var names []string
	for p := range in.live {
		if of[p.Source] > 0 && p.Identity != "" { // docket itself has none
			names = append(names, strings.Join([]string{p.Source, p.Identity, p.Name}, " "))
		}
	}
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return names
}

// session implements sources.Session.
type session struct {
	in        *ingest
	opening   sources.Opening
	producer  queue.Producer // whose name is empty when the lines have no numbers
	redaction *redaction     // nil: records are stored as they came
	last      *atomic.Int64  // when the last record of the source came
	next      uint64         // number of the next line; meaningless without a producer
	received  state.Numbers  // the lines that were received before
	jump      state.Gap      // the numbers that the producer has left out, if jumped
	jumped    bool           // and no line has come yet
	refused   int            // refusals since all were passed on

	mu       sync.Mutex
	inFlight int           // chunks that are not settled; guarded by mu
	idle     chan struct{} // closed while inFlight is 0; guarded by mu
	closed   bool          // guarded by mu
	gone     chan struct{} // closed when the session has ended and is settled; nil without a producer
}

// Submit implements sources.Session.
func (s *session) Submit(ctx context.Context, lines []byte) error {
	for len(lines) > 0 {
		if err := s.drainRefused(ctx); err != nil {
			return err
		}
		rest, err := s.submitFirst(ctx, lines)
		if err != nil {
			return err
		}
		lines = rest
	}
	return nil
}

// submitFirst submits the first of lines, as many as one verdict may hold. Redacted
// records are in memory beside the lines until the queue has them, so only a few are
// made at a time.
func (s *session) submitFirst(ctx context.Context, lines []byte) (rest []byte, err error) {
	if s.redaction != nil {
		if err := s.in.buffers.wait(ctx); err != nil {
			return nil, err
		}
		defer s.in.buffers.next()
	}
	v, rest, err := s.sort(ctx, lines)
	defer v.release()
	defer s.in.buffers.giveBack(v.buffer)
	if err != nil {
		return nil, err
	}
	return rest, s.append(ctx, v)
}

// drainRefused waits until the refusals of earlier lines are settled and passed on, when
// there are as many as may be.
func (s *session) drainRefused(ctx context.Context) error {
	if s.refused < maxRefused {
		return nil
	}
	if err := s.Settle(ctx); err != nil {
		return err
	}
	if s.opening.Drained != nil {
		if err := s.opening.Drained(ctx); err != nil {
			return err
		}
	}
	s.refused = 0
	return nil
}

// SubmitTooLarge implements sources.Session.
func (s *session) SubmitTooLarge(ctx context.Context, prefix []byte, length int64) error {
	if err := s.drainRefused(ctx); err != nil {
		return err
	}
	v := s.newVerdict()
	defer v.release()
	v.lines++
	if number, duplicate := v.number(); duplicate {
		v.chunk.Duplicates++
	} else if err := v.claim(ctx); err != nil {
		return err
	} else {
		detail := fmt.Sprintf("line of %d bytes, at most %d are allowed", length, s.in.maxRecordBytes)
		v.refuse(sources.Refusal{Number: number, Reason: sources.TooLarge, Detail: detail}, lineText{prefix, length})
	}
	return s.append(ctx, v)
}

// CountDuplicates implements sources.Session.
func (s *session) CountDuplicates(ctx context.Context, lines int) error {
	if lines == 0 {
		return nil
	}
	s.begin()
	count := queue.Chunk{Source: s.opening.Source, Received: time.Now(), Lines: lines, Duplicates: lines}
	return s.orFinish(s.in.queue.Append(ctx, &count, s.finish))
}

// orFinish finishes a chunk that the queue has not taken, for which err is why; the
// commit finishes the others.
func (s *session) orFinish(err error) error {
	if err == nil {
		return nil
	}
	s.finish()
	if errors.Is(err, queue.ErrClosed) {
		return ErrStopping
	}
	return err
}

// append hands the verdict to the queue. Refused lines are safe in their log
// before the producer is told about them.
func (s *session) append(ctx context.Context, v *verdict) error {
	if v.lines == 0 {
		return nil
	}
	v.keep()
	// A single line while nothing else is under way is from a producer that waits
	// for its ack.
	put := s.in.queue.Append
	if alone := s.begin(); alone && v.lines == 1 {
		put = s.in.queue.AppendNow
	}
	v.chunk.Lines = v.lines
	v.tally()
	err := s.tellJump(ctx)
	if err == nil {
		err = put(ctx, &v.chunk, v.settled)
	}
	return s.orFinish(err)
}

// tellJump makes a record of the numbers that the producer has left out. It is durable
// before the first line behind them is: after a crash in between it is told again, and
// never forgotten. A hello without a line leaves nothing behind; a line that is not taken,
// however often it comes, leaves one record.
func (s *session) tellJump(ctx context.Context) error {
	if !s.jumped {
		return nil
	}
	if s.in.wasTold(s.producer, s.jump) {
		s.jumped = false
		return nil
	}
	gap := decision.ProducerGap{
		EventType: decision.ProducerGapEvent, Source: s.producer.Source, Identity: s.producer.Identity,
		Producer: s.producer.Name, From: s.jump.From, To: s.jump.To, Time: time.Now().UTC(),
	}
	if err := s.in.own.append(ctx, gap, nil); err != nil {
		return err
	}
	s.jumped = false
	s.in.remember(s.producer, s.jump)
	s.in.gaps(gap.Source, gap.To-gap.From+1)
	s.in.log.Warn("producer skipped lines: they were not received, and will be stored if they arrive later",
		"source", gap.Source, "identity", gap.Identity, "producer", gap.Producer, "first", gap.From, "last", gap.To)
	return nil
}

func (in *ingest) wasTold(p queue.Producer, gap state.Gap) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	last, ok := in.told[p]
	return ok && last == gap
}

// remember keeps that gap was told of.
func (in *ingest) remember(p queue.Producer, gap state.Gap) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.told == nil {
		in.told = map[queue.Producer]state.Gap{}
	}
	if _, ok := in.told[p]; !ok && len(in.told) >= maxTold {
		for other := range in.told {
			delete(in.told, other)
			break
		}
	}
	in.told[p] = gap
}

// keep makes refused lines durable in their log.
func (v *verdict) keep() {
	if len(v.kept) == 0 {
		return
	}
	v.s.in.refused.add(v.s.opening.Source, v.kept)
	v.kept = nil
	v.release()
}

// claim waits until this verdict may hold refused lines. Its error is that of ctx.
func (v *verdict) claim(ctx context.Context) error {
	if v.claimed {
		return nil
	}
	select {
	case v.s.in.refusing <- struct{}{}:
		v.claimed = true
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the log of refused lines: %w", context.Cause(ctx))
	}
}

func (v *verdict) release() {
	if v.claimed {
		v.claimed = false
		<-v.s.in.refusing
	}
}

// settled runs on the goroutine that makes the commit.
func (v *verdict) settled() {
	s := v.s
	if v.chunk.Count > 0 {
		s.last.Store(v.chunk.Received.UnixNano())
	}
	if s.opening.Settled != nil {
		s.opening.Settled(sources.Receipt{
			Through: v.chunk.Position, Lines: v.lines, Refused: v.refused,
			Alone: s.in.inFlight.Load() == 1,
		})
	}
	s.finish()
}

// begin counts a chunk that is under way, and reports whether it is the only one.
func (s *session) begin() (alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight == 0 {
		s.idle = make(chan struct{})
	}
	s.inFlight++
	return s.in.inFlight.Add(1) == 1
}

func (s *session) finish() {
	s.in.inFlight.Add(-1)
	s.mu.Lock()
	s.inFlight--
	if s.inFlight == 0 {
		close(s.idle)
	}
	over := s.closed && s.inFlight == 0
	s.mu.Unlock()
	if over {
		s.leave()
	}
}

// Settle implements sources.Session.
func (s *session) Settle(ctx context.Context) error {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the queue: %w", context.Cause(ctx))
	}
}

// Close implements sources.Session.
func (s *session) Close() {
	s.mu.Lock()
	over := !s.closed && s.inFlight == 0
	s.closed = true
	s.mu.Unlock()
	if over {
		s.leave()
	}
}

// leave lets the next session of the producer in.
func (s *session) leave() {
	if s.gone == nil {
		return
	}
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.in.queue.Release(s.producer)
	delete(s.in.live, s.producer)
	close(s.gone)
}
