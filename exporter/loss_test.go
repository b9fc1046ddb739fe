package exporter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter/queue"
)

// lossLine is a loss record as a client sends it.
func lossLine(lost string) string {
	return `{"eventType":"docket.loss","schemaVersion":1,"timestamp":"2026-01-05T10:04:07Z","since":"2026-01-05T10:04:01Z",` +
		`"until":"2026-01-05T10:04:06Z","producer":"pod-1/6f0c","lost":` + lost + `,"reasons":{"Full":123}}`
}

func TestParseLoss(t *testing.T) {
	names := func(n int) string {
		members := make([]string, n)
		for i := range members {
			members[i] = fmt.Sprintf("%q:1", "made up "+strconv.Itoa(i))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	long := strings.Repeat("x", maxLossNameBytes)
	for name, tt := range map[string]struct {
		line    string
		want    map[string]uint64
		wantErr string
	}{
		"of a client":          {line: lossLine(`{"deny":3,"allow":120}`), want: map[string]uint64{"deny": 3, "allow": 120}},
		"every decision":       {line: lossLine(`{"deny":1,"error":6,"warn":2,"dryrun":3,"allow":4,"unspecified":5}`), want: map[string]uint64{"deny": 1, "error": 6, "warn": 2, "dryrun": 3, "allow": 4, "unspecified": 5}},
		"more than 32 bits":    {line: lossLine(`{"deny":5000000000}`), want: map[string]uint64{"deny": 5e9}},
		"as much as there is":  {line: lossLine(`{"deny":9007199254740992}`), want: map[string]uint64{"deny": queue.MaxLost}},
		"nothing":              {line: lossLine(`{}`)},
		"none":                 {line: lossLine(`{"deny":0}`)},
		"white space":          {line: lossLine(" { \"deny\" :\t3 , \"allow\": 1 } "), want: map[string]uint64{"deny": 3, "allow": 1}},
		"escaped":              {line: lossLine(`{"\u0064eny":3}`), want: map[string]uint64{"deny": 3}},
		"other decisions":      {line: lossLine(`{"deny":1,"scoped":2,"Deny":3,"":4,"other":5}`), want: map[string]uint64{"deny": 1, "other": 14}},
		"others add up":        {line: lossLine(`{"a":9007199254740992,"b":9007199254740992}`), want: map[string]uint64{"other": queue.MaxLost}},
		"as many as allowed":   {line: lossLine(names(maxLossNames)), want: map[string]uint64{"other": maxLossNames}},
		"as long as allowed":   {line: lossLine(`{"` + long + `":1}`), want: map[string]uint64{"other": 1}},
		"not the one in there": {line: `{"eventType":"docket.loss","details":{"lost":{"deny":1}},"lost":{"deny":2}}`, want: map[string]uint64{"deny": 2}},

		"missing":          {line: `{"eventType":"docket.loss","reasons":{"Full":1}}`, wantErr: `"lost" must be an object`},
		"another name":     {line: `{"eventType":"docket.loss","Lost":{"deny":1}}`, wantErr: `"lost" must be an object`},
		"null":             {line: lossLine(`null`), wantErr: `"lost" must be an object`},
		"an array":         {line: lossLine(`[3]`), wantErr: `"lost" must be an object`},
		"a number":         {line: lossLine(`3`), wantErr: `"lost" must be an object`},
		"negative":         {line: lossLine(`{"deny":-3}`), wantErr: `each count in "lost" must be a whole number, at most 9007199254740992`},
		"minus nothing":    {line: lossLine(`{"deny":-0}`), wantErr: `each count in "lost" must be`},
		"fraction":         {line: lossLine(`{"deny":1.5}`), wantErr: `each count in "lost" must be`},
		"exponent":         {line: lossLine(`{"deny":1e3}`), wantErr: `each count in "lost" must be`},
		"text":             {line: lossLine(`{"deny":"3"}`), wantErr: `each count in "lost" must be`},
		"count is null":    {line: lossLine(`{"deny":null}`), wantErr: `each count in "lost" must be`},
		"object in object": {line: lossLine(`{"deny":{"deny":1}}`), wantErr: `each count in "lost" must be`},
		"too much":         {line: lossLine(`{"deny":9007199254740993}`), wantErr: `each count in "lost" must be`},
		"far too much":     {line: lossLine(`{"deny":18446744073709551617}`), wantErr: `each count in "lost" must be`},
		"the second":       {line: lossLine(`{"deny":1,"allow":true}`), wantErr: `each count in "lost" must be`},
		"twice":            {line: lossLine(`{"deny":1,"deny":1}`), wantErr: `"lost" has a name twice`},
		"too many":         {line: lossLine(names(maxLossNames + 1)), wantErr: `"lost" has more than 16 members`},
		"too long":         {line: lossLine(`{"` + long + `x":1}`), wantErr: `"lost" has a name of 65 bytes, at most 64 are allowed`},
	} {
		t.Run(name, func(t *testing.T) {
			if reason, detail := checkRecord([]byte(tt.line), 1<<20); reason != "" {
				t.Fatalf("the line is no record: %s", detail)
			}
			l, err := parseLoss([]byte(tt.line))
			if got := byName(l); !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// byName is what the queue is given.
func byName(l losses) map[string]uint64 {
	m := map[string]uint64{}
	for _, t := range l.tallies(nil) {
		m[t.Name] = t.Count
	}
	return m
}

// What the records of a chunk report is counted once, with the record, whether it
// came first, behind a refused line, or again.
func TestLossesAreCounted(t *testing.T) {
	opts := queue.Options{Directory: t.TempDir()}
	in := newIntake(t, opts)
	s, _, _ := in.session(t, "p", 1)
	lines := []string{lossLine(`{"deny":3}`), `{"n":2}`, `bad`, lossLine(`{"deny":5000000000,"allow":120}`)}
	submit(t, s, lines[0]+"\n"+lines[1]+"\n")
	submit(t, s, lines[1]+"\n"+lines[2]+"\n"+lines[3]+"\r\n"+lines[0]+"\n")
	s.Close()
	want := map[string]uint64{"deny": 5e9 + 6, "allow": 120}
	expectLost(t, in, "at first", want)
	if got, want := in.stored(t), []string{lines[0], lines[1], lines[1], lines[3], lines[0]}; !slices.Equal(got, want) {
		t.Errorf("stored: got %q, want %q", got, want)
	}
	in.close(t)

	in = newIntake(t, opts)
	expectLost(t, in, "after a restart", want)
	s, _, _ = in.session(t, "p", 1)
	submit(t, s, strings.Join([]string{lines[0], lines[1], lines[1], lines[2], lines[3], lines[0], lines[3]}, "\n")+"\n")
	want = map[string]uint64{"deny": 1e10 + 6, "allow": 240}
	expectLost(t, in, "after six lines again and a new one", want)
	if got := in.queue.Stats().Sources["test"]; got.Stored != 6 || got.Duplicate != 6 || got.Refused["InvalidJSON"] != 1 {
		t.Errorf("tally: got %+v, want 6 stored, 6 duplicates, 1 refused", got)
	}
}

func expectLost(t *testing.T, in *intakeTest, when string, want map[string]uint64) {
	t.Helper()
	if got := ledgerOf(in.queue.Stats()).Lost; !maps.Equal(got, want) {
		t.Errorf("lost %s: got %v, want %v", when, got, want)
	}
}

// A line that is not exactly a loss record is a record like any other.
func TestLinesThatAreNoLossRecords(t *testing.T) {
	in := newIntake(t, queue.Options{Directory: t.TempDir()})
	var log bytes.Buffer
	in.log = slog.New(slog.NewTextHandler(&log, nil))
	lines := []string{
		" " + lossLine(`{"deny":1}`),
		`{"eventType" :"docket.loss","lost":{"deny":1}}`,
		`{"eventType":"docket.losses","lost":{"deny":1}}`,
		`{"lost":{"deny":1},"eventType":"docket.loss"}`,
		`{"eventType":"docket.loss"}`,
		`{"eventType":"violation","lost":{"deny":1}}`,
	}
	s, _, _ := in.session(t, "p", 1)
	submit(t, s, strings.Join(lines, "\n")+"\n")
	if got := in.stored(t); !slices.Equal(got, lines) {
		t.Errorf("stored: got %q, want %q", got, lines)
	}
	expectLost(t, in, "without a loss record", map[string]uint64{})
	if log.Len() > 0 {
		t.Errorf("got log %s, want none", &log)
	}
}

// A loss record that cannot be read is stored, and its producer cannot fill the log.
func TestOddLossRecordIsStoredAndLoggedOnce(t *testing.T) {
	in := newIntake(t, queue.Options{Directory: t.TempDir()})
	var log bytes.Buffer
	in.log = slog.New(slog.NewTextHandler(&log, nil))
	lines := []string{lossLine(`{"deny":-1,"allow":7}`), lossLine(`"many"`), lossLine(`{"deny":2}`)}
	for _, producer := range []string{"p", "q"} {
		s, _, r := in.session(t, producer, 1)
		submit(t, s, strings.Join(lines, "\n")+"\n")
		if got := r.refused(); len(got) > 0 {
			t.Errorf("refused: got %q, want none", got)
		}
	}
	if got, want := in.stored(t), slices.Concat(lines, lines); !slices.Equal(got, want) {
		t.Errorf("stored: got %q, want %q", got, want)
	}
	expectLost(t, in, "with one good record each", map[string]uint64{"deny": 4})
	for _, want := range []string{"level=WARN", "source=test", "producer=p", "must be a whole number"} {
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
			t.Errorf("got log %q, want one line with %q", got, want)
		}
	}
}

// parseLoss must agree with encoding/json, read member by member, about what a
// record says, and take nothing that is out of bounds.
func FuzzLossRecord(f *testing.F) {
	for _, lost := range []string{`{"deny":3,"allow":120}`, `{}`, `null`, `{"deny":-1}`, `{"deny":1e3}`, `{"\u0064eny":1,"deny":2}`, `{"x":9007199254740993}`, `{"deny":1},"lost":{"deny":2}`, `{"\ud800":1}`, `[]`} {
		f.Add([]byte(lossLine(lost)))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if reason, _ := checkRecord(line, 1<<20); reason != "" {
			return
		}
		want, wantOK := referenceLoss(t, line)
		got, err := parseLoss(line)
		if (err == nil) != wantOK || !maps.Equal(byName(got), want) {
			t.Errorf("%q: got %v, %v, want %v, %t", line, byName(got), err, want, wantOK)
		}
	})
}

// referenceLoss reads a loss record with encoding/json; ok is false when it is not
// a proper one.
func referenceLoss(t *testing.T, line []byte) (want map[string]uint64, ok bool) {
	want = map[string]uint64{}
	lost := -1
	names, values := members(t, line)
	for i, name := range names {
		if name == "lost" { // the last counts
			lost = i
		}
	}
	if lost < 0 || values[lost][0] != '{' {
		return want, false
	}
	names, values = members(t, values[lost])
	if len(names) > maxLossNames {
		return want, false
	}
	for i, name := range names {
		var n uint64
		if len(name) > maxLossNameBytes || slices.Contains(names[:i], name) || values[i][0] == 'n' || json.Unmarshal(values[i], &n) != nil || n > queue.MaxLost {
			return map[string]uint64{}, false
		}
		if !slices.Contains(lossNames[:], name) {
			name = "other"
		}
		if want[name] = min(want[name]+n, queue.MaxLost); n == 0 {
			maps.DeleteFunc(want, func(_ string, n uint64) bool { return n == 0 })
		}
	}
	return want, true
}

// members returns the names and values of an object, in their order.
func members(t *testing.T, object []byte) (names []string, values []json.RawMessage) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
		names, values = append(names, name.(string)), append(values, value)
	}
	return names, values
}
