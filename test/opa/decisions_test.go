package opa

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/dockettest"
)

// event is one decision as OPA or docket has written it.
type event struct {
	id       string         // of the decision
	instance string         // of OPA: every start has another
	input    input          // as far as it says who asked
	members  map[string]any // all of it; numbers keep their text
}

func decode(t *testing.T, line string) event {
	t.Helper()
	var e event
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&e.members); err != nil {
		t.Fatalf("read a decision: %v in %.300s", err, line)
	}
	var known struct {
		DecisionID string `json:"decision_id"`
		Labels     struct{ ID string }
		Input      input
	}
	if err := json.Unmarshal([]byte(line), &known); err != nil {
		t.Fatalf("read a decision: %v in %.300s", err, line)
	}
	if known.DecisionID == "" || known.Labels.ID == "" {
		t.Fatalf("a decision without an id or an instance: %.300s", line)
	}
	e.id, e.instance, e.input = known.DecisionID, known.Labels.ID, known.Input
	return e
}

// decisionType is what tells a decision from other lines of the log.
const decisionType = `"type":"openpolicyagent.org/decision_logs"`

// logged returns the decisions of the engine's log, in order.
func (e *engine) logged(t *testing.T) []event {
	t.Helper()
	var events []event
	for _, line := range consoleLines(t, e) {
		decision := decode(t, line)
		for _, ofTheLine := range []string{"level", "msg", "time", "type"} {
			delete(decision.members, ofTheLine)
		}
		events = append(events, decision)
	}
	return events
}

// said counts the lines of the engine's log that contain text.
func (e *engine) said(t *testing.T, text string) int {
	t.Helper()
	log, err := os.ReadFile(e.Log)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(text)) && !bytes.Contains(line, []byte("decision_id")) {
			n++
		}
	}
	return n
}

// exported returns the decisions of a file export, in order.
func exported(t *testing.T, directory string) []event {
	t.Helper()
	var events []event
	for _, line := range dockettest.Exported(t, directory) {
		events = append(events, decode(t, line))
	}
	return events
}

// outcome is what became of the decisions of a log.
type outcome struct {
	logged, seen, duplicates int
	lost                     []event
}

// compare finds each decision of the log in the export, and nothing else there.
func compare(t *testing.T, logged, exported []event) outcome {
	t.Helper()
	seen := make(map[string]event)
	o := outcome{logged: len(logged)}
	for _, e := range exported {
		if _, ok := seen[e.id]; ok {
			o.duplicates++
		}
		seen[e.id] = e
	}
	o.seen = len(seen)
	for _, e := range logged {
		got, ok := seen[e.id]
		if !ok {
			o.lost = append(o.lost, e)
			continue
		}
		if !reflect.DeepEqual(got.members, e.members) {
			t.Errorf("decision %s\nis  %v in the export,\nwas %v in the log", e.id, got.members, e.members)
		}
		delete(seen, e.id)
	}
	for id := range seen {
		t.Errorf("decision %s is in the export and OPA never logged it", id)
	}
	if o.duplicates > 0 {
		t.Errorf("%d decisions are in the export again", o.duplicates)
	}
	return o
}

// checkTail fails unless what an instance that was killed has lost is what it kept in
// its memory: of the decisions that one client asked for, one after the other, the
// last ones. That holds where none of its uploads failed, as OPA then sends in order.
func checkTail(t *testing.T, logged, lost []event) {
	t.Helper()
	missing := make(map[string]bool)
	for _, e := range lost {
		missing[e.id] = true
	}
	firstMissing := make(map[int]int) // by client
	for _, e := range logged {
		first, lostBefore := firstMissing[e.input.Client]
		switch {
		case missing[e.id] && !lostBefore:
			firstMissing[e.input.Client] = e.input.Number
		case !missing[e.id] && lostBefore:
			t.Errorf("client %d: decision %d is lost, and the later %d is not: OPA had sent it", e.input.Client, first, e.input.Number)
		}
	}
}

// byInstance divides events by the instance that decided, in order of appearance.
func byInstance(events []event) (instances [][]event) {
	index := make(map[string]int)
	for _, e := range events {
		i, ok := index[e.instance]
		if !ok {
			i = len(instances)
			index[e.instance] = i
			instances = append(instances, nil)
		}
		instances[i] = append(instances[i], e)
	}
	return instances
}

// ids lists some events.
func ids(events []event) string {
	var list []string
	for _, e := range events[:min(len(events), 10)] {
		list = append(list, e.id)
	}
	return strings.Join(list, " ")
}
