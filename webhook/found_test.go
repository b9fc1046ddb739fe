package webhook

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

var allDecisions = []decision.Decision{decision.Deny, decision.Warn, decision.DryRun, decision.Error}

// violated is what an engine knows of one violation.
func violated(d decision.Decision, name string) *decision.Record {
	return &decision.Record{
		EventType: decision.ViolationAdmission, Group: "g", Version: "v1", Kind: "Labels", Name: name, Namespace: "n", Template: "labels",
		EnforcementAction: "scoped", EnforcementActions: []string{string(d)}, ConstraintAnnotations: map[string]string{"a": "b"},
		ResourceLabels: map[string]string{"app": "web"}, ResourceUID: "u-1", Message: name + " is missing", Details: json.RawMessage(`{"missing":["x"]}`), Decision: d,
	}
}

// finds names records, checks their numbers and answers with text.
func finds(t *testing.T, first, last uint64, text string, records ...*decision.Record) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if gotFirst, gotLast := Found(r.Context(), records...); gotFirst != first || gotLast != last {
			t.Errorf("Found: got %d to %d, want %d to %d", gotFirst, gotLast, first, last)
		}
		_, _ = io.WriteString(w, text)
	}
}

// What a handler has found are the records of the review: their policy and decision as it has named
// them, and everything else from request and answer.
func TestFound(t *testing.T) {
	answer := strings.Replace(denied, `"status"`, `"auditAnnotations":{"docket-records":"1-3"},"warnings":["[w] said"],"status"`, 1)
	for _, mode := range modes {
		e := newExporter(t)
		c := newClient(t, e, client.Config{Mode: mode})
		found := []*decision.Record{violated(decision.Deny, "a"), violated(decision.Warn, "b"), violated(decision.DryRun, "c")}
		var outcome Outcome
		h := Log(finds(t, 1, 3, answer, found...), c, Options{
			Found: true, Decisions: allDecisions, Preset: Gatekeeper, Cluster: "prod", Pod: "p-1", Include: []decision.Content{decision.ContentObject},
			Observe: func(o Outcome) { outcome = o },
		})
		serveOne(h, review)
		records, lost := stored(t, c, e)
		if len(records) != 3 || len(lost) != 0 {
			t.Fatalf("%s: got %d records and %v lost, want 3", mode, len(records), lost)
		}
		if outcome.Decision != decision.Deny || outcome.Records != 3 {
			t.Errorf("%s: observed: got %+v, want a deny of 3 records", mode, outcome)
		}
		for i, r := range records {
			want := *found[i]
			want.Sequence, want.SchemaVersion, want.Process, want.Code = uint64(i+1), decision.SchemaVersion, decision.Admission, 403
			want.ID, want.RequestUID, want.Operation, want.RequestResource = uid, uid, "CREATE", "pods"
			want.ResourceAPIVersion, want.ResourceKind, want.ResourceNamespace, want.ResourceName = "v1", "Pod", "shop", "web"
			want.RequestUsername, want.RequestUserGroups, want.DryRun = "alice", []string{"dev"}, new(bool)
			want.WebhookPath, want.Cluster, want.Pod = "/validate", "prod", "p-1"
			if i == 0 {
				want.AuditAnnotations, want.Warnings = map[string]string{"docket-records": "1-3"}, []string{"[w] said"}
				want.Object = json.RawMessage(`{"kind":"Pod","metadata":{"name":"web","labels":{"password":"s3cret"}}}`)
			}
			if r.Timestamp.IsZero() || r.DurationSeconds <= 0 {
				t.Errorf("%s: record %d: got %v and %v s, want when and how long", mode, i, r.Timestamp, r.DurationSeconds)
			}
			r.Timestamp, r.DurationSeconds = time.Time{}, 0
			if !reflect.DeepEqual(r.Record, want) {
				t.Errorf("%s: record %d: got\n%+v\nwant\n%+v", mode, i, r.Record, want)
			}
		}
	}
}

