package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
)

func TestCensus(t *testing.T) {
	b := record.NewBlock(2)
	text := bytes.Clone(b.Next(0, 4))
	changed := bytes.Replace(text, []byte("deny"), []byte("Deny"), 1)
	tests := map[string]struct {
		text []byte
		want count
	}{
		"records":             {text, count{Records: 4}},
		"some twice":          {append(bytes.Clone(text), text[:2*record.Bytes]...), count{Records: 4, Again: 2}},
		"one changed":         {changed, count{Records: 3, Broken: 1}},
		"no newline at last":  {text[:len(text)-1], count{Records: 4}},
		"one cut short":       {text[:len(text)-2], count{Records: 3, Broken: 1}},
		"something else":      {[]byte("hello\n"), count{Broken: 1}},
		"an empty line":       {[]byte("\n"), count{Broken: 1}},
		"a producer too many": {bytes.ReplaceAll(text[:record.Bytes], []byte("-002000"), []byte("-009000")), count{Broken: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCensus()
			c.take(trial.Must(lines(tt.text)))
			got, _ := c.read()
			if got.Example = ""; got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			name := filepath.Join(t.TempDir(), "some.ndjson")
			if err := os.WriteFile(name, tt.text, 0o600); err != nil {
				t.Fatal(err)
			}
			attempt(t, func(*trial.T) {
				got := countFiles(filepath.Dir(name))
				if got.Example = ""; got != tt.want {
					t.Errorf("of a file: got %+v, want %+v", got, tt.want)
				}
			})
		})
	}
}

func TestArrivals(t *testing.T) {
	began := time.Now()
	var a arrivals
	for i, n := range []int{10, 25, 30} {
		a = append(a, arrival{n, began.Add(time.Duration(i) * time.Second)})
	}
	for n, want := range map[int]int{1: 0, 10: 0, 11: 1, 25: 1, 30: 2} {
		attempt(t, func(*trial.T) {
			if got := a.at(n).Sub(began); got != time.Duration(want)*time.Second {
				t.Errorf("%d records: got %v, want %d s", n, got, want)
			}
		})
	}
	if err := trial.Run(t.Context(), func(*trial.T) { a.at(31) }); err == nil {
		t.Error("31 of 30 records: got no error")
	}
}

// A destination counts lines as they are and in bulk requests, and says when they
// came.
func TestReceiver(t *testing.T) {
	l := newTestLab(t)
	attempt(t, func(tr *trial.T) {
		l.T = tr
		s := l.newStand(standIn(t, keeping), false, 0)
		s.openSink()
		b := record.NewBlock(1)
		address := "http://" + net.JoinHostPort(s.at.Host, s.at.Port)
		trial.Check(send(address+"/", b.Next(0, 3)))
		var bulk strings.Builder
		for n := range 2 {
			bulk.WriteString(`{"index":{"_index": "decisions"}}` + "\n")
			bulk.Write(b.Next(3+n, 1))
		}
		trial.Check(send(address+bulkPath, []byte(bulk.String())))
		c, times := s.sink.read()
		if want := (count{Records: 5}); c != want {
			t.Errorf("got %+v, want %+v", c, want)
		}
		if len(times) != 2 || times[0].Records != 3 || times[1].Records != 5 || times[0].At.After(times[1].At) {
			t.Errorf("got %+v, want 3 records and then 5", times)
		}
	})
}

// A bulk request has records as documents, or as their messages.
func TestBulk(t *testing.T) {
	line := bytes.TrimSpace(record.NewBlock(0).Next(0, 1))
	document := fmt.Sprintf(`{"@timestamp":"2026-11-21T08:07:16.213Z","message":%q,"host":{"name":"h"}}`, line)
	got, err := bulk(fmt.Appendf(nil, "{\"create\":{}}\n%s\n{\"index\":{}}\n%s\n{\"index\":{}}\n{}\n", document, line))
	if err != nil || len(got) != 3 || !bytes.Equal(got[0], line) || !bytes.Equal(got[1], line) || string(got[2]) != "{}" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestMissing(t *testing.T) {
	c := newCensus()
	b := record.NewBlock(0)
	for _, n := range []int{0, 2} {
		c.take(trial.Must(lines(b.Next(n, 1))))
	}
	for sent, want := range []int{0, 0, 1, 1, 2} {
		if got := c.missing([]int{sent, 0}); got != want {
			t.Errorf("of %d: got %d missing, want %d", sent, got, want)
		}
	}
}
