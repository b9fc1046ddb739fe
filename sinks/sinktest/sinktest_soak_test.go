//go:build soak

package sinktest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/sinks"
)

// defectVariable selects the defect of the memory sink in a child process.
const defectVariable = "SINKTEST_DEFECT"

// TestMemory runs the suite over a sink that keeps every promise, or, in a child
// of TestDefects, over one that breaks one of them.
func TestMemory(t *testing.T) {
	defect := os.Getenv(defectVariable)
	Run(t, func(t *testing.T) Subject { return newDestination(defect).subject() })
}

// TestDefects breaks one promise after the other and wants the suite to notice.
func TestDefects(t *testing.T) {
	for _, tt := range []struct{ defect, failing string }{
		{"loses the second record", "many_records_in_one_batch"},
		{"turns batches round", "many_batches_keep_their_order"},
		{"fails without records", "no_record"},
		{"loses a batch that overlaps", "overlapping_sends"},
		{"trims white space", "byte_for_byte/white_space"},
		{"takes no large record", "largest_record"},
		{"calls too large Transient", "record_too_large"},
		{"keeps the bytes", "bytes_stay_the_caller's"},
		{"writes to the bytes", "bytes_stay_the_caller's"},
		{"forgets at reopening", "reopen"},
		{"takes redeliveries twice", "redelivery"},
		{"fails at a second close", "close"},
		{"ignores a done context", "cancel_before_send"},
		{"ignores a context done in mid-send", "cancel_in_mid-send"},
		{"hides the context's error", "cancel_in_mid-send"},
		{"calls faults Rejected", "fault/refusing"},
		{"says nothing of the delay", "fault/throttling"},
		{"takes a failed batch for known", "fault/refusing"},
		{"leaves a goroutine", "one_record"},
	} {
		t.Run(tt.defect, func(t *testing.T) {
			t.Parallel()
			group, _, _ := strings.Cut(tt.failing, "/")
			cmd := exec.Command(os.Args[0], "-test.run=^TestMemory$/^"+group+"$")
			cmd.Env = append(os.Environ(), defectVariable+"="+tt.defect)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the suite passed a sink that %s", tt.defect)
			}
			if !strings.Contains(string(out), "--- FAIL: TestMemory/"+tt.failing+" ") {
				t.Fatalf("subtest %s did not fail on a sink that %s:\n%s", tt.failing, tt.defect, out)
			}
		})
	}
}

// destination keeps records in memory.
type destination struct {
	defect  string
	sending sync.Mutex // held while records are taken

	mu      sync.Mutex
	records [][]byte
	known   map[uint64]bool // seqs of records
	fault   error
	hang    chan struct{} // nil: answers at once
	reached chan struct{}
}

const maxMemoryRecord = 2 << 20

func newDestination(defect string) *destination { return &destination{defect: defect} }

func (d *destination) subject() Subject {
	fault := func(kind sinks.Kind, after time.Duration) func(*testing.T) func() {
		return func(*testing.T) func() {
			if d.defect == "calls faults Rejected" {
				kind = sinks.Rejected
			}
			if d.defect == "says nothing of the delay" {
				after = 0
			}
			d.set(func() { d.fault = &sinks.Failure{Kind: kind, After: after, Err: errors.New("refused")} })
			return func() { d.set(func() { d.fault = nil }) }
		}
	}
	return Subject{
		Open: func(*testing.T) sinks.Sink {
			if d.defect == "forgets at reopening" {
				d.records, d.known = nil, nil
			}
			return &memorySink{d: d}
		},
		Accepted:   d.accepted,
		Recognises: true,
		MaxRecord:  maxMemoryRecord,
		Overlap:    3,
		Faults: []Fault{
			{Name: "refusing", Kind: sinks.Transient, Start: fault(sinks.Transient, 0)},
			{Name: "throttling", Kind: sinks.Throttled, After: time.Minute, Start: fault(sinks.Throttled, time.Minute)},
		},
		Hang: func(*testing.T) (<-chan struct{}, func()) {
			hang, reached := make(chan struct{}), make(chan struct{})
			d.set(func() { d.hang, d.reached = hang, reached })
			return reached, func() {
				d.set(func() { d.hang = nil })
				close(hang)
			}
		},
	}
}

func (d *destination) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *destination) know(seq uint64) {
	if d.known == nil {
		d.known = map[uint64]bool{}
	}
	d.known[seq] = true
}

func (d *destination) accepted(*testing.T) []string {
	list := make([]string, len(d.records))
	for i, r := range d.records {
		list[i] = string(r)
	}
	if d.defect == "turns batches round" {
		slices.Reverse(list)
	}
	return list
}

type memorySink struct {
	d      *destination
	closed bool
}

func (s *memorySink) Send(ctx context.Context, b sinks.Batch) error {
	if s.d.defect == "leaves a goroutine" {
		go func() { select {} }()
	}
	if err := ctx.Err(); err != nil && s.d.defect != "ignores a done context" {
		return err
	}
	if len(b.Items) == 0 {
		if s.d.defect == "fails without records" {
			return errors.New("nothing to send")
		}
		return nil
	}
	if err := s.waitForAnswer(ctx); err != nil {
		return err
	}
	if s.d.defect == "loses a batch that overlaps" {
		if !s.d.sending.TryLock() {
			return nil
		}
		time.Sleep(time.Millisecond) // long enough for another to come
	} else {
		s.d.sending.Lock()
	}
	defer s.d.sending.Unlock()
	for i, it := range b.Items {
		if len(it.Record) > maxMemoryRecord {
			return s.tooLarge(i)
		}
	}
	if s.d.fault == nil {
		s.accept(b)
	} else if s.d.defect == "takes a failed batch for known" {
		for _, it := range b.Items {
			s.d.know(it.Seq)
		}
	}
	return s.d.fault
}

func (s *memorySink) waitForAnswer(ctx context.Context) error {
	s.d.mu.Lock()
	hang := s.d.hang
	s.d.mu.Unlock()
	if hang == nil {
		return nil
	}
	close(s.d.reached)
	if s.d.defect == "ignores a context done in mid-send" {
		<-ctx.Done()
		<-time.After(prompt + time.Second)
		return ctx.Err()
	}
	select {
	case <-hang:
		return nil
	case <-ctx.Done():
		if s.d.defect == "hides the context's error" {
			return errors.New("no answer")
		}
		return ctx.Err()
	}
}

func (s *memorySink) tooLarge(i int) error {
	kind := sinks.Rejected
	if s.d.defect == "calls too large Transient" {
		kind = sinks.Transient
	}
	return &sinks.Failure{Kind: kind, Items: []int{i}, Err: errors.New("record too large")}
}

func (s *memorySink) accept(b sinks.Batch) {
	for i, it := range b.Items {
		if s.d.known[it.Seq] && s.d.defect != "takes redeliveries twice" {
			continue
		}
		s.d.know(it.Seq)
		r := slices.Clone(it.Record)
		switch {
		case s.d.defect == "loses the second record" && i == 1,
			s.d.defect == "takes no large record" && len(r) >= largest:
			continue
		case s.d.defect == "trims white space":
			r = []byte(strings.TrimSpace(string(r)))
		case s.d.defect == "keeps the bytes":
			r = it.Record
		case s.d.defect == "writes to the bytes":
			it.Record[0] = ' '
		}
		s.d.records = append(s.d.records, r)
	}
}

func (s *memorySink) Close(context.Context) error {
	if s.closed && s.d.defect == "fails at a second close" {
		return errors.New("closed already")
	}
	s.closed = true
	return nil
}