// Which of the decisions leave a record is the user's to say, and where none of them does, the
// review is recorded as if nothing was found.
func TestFoundDecisions(t *testing.T) {
	for name, tt := range map[string]struct {
		decisions []decision.Decision
		last      uint64
		want      []decision.Decision
	}{
		"default":           {nil, 2, []decision.Decision{decision.Warn, decision.Error}},
		"dryrun":            {[]decision.Decision{decision.DryRun}, 1, []decision.Decision{decision.DryRun}},
		"allow":             {[]decision.Decision{decision.Allow}, 0, []decision.Decision{decision.Allow}},
		"deny, never found": {[]decision.Decision{decision.Deny}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newExporter(t)
			c := newClient(t, e, client.Config{})
			found := []*decision.Record{violated(decision.DryRun, "a"), violated(decision.Warn, "b"), {Decision: decision.Error, Failure: "out of time"}}
			first := min(tt.last, 1)
			serveOne(Log(finds(t, first, tt.last, allowed, found...), c, Options{Found: true, Decisions: tt.decisions}), review)
			records, lost := stored(t, c, e)
			var got []decision.Decision
			for i, r := range records {
				got = append(got, r.Decision)
				if r.Sequence != uint64(i+1) || r.Decision == decision.Error != (r.Failure == "out of time") {
					t.Errorf("record %d: got number %d, failure %q", i, r.Sequence, r.Failure)
				}
			}
			if !slices.Equal(got, tt.want) || len(lost) != 0 {
				t.Errorf("got %v and %v lost, want %v", got, lost, tt.want)
			}
		})
	}
}

// Where the API server gets no answer, what was found did not decide, and the records say so.
func TestFoundWithoutAnAnswer(t *testing.T) {
	for _, mode := range modes {
		e := newExporter(t)
		c := newClient(t, e, client.Config{Mode: mode})
		h := Log(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			Found(r.Context(), violated(decision.Deny, "a"), violated(decision.DryRun, "b"))
			http.Error(w, "boom", http.StatusInternalServerError)
		}), c, Options{Found: true, Decisions: allDecisions})
		serveOne(h, review)
		records, _ := stored(t, c, e)
		if len(records) != 2 {
			t.Fatalf("%s: got %d records, want 2", mode, len(records))
		}
		for i, r := range records {
			if r.Decision != decision.Error || r.Failure != "HTTP status 500" || r.Code != 500 || r.Name != []string{"a", "b"}[i] || r.Sequence != uint64(i+1) {
				t.Errorf("%s: got %+v, want the error and which policy it was", mode, r.Record)
			}
		}
	}
}

// Numbers of one review follow each other, whatever other reviews find at the same time, and there is
// a record for each of many violations.
func TestFoundIsNumberedTogether(t *testing.T) {
	const reviews, violations = 8, 100
	e := newExporter(t)
	c := newClient(t, e, client.Config{})
	h := Log(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		var found []*decision.Record
		for range violations {
			found = append(found, violated(decision.Deny, "a"))
		}
		first, last := Found(r.Context(), found[:violations/2]...)
		_, _ = Found(r.Context(), found[violations/2:]...)
		for i, v := range found[:violations/2] {
			if v.Sequence != first+uint64(i) || v.Sequence > last {
				t.Errorf("number %d: got %d, want %d, of %d to %d", i, v.Sequence, first+uint64(i), first, last)
			}
		}
		_, _ = io.WriteString(w, denied)
	}), c, Options{Found: true})
	var all sync.WaitGroup
	for range reviews {
		all.Go(func() { serveOne(h, review) })
	}
	all.Wait()
	records, lost := stored(t, c, e)
	numbers := map[uint64]bool{}
	for _, r := range records {
		numbers[r.Sequence] = true
	}
	if len(records) != reviews*violations || len(numbers) != len(records) || numbers[0] || !numbers[reviews*violations] || len(lost) != 0 {
		t.Errorf("got %d records with %d numbers and %v lost, want %d", len(records), len(numbers), lost, reviews*violations)
	}
}

