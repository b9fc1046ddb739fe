package feed_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/feed"
	"github.com/docket-export/docket/sources/sourcetest"
)

const producer = "test/file"

func open(t *testing.T, in sources.Intake, next uint64) (*feed.Feed, uint64) {
	t.Helper()
	f, acked, err := feed.Open(t.Context(), in, "test", producer, next)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return f, acked
}

// line is the line of that number.
func line(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }

func lines(from, to int) []byte {
	var b []byte
	for n := from; n <= to; n++ {
		b = append(append(b, line(n)...), '\n')
	}
	return b
}

func send(t *testing.T, f *feed.Feed, from, to int) {
	t.Helper()
	if err := f.Send(t.Context(), lines(from, to), to-from+1); err != nil {
		t.Fatalf("Send %d to %d: %v", from, to, err)
	}
}

func settle(t *testing.T, f *feed.Feed) {
	t.Helper()
	if err := f.Settle(t.Context()); err != nil {
		t.Fatalf("Settle: %v", err)
	}
}

// expect compares what was settled with lines 1 to n, each once, in order, and under its
// number.
func expect(t *testing.T, in *sourcetest.Intake, n int) {
	t.Helper()
	got := in.Lines()
	for i, l := range got {
		if want := (sourcetest.Line{Producer: producer, Number: uint64(i + 1), Text: line(i + 1)}); l != want {
			t.Fatalf("settled line %d is %+v, want %+v", i+1, l, want)
		}
	}
	if len(got) != n {
		t.Fatalf("got %d lines, want %d", len(got), n)
	}
}

func TestSend(t *testing.T) {
	in := sourcetest.New()
	defer in.Close()
	f, acked := open(t, in, 1)
	defer f.Close()
	if acked != 0 || f.Settled() != 0 || f.Next() != 1 {
		t.Errorf("at the start: acked %d, settled %d, next %d, want 0, 0 and 1", acked, f.Settled(), f.Next())
	}
	buffer := lines(1, 3)
	if err := f.Send(t.Context(), buffer, 3); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buffer, lines(1, 3)) {
		t.Errorf("the caller's lines are %q now", buffer)
	}
	clear(buffer) // which is the caller's again
	send(t, f, 4, 4)
	if err := f.Send(t.Context(), nil, 0); err != nil {
		t.Fatal(err)
	}
	settle(t, f)
	if f.Settled() != 4 || f.Next() != 5 {
		t.Errorf("settled %d, next %d, want 4 and 5", f.Settled(), f.Next())
	}
	expect(t, in, 4)
}

// A reader that comes again may send from any earlier point, or from behind it.
func TestResume(t *testing.T) {
	tests := map[string]struct {
		next  uint64
		known int // lines that are recognised
	}{
		"from the start":   {1, 5},
		"from the middle":  {3, 3},
		"with one known":   {5, 1},
		"with what is new": {6, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := sourcetest.New()
			defer in.Close()
			f, _ := open(t, in, 1)
			send(t, f, 1, 5)
			settle(t, f)
			f.Close()

			f, acked := open(t, in, tt.next)
			defer f.Close()
			if acked != 5 || f.Settled() != 5 || f.Next() != tt.next {
				t.Errorf("acked %d, settled %d, next %d, want 5, 5 and %d", acked, f.Settled(), f.Next(), tt.next)
			}
			for n := int(tt.next); n <= 8; n++ {
				send(t, f, n, n)
			}
			settle(t, f)
			expect(t, in, 8)
			if in.Known() != tt.known {
				t.Errorf("%d lines were recognised, want %d", in.Known(), tt.known)
			}
		})
	}
}

