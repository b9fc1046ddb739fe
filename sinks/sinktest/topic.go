package sinktest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Topic is a destination in memory that keeps records and the position behind them in one
// step, for tests of what uses a sinks.Resuming. It outlives its sinks. Its methods may
// be called at any time.
type Topic struct {
	mu       sync.Mutex
	taken    []Taken
	position sinks.Position
	found    bool
	owner    *topicSink // that has resumed last
	claims   int

	// Hook is called before each request, and again when it is done, whatever its outcome. Its
	// error becomes the error of the request: an answer that is lost, in the second case. Set
	// before the first sink is opened; nil: nothing fails.
	Hook func(at Request) error
	// Rejects says which records the topic will never take. nil: none.
	Rejects func(it sinks.Item) bool
	// Vague hides from the sink which records of a batch these are.
	Vague bool
}

// Taken is a record in a Topic.
type Taken struct {
	Seq  uint64
	Late sinks.Late
	Text string
}

// Request is one that a sink makes of its Topic.
type Request struct {
	Sink string // TopicConfig.Label
	Name string // "read" the position, "claim" it, or "commit" a transaction
	Done bool
}

// Taken returns the records, in the order in which they were taken.
func (t *Topic) Taken() []Taken {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.taken)
}

// Position returns the position of the queue; found is false without one.
func (t *Topic) Position() (at sinks.Position, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.position, t.found
}

// SetPosition sets the position, as another docket would.
func (t *Topic) SetPosition(at sinks.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.position, t.found = at, true
}

// Claims is how often a sink has made a position its own.
func (t *Topic) Claims() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.claims
}

// TopicConfig is the configuration of a sink of a Topic.
type TopicConfig struct {
	Topic *Topic `yaml:"-"`
	Label string `yaml:"label"`
	// Most is what Gather returns, unless it is zero.
	Most sinks.BatchLimits `yaml:"-"`
}

// Validate implements sinks.Config.
func (*TopicConfig) Validate() config.Problems { return nil }

// Transacts implements sinks.Transacting.
func (*TopicConfig) Transacts() bool { return true }

// Gather implements sinks.Gatherer.
func (c *TopicConfig) Gather(configured sinks.BatchLimits) sinks.BatchLimits {
	if c.Most.MaxRecords == 0 {
		return configured
	}
	return c.Most
}

// Open implements sinks.Config.
func (c *TopicConfig) Open(_ context.Context, env sinks.Env) (sinks.Sink, error) {
	return &topicSink{topic: c.Topic, label: c.Label, observer: env.Transactions}, nil
}

// topicSink writes to a Topic.
type topicSink struct {
	topic    *Topic
	label    string
	observer sinks.Observer
	fenced   bool
	known    bool   // next is that of the topic
	next     uint64 // seq of the first record that the topic does not have
	replayed int64
	lineage  sinks.Lineage
}

// errFenced is Send's once another sink has resumed.
var errFenced = &sinks.Failure{Kind: sinks.Misconfigured, Reason: sinks.Fenced, Err: errors.New("another docket has begun to write with the same queue and sink")}

// ask makes one request. What became of it is not known after an error.
func (s *topicSink) ask(ctx context.Context, name string, do func() error) error {
	err := ctx.Err()
	if err == nil {
		err = s.topic.hook(Request{s.label, name, false})
	}
	if err == nil {
		s.topic.mu.Lock()
		err = do()
		s.topic.mu.Unlock()
		if lost := s.topic.hook(Request{s.label, name, true}); err == nil {
			err = lost
		}
	}
	s.known = s.known && err == nil
	return err
}

func (t *Topic) hook(at Request) error {
	if t.Hook == nil {
		return nil
	}
	return t.Hook(at)
}

// own fails for a sink that another has taken over from. Callers hold topic.mu.
func (s *topicSink) own() error {
	if s.topic.owner == s {
		return nil
	}
	if s.observer != nil && !s.fenced {
		s.observer.Fenced()
	}
	s.fenced = true
	return errFenced
}

// Resume implements sinks.Resuming.
func (s *topicSink) Resume(ctx context.Context, _ sinks.Queue, decide sinks.Decide) error {
	if s.fenced {
		return errFenced
	}
	s.known = false
	var at, goOn sinks.Position
	var found bool
	err := s.ask(ctx, "read", func() error {
		at, found = s.topic.position, s.topic.found
		return nil
	})
	if err == nil {
		goOn, err = decide(at, found)
	}
	if err != nil {
		return err
	}
	err = s.ask(ctx, "claim", func() error {
		if s.topic.position.Next != at.Next || s.topic.position.Replayed != at.Replayed {
			return errors.New("the position has moved meanwhile")
		}
		s.topic.owner, s.topic.position, s.topic.found = s, goOn, true
		s.topic.claims++
		return nil
	})
	if err != nil {
		return err
	}
	s.committed(goOn.Next)
	s.known, s.next, s.replayed, s.lineage = true, goOn.Next, goOn.Replayed, goOn.Lineage
	return nil
}

func (s *topicSink) committed(next uint64) {
	if s.observer != nil {
		s.observer.Committed(next)
	}
}

// Send implements sinks.Sink.
func (s *topicSink) Send(ctx context.Context, b sinks.Batch) error {
	if s.fenced {
		return errFenced
	}
	if s.replayed == 0 && s.next == 0 {
		return errors.New("has not been resumed")
	}
	if !s.known {
		s.known = true
		before := s.next
		err := s.ask(ctx, "read", func() error {
			s.next, s.replayed = s.topic.position.Next, s.topic.position.Replayed
			return s.own()
		})
		if err != nil {
			return err
		}
		if s.next != before {
			s.committed(s.next) // what had no answer
		}
	}
	var list []Taken
	var rejected []int
	after := sinks.Position{Next: s.next, Replayed: s.replayed, Lineage: s.lineage}
	moves := false
	for i, it := range b.Items {
		switch {
		case it.Late != sinks.Redriven && it.Seq < s.next:
			continue
		case s.topic.Rejects != nil && s.topic.Rejects(it):
			rejected = append(rejected, i)
			continue
		case it.Late != sinks.Redriven:
			after.Next, moves = it.Seq+1, true
		}
		list = append(list, Taken{Seq: it.Seq, Late: it.Late, Text: string(it.Record)})
	}
	if rejected != nil {
		if s.observer != nil {
			s.observer.Aborted()
		}
		if s.topic.Vague {
			rejected = nil
		}
		return &sinks.Failure{Kind: sinks.Rejected, Items: rejected, Err: errors.New("will never be taken")}
	}
	if list == nil {
		return ctx.Err()
	}
	err := s.ask(ctx, "commit", func() error {
		if err := s.own(); err != nil {
			return err
		}
		s.topic.taken = append(s.topic.taken, list...)
		if moves {
			s.topic.position = after
		}
		return nil
	})
	if err == nil {
		s.next = after.Next
		s.committed(s.next)
	}
	return err
}

// Close implements sinks.Sink.
func (*topicSink) Close(context.Context) error { return nil }