// Found is for reviews that are recorded, and for as long as their answer is not complete.
func TestFoundOutsideOfAReview(t *testing.T) {
	v := violated(decision.Deny, "a")
	nothing := func(ctx context.Context, when string) {
		if first, last := Found(ctx, v); first != 0 || last != 0 || v.Sequence != 0 {
			t.Errorf("%s: got %d to %d, record number %d, want 0", when, first, last, v.Sequence)
		}
	}
	nothing(context.Background(), "without Log")
	var ctx context.Context
	keeps := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx = r.Context()
		answers(denied)(w, r)
	})
	serveOne(Log(keeps, nil, Options{Found: true}), review)
	nothing(ctx, "nil client")
	serveOne(Log(keeps, newClient(t, newExporter(t), client.Config{}), Options{}), review)
	nothing(ctx, "Log without the option")
	for _, mode := range modes {
		e := newExporter(t)
		c := newClient(t, e, client.Config{Mode: mode})
		serveOne(Log(keeps, c, Options{Found: true}), review)
		nothing(ctx, string(mode)+": after the answer")
		if records, _ := stored(t, c, e); len(records) != 1 || records[0].Message != "no" {
			t.Errorf("%s: got %+v, want the one of the review", mode, records)
		}
	}
}

// Violations for which there is no memory, or no room, are counted by their decision.
func TestFoundThatIsTooMuch(t *testing.T) {
	large := violated(decision.Deny, "large")
	large.Message = strings.Repeat("m", maxMemory)
	for name, found := range map[string][]*decision.Record{
		"memory": {large, violated(decision.Warn, "b")},
		"fault":  {violated(decision.Deny, "a"), violated(decision.Warn, "b")},
	} {
		for _, mode := range modes {
			e := newExporter(t)
			c := newClient(t, e, client.Config{Mode: mode})
			h := Log(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answers(denied)(w, r)
				Found(r.Context(), found...)
				if name == "fault" {
					x := r.Context().Value(exchangeKey{}).(*exchange)
					x.take(nil, []byte("p"))
				}
			}), c, Options{Found: true}).(*handler)
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/validate", strings.NewReader(review))
			r.Header.Set("Content-Type", "application/json")
			h.ServeHTTP(w, r)
			records, lost := stored(t, c, e)
			if len(records) != 0 || len(lost) != 2 || lost["deny"] != 1 || lost["warn"] != 1 {
				t.Errorf("%s, %s: got %d records and %v lost, want both lost", name, mode, len(records), lost)
			}
			if want := map[bool]int{true: 500, false: 200}[mode == client.BlockingStrict]; w.Code != want {
				t.Errorf("%s, %s: got status %d, want %d", name, mode, w.Code, want)
			}
			if used := h.memory.used.Load(); used != 0 {
				t.Errorf("%s, %s: memory in the end: got %d bytes, want none", name, mode, used)
			}
			if next := c.NextSequence(); next != 3 {
				t.Errorf("%s, %s: next number: got %d, want 3: what was named stays a gap", name, mode, next)
			}
		}
	}
}

// BlockingStrict says of a review that it was refused for want of its records, whatever the first of
// them says.
func TestFoundThatIsNotDurable(t *testing.T) {
	e := newExporter(t)
	e.Hold()
	c := newClient(t, e, client.Config{Mode: client.BlockingStrict, Timeout: 10 * time.Millisecond})
	said := wire(t, Log(finds(t, 1, 2, denied, violated(decision.DryRun, "a"), violated(decision.Deny, "b")), c, Options{Found: true, Decisions: allDecisions}), rawRequest("", review))
	e.Release()
	records, _ := stored(t, c, e)
	if !strings.HasPrefix(said, "HTTP/1.1 500 ") {
		t.Errorf("got %q, want 500", said)
	}
	if len(records) != 3 || records[2].Sequence != 3 || !strings.HasPrefix(records[2].Failure, "answered 500 instead of deny: ") {
		t.Errorf("got %+v, want what was found and that it was not answered", records)
	}
}
