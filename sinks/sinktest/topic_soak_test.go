//go:build soak

package sinktest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docket-export/docket/sinks"
)

// TestTopic runs the suite over the sink of a Topic or, in a child of TestTopicDefects, over
// one that breaks one promise.
func TestTopic(t *testing.T) {
	defect := os.Getenv(defectVariable)
	Run(t, func(t *testing.T) Subject { return topicSubject(defect) })
}

func topicSubject(defect string) Subject {
	var fails atomic.Bool
	topic := &Topic{
		Hook: func(at Request) error {
			if at.Name == "commit" && !at.Done && fails.Load() {
				return errors.New("cut off")
			}
			return nil
		},
		Rejects: func(it sinks.Item) bool { return len(it.Record) > maxMemoryRecord },
	}
	start := func(*testing.T) func() {
		fails.Store(true)
		return func() { fails.Store(false) }
	}
	return Subject{
		Open: func(t *testing.T) sinks.Sink {
			sink, err := (&TopicConfig{Topic: topic}).Open(t.Context(), sinks.Env{Name: "topic"})
			if err != nil {
				t.Fatal(err)
			}
			return &defectiveTopicSink{Resuming: sink.(sinks.Resuming), topic: topic, defect: defect}
		},
		Accepted: func(*testing.T) (list []string) {
			for _, r := range topic.Taken() {
				list = append(list, r.Text)
			}
			return list
		},
		Recognises: true, Transactional: true, MaxRecord: maxMemoryRecord,
		Faults: []Fault{{Name: "cut off", Kind: sinks.Transient, Start: start}},
	}
}

// defectiveTopicSink breaks one promise.
type defectiveTopicSink struct {
	sinks.Resuming
	topic  *Topic
	defect string
}

func (s *defectiveTopicSink) Resume(ctx context.Context, queue sinks.Queue, decide sinks.Decide) error {
	switch s.defect {
	case "forgets the lineage":
		return s.Resuming.Resume(ctx, queue, func(at sinks.Position, found bool) (sinks.Position, error) {
			at.Lineage = nil
			return decide(at, found)
		})
	case "goes on where it is, whatever was decided":
		return s.Resuming.Resume(ctx, queue, func(at sinks.Position, found bool) (sinks.Position, error) {
			decided, err := decide(at, found)
			if found {
				decided = at
			}
			return decided, err
		})
	case "fences before the decision":
		s.topic.mu.Lock()
		s.topic.owner = nil
		s.topic.mu.Unlock()
	}
	return s.Resuming.Resume(ctx, queue, decide)
}

func (s *defectiveTopicSink) Send(ctx context.Context, b sinks.Batch) error {
	err := s.Resuming.Send(ctx, b)
	switch {
	case s.defect == "does not say that it is fenced" && sinks.FailureOf(err).Reason != "":
		return sinks.Failf(sinks.Misconfigured, "fenced")
	case s.defect == "moves the position with a redriven record" && len(b.Items) == 1 && b.Items[0].Late == sinks.Redriven:
		at, _ := s.topic.Position()
		at.Next = b.Items[0].Seq + 1
		s.topic.SetPosition(at)
		s.Resuming.(*topicSink).known = false
	}
	return err
}

// TestTopicDefects breaks one promise after the other and wants the suite to notice.
func TestTopicDefects(t *testing.T) {
	for _, tt := range []struct{ defect, failing string }{
		{"forgets the lineage", "position"},
		{"goes on where it is, whatever was decided", "decision"},
		{"fences before the decision", "refused_decision"},
		{"does not say that it is fenced", "fenced"},
		{"moves the position with a redriven record", "redriven"},
	} {
		t.Run(tt.defect, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestTopic$/^"+tt.failing+"$")
			cmd.Env = append(os.Environ(), defectVariable+"="+tt.defect)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestTopic/"+tt.failing+" ") {
				t.Fatalf("subtest %s did not fail on a sink that %s:\n%s", tt.failing, tt.defect, out)
			}
		})
	}
}

// A commit whose answer is lost is found out about: nothing of it is there twice.
func TestTopicLosesAnswers(t *testing.T) {
	s := topicSubject("")
	lost := 0
	sink := open(t, s)
	topic := sink.(*defectiveTopicSink).topic
	topic.Hook = func(at Request) error {
		if at.Name == "commit" && at.Done && lost == 0 {
			lost++
			return errors.New("cut off")
		}
		return nil
	}
	if err := attempt(t, context.Background(), sink, batchOf(1, texts(1, 3)...)); err == nil {
		t.Fatal("Send = nil without an answer")
	}
	send(t, sink, batchOf(1, texts(1, 5)...))
	wantAccepted(t, s, texts(1, 5))
}
