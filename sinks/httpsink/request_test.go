package httpsink

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/docket-export/docket/sinks"
)

func TestBatchKey(t *testing.T) {
	items := func(late sinks.Late, seqs ...uint64) sinks.Batch {
		b := sinks.Batch{Queue: "6f0c2f0e-5a0e-4c3e-9d57-3a5f1f6a7b10"}
		for _, seq := range seqs {
			b.Items = append(b.Items, sinks.Item{Seq: seq, Late: late, Record: []byte(`{}`)})
		}
		return b
	}
	other := items(sinks.OnTime, 1, 2, 4)
	other.Queue = "7f0c2f0e-5a0e-4c3e-9d57-3a5f1f6a7b10"
	seen := map[string]string{}
	for name, b := range map[string]sinks.Batch{
		"batch":          items(sinks.OnTime, 1, 2, 4),
		"other between":  items(sinks.OnTime, 1, 3, 4),
		"one more":       items(sinks.OnTime, 1, 2, 4, 5),
		"one less":       items(sinks.OnTime, 1, 2),
		"replayed":       items(sinks.Replayed, 1, 2, 4),
		"redriven":       items(sinks.Redriven, 1, 2, 4),
		"other queue":    other,
		"a single other": items(sinks.OnTime, 4),
	} {
		key := batchKey(b)
		if len(key) != 32 {
			t.Errorf("%s: key is %q, want 32 digits", name, key)
		}
		if before, there := seen[key]; there {
			t.Errorf("%s and %s have one key, want two", name, before)
		}
		seen[key] = name
	}
	// Written down: a receiver may remember a key across a restart of docket, and
	// across its update.
	if got, want := batchKey(items(sinks.OnTime, 1, 2, 4)), "3d8a62c921e5dc4f67f345b4844e23a4"; got != want {
		t.Errorf("key is %q, want %q", got, want)
	}
}

func TestLateHeader(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL)
	for _, late := range []sinks.Late{sinks.Replayed, sinks.OnTime, sinks.Redriven} {
		b := batch(7, `{"a":1}`, `{"a":2}`)
		b.Items[1].Late = late
		if err := s.Send(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		got, there := r.lastRequest(t).Header["Docket-Late"]
		if there != (late != sinks.OnTime) || there && got[0] != string(late) {
			t.Errorf("docket-late is %q, want %q", got, late)
		}
	}
}

// waitForContinue has s wait for the word of a receiver that is busy, and not send the
// body after a second.
func waitForContinue(s sinks.Sink) { s.(*sink).wire.transport().ExpectContinueTimeout = time.Minute }

// Receivers that refuse a body without reading it close the connection, and the
// answer is lost with it more often than not. It is heard by asking first.
func TestRefusalThatIsNotHeard(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Expect") == "" {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close() // with the body unread: a reset
			return
		}
		if req.ContentLength > 1<<20 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		r.accept(req)
	})
	s := openSink(t, r.URL)
	waitForContinue(s)
	long := batch(1, `{"a":"`+string(make([]byte, 4<<20))+`"}`)
	if kind := sinks.FailureOf(s.Send(t.Context(), long)).Kind; kind != sinks.Transient {
		t.Errorf("the first attempt failed as %v, want %v: nothing was heard", kind, sinks.Transient)
	}
	if f := sinks.FailureOf(s.Send(t.Context(), long)); f.Kind != sinks.Rejected || f.Said.Status != "413" {
		t.Errorf("the second attempt failed as %v (%v), want %v by 413", f.Kind, f, sinks.Rejected)
	}
	sendWorks(t, s)
	r.setAnswer(nil)
	sendWorks(t, s)
	if got := r.lastRequest(t).Header.Get("Expect"); got != "" {
		t.Errorf("Expect is %q after an acceptance, want none", got)
	}
}

// A receiver that does not know of asking is not asked again.
func TestExpectationFailed(t *testing.T) {
	r := newReceiver(t, (*httptest.Server).Start)
	s := openSink(t, r.URL)
	s.(*sink).ask.Store(true)
	r.setAnswer(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Expect") != "" {
			status(417, "")(w, req)
			return
		}
		r.accept(req)
	})
	sendFails(t, s, sinks.Misconfigured, "417")
	sendWorks(t, s)
}
