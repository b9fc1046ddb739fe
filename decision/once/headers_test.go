package once_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision/once"
)

const (
	queueA = "6f0c2a51-9d3e-4b7a-8f10-2c4d5e6f7a8b"
	queueB = "0b6f1c1e-5a0e-4a57-9a55-2f6f0c3f7f10"
)

// header is a header as Kafka libraries have it.
type header struct {
	Key   string
	Value []byte
}

func split(h header) (key string, value []byte) { return h.Key, h.Value }

// headers makes them from "key=value" texts.
func headers(texts ...string) []header {
	var hs []header
	for _, text := range texts {
		key, value, _ := strings.Cut(text, "=")
		hs = append(hs, header{key, []byte(value)})
	}
	return hs
}

func TestParseHeaders(t *testing.T) {
	tests := map[string]struct {
		headers []string
		want    once.Delivery
	}{
		"in order": {
			[]string{"docket-id=" + queueA + "-17", "docket-seq=17", "docket-source=webhook", "docket-received=2026-01-02T03:04:05Z"},
			once.Delivery{Queue: queueA, Seq: 17},
		},
		"among others, in any order": {
			[]string{"trace=1", "docket-seq=1", "docket-producer=p", "docket-id=" + queueA + "-1"},
			once.Delivery{Queue: queueA, Seq: 1},
		},
		"replayed": {
			[]string{"docket-id=" + queueA + "-17", "docket-seq=17", "docket-late=Replayed"},
			once.Delivery{Queue: queueA, Seq: 17, Late: once.Replayed},
		},
		"redriven": {
			[]string{"docket-late=Redriven", "docket-id=" + queueA + "-17", "docket-seq=17"},
			once.Delivery{Queue: queueA, Seq: 17, Late: once.Redriven},
		},
		"late for a reason of tomorrow": {
			[]string{"docket-id=" + queueA + "-17", "docket-seq=17", "docket-late=Moved"},
			once.Delivery{Queue: queueA, Seq: 17, Late: "Moved"},
		},
		"largest seq": {
			[]string{"docket-id=" + queueA + "-18446744073709551615", "docket-seq=18446744073709551615"},
			once.Delivery{Queue: queueA, Seq: 1<<64 - 1},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := once.ParseHeaders(headers(tt.headers...), split)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestHeadersThatAreNotDockets(t *testing.T) {
	for name, hs := range map[string][]header{
		"none":         nil,
		"others":       headers("trace=1", "Docket-Id=x", "docket-source=webhook"),
		"a value only": headers("x=docket-seq"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := once.ParseHeaders(hs, split)
			if !errors.Is(err, once.ErrNotDocket) || got != (once.Delivery{}) {
				t.Errorf("got %+v, %v, want the zero Delivery and ErrNotDocket", got, err)
			}
		})
	}
}

func TestBrokenHeaders(t *testing.T) {
	const want1to = "want a whole number from 1 to 18446744073709551615"
	tests := map[string]struct {
		headers []string
		want    string // in the error
	}{
		"no id":              {[]string{"docket-seq=1"}, "header docket-id is missing"},
		"no seq":             {[]string{"docket-id=" + queueA + "-1"}, "header docket-seq is missing"},
		"late alone":         {[]string{"docket-late=Redriven"}, "header docket-id is missing\nheader docket-seq is missing"},
		"two ids":            {[]string{"docket-id=" + queueA + "-1", "docket-id=" + queueA + "-1", "docket-seq=1"}, "header docket-id occurs 2 times"},
		"two seqs":           {[]string{"docket-id=" + queueA + "-1", "docket-seq=1", "docket-seq=2"}, "header docket-seq occurs 2 times"},
		"two lates":          {[]string{"docket-id=" + queueA + "-1", "docket-seq=1", "docket-late=Redriven", "docket-late="}, "header docket-late occurs 2 times"},
		"empty late":         {[]string{"docket-id=" + queueA + "-1", "docket-seq=1", "docket-late="}, "header docket-late is empty"},
		"empty seq":          {[]string{"docket-id=" + queueA + "-", "docket-seq="}, `header docket-seq is "": ` + want1to},
		"seq zero":           {[]string{"docket-id=" + queueA + "-0", "docket-seq=0"}, `header docket-seq is "0": ` + want1to},
		"seq with a sign":    {[]string{"docket-id=" + queueA + "-+1", "docket-seq=+1"}, `header docket-seq is "+1": ` + want1to},
		"negative seq":       {[]string{"docket-id=" + queueA + "--1", "docket-seq=-1"}, `header docket-seq is "-1": ` + want1to},
		"seq with a zero":    {[]string{"docket-id=" + queueA + "-07", "docket-seq=07"}, `header docket-seq is "07": ` + want1to},
		"seq beyond 64 bits": {[]string{"docket-id=" + queueA + "-18446744073709551616", "docket-seq=18446744073709551616"}, want1to},
		"seq of another id":  {[]string{"docket-id=" + queueA + "-2", "docket-seq=1"}, `header docket-id is "` + queueA + `-2", want the id of a queue (a UUID), a hyphen and the seq 1`},
		"id without a queue": {[]string{"docket-id=-1", "docket-seq=1"}, `header docket-id is "-1", want`},
		"queue is no UUID":   {[]string{"docket-id=" + strings.Replace(queueA, "a", "x", 1) + "-1", "docket-seq=1"}, "want the id of a queue (a UUID)"},
		"hyphens elsewhere":  {[]string{"docket-id=" + strings.ReplaceAll(queueA, "-", "0") + "-1", "docket-seq=1"}, "want the id of a queue (a UUID)"},
		"a very long id":     {[]string{"docket-id=" + strings.Repeat("\n", 1000), "docket-seq=1"}, `\n"..., want`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := once.ParseHeaders(headers(tt.headers...), split)
			if err == nil || errors.Is(err, once.ErrNotDocket) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %+v, %v, want an error with %q", got, err, tt.want)
			}
			if got != (once.Delivery{}) {
				t.Errorf("got %+v beside the error, want the zero Delivery", got)
			}
			if n := len(err.Error()); n > 400 {
				t.Errorf("the error has %d bytes", n)
			}
		})
	}
}