// A full queue is asked again until it has room. What it had taken before is not sent
// again.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := sourcetest.New()
		defer in.Close()
		f, _ := open(t, in, 1)
		defer f.Close()
		in.Hold()
		send(t, f, 1, 2) // taken, and not durable
		in.Fill()
		sent := make(chan error)
		go func() { sent <- f.Send(t.Context(), lines(3, 5), 3) }()
		synctest.Wait()
		in.Release()
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case err := <-sent:
			t.Fatalf("Send has returned while the queue is full: %v", err)
		default:
		}
		expect(t, in, 2)
		in.Drain()
		start := time.Now()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it was asked again after %v, want some seconds", took)
		}
		if err := f.SendTooLarge(t.Context(), []byte(`{"n":6,`), 1<<30); err != nil {
			t.Fatal(err)
		}
		send(t, f, 7, 7)
		settle(t, f)
		want := []sourcetest.Line{
			{Producer: producer, Number: 6, Text: `{"n":6,`, Refused: sources.TooLarge},
			{Producer: producer, Number: 7, Text: line(7)},
		}
		if got := in.Lines()[5:]; !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if in.Known() != 0 {
			t.Errorf("%d lines were sent again that the queue had taken", in.Known())
		}
	})
}

// A feed that has failed or was closed says so, and can be closed again.
func TestOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := sourcetest.New()
		defer in.Close()
		f, _ := open(t, in, 1)
		in.Fill()
		time.AfterFunc(time.Minute, in.Crash) // it cannot be opened again
		if err := f.Send(t.Context(), lines(1, 1), 1); err == nil {
			t.Error("Send: got nil, want the error of the intake")
		}
		for range 2 {
			if err := f.Send(t.Context(), lines(1, 1), 1); err == nil {
				t.Error("Send after an error: got nil")
			}
			if err := f.SendTooLarge(t.Context(), []byte("{"), 10); err == nil {
				t.Error("SendTooLarge after an error: got nil")
			}
			if err := f.Settle(t.Context()); err == nil {
				t.Error("Settle after an error: got nil")
			}
			f.Close()
		}
		if f, _, err := feed.Open(t.Context(), in, "test", producer, 1); err == nil || f != nil {
			t.Errorf("Open: got %v, %v, want an error", f, err)
		}
	})
}

func TestProducer(t *testing.T) {
	legal := regexp.MustCompile(`^[A-Za-z0-9._:/-]{1,128}$`)
	tests := map[string]struct {
		parts []string
		want  string // empty: with a hash
	}{
		"one part":       {[]string{"gatekeeper"}, "gatekeeper"},
		"parts":          {[]string{"gk", "audit-channel", "2026-01-05T10_04_00Z.log", "12:34"}, "gk/audit-channel/2026-01-05T10_04_00Z.log/12:34"},
		"128 characters": {[]string{strings.Repeat("a", 126), "b"}, strings.Repeat("a", 126) + "/b"},
		"129 characters": {[]string{strings.Repeat("a", 127), "b"}, ""},
		"very long":      {[]string{strings.Repeat("a", 5000)}, ""},
		"unfit":          {[]string{"my source", "b"}, ""},
		"not ASCII":      {[]string{strings.Repeat("é", 100)}, ""},
		"not UTF-8":      {[]string{"a\xffb"}, ""},
		"a newline":      {[]string{"a\nb"}, ""},
		"a slash":        {[]string{"a/b", "c"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := feed.Producer(tt.parts...)
			if !legal.MatchString(got) || tt.want != "" && got != tt.want || got != feed.Producer(tt.parts...) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	names := make(map[string][]string)
	for _, parts := range [][]string{
		{"a", "b", "c"}, {"a/b", "c"}, {"a", "b/c"}, {"a/b/c"}, {"a", "b c"}, {"a", "b_c"}, {"a", "b\tc"}, {"a b", "c"}, {"a", "", "b"}, {"a", "/b"},
		{strings.Repeat("a", 200), "b"}, {strings.Repeat("a", 200), "c"}, {strings.Repeat("a", 201), "b"},
	} {
		name := feed.Producer(parts...)
		if other, ok := names[name]; ok {
			t.Errorf("%q and %q are both %q", other, parts, name)
		}
		names[name] = parts
	}
}
