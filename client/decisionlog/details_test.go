package decisionlog_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

type shout string

func (s shout) MarshalJSON() ([]byte, error) { return json.Marshal(strings.ToUpper(string(s))) }

type broken struct{}

func (broken) MarshalJSON() ([]byte, error) { return nil, errors.New("out of ink") }

type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("boom") }

type secret string

func (secret) LogValue() slog.Value { return slog.StringValue("redacted") }

type user struct{ name, uid string }

func (u user) LogValue() slog.Value {
	return slog.GroupValue(slog.String("requestUsername", u.name), slog.String("requestUserUID", u.uid))
}

func TestDetails(t *testing.T) {
	tests := map[string]struct {
		log  func(*slog.Logger)
		want string // members of the record beside its message and decision
	}{
		"none": {
			func(l *slog.Logger) { l.Info("m") }, ``,
		},
		"kinds": {
			func(l *slog.Logger) {
				l.Info("m", "text", "a\n<b>&", "int", -1, "uint", uint64(math.MaxUint64), "float", 1.5, "bool", true,
					"took", 1500*time.Millisecond, "at", time.Date(2026, 1, 5, 10, 4, 7, 5, time.UTC), "nil", nil,
					"list", []string{"a"}, "raw", json.RawMessage(`{"n": 12345678901234567890}`))
			},
			`"details":{"at":"2026-01-05T10:04:07.000000005Z","bool":true,"float":1.5,"int":-1,"list":["a"],"nil":null,` +
				`"raw":{"n":12345678901234567890},"text":"a\n<b>&","took":1500000000,"uint":18446744073709551615}`,
		},
		"errors and marshalers": {
			func(l *slog.Logger) { l.Info("m", "err", errors.New("no <route>"), "shout", shout("hey")) },
			`"details":{"err":"no <route>","shout":"HEY"}`,
		},
		"what cannot be encoded": {
			func(l *slog.Logger) {
				l.Info("m", "nan", math.NaN(), "broken", broken{}, "bomb", bomb{}, "nil", error((*nilError)(nil)), "bytes", json.RawMessage("\"\xff\""), "after", 1)
			},
			`"details":{"after":1,"bomb":"!PANIC: boom",` +
				`"broken":"!ERROR: json: error calling MarshalJSON for type decisionlog_test.broken: out of ink",` +
				`"bytes":"` + "\ufffd" + `","nan":"!ERROR: json: unsupported value: NaN","nil":"!PANIC: no error here"}`,
		},
		"values resolved": {
			func(l *slog.Logger) {
				l.With("token", secret("x")).Info("m", "key", secret("y"), slog.Group("g", "deep", secret("z")))
			},
			`"details":{"g":{"deep":"redacted"},"key":"redacted","token":"redacted"}`,
		},
		"groups are no fields": {
			func(l *slog.Logger) {
				l.WithGroup("node").Info("m", "name", "n1", slog.Group("disk", "kind", "ssd"))
			},
			`"details":{"node":{"disk":{"kind":"ssd"},"name":"n1"}}`,
		},
		"group without a name": {
			func(l *slog.Logger) { l.Info("m", slog.Group("", "name", "repos", "extra", 1)) },
			`"name":"repos","details":{"extra":1}`,
		},
		"value that is a group of fields": {
			func(l *slog.Logger) { l.Info("m", "", user{"alice", "u-17"}) },
			`"requestUsername":"alice","requestUserUID":"u-17"`,
		},
		"duplicates": {
			func(l *slog.Logger) {
				l.With("a", 1, "kind", "A", "b", 2).Info("m", "a", 3, "kind", "B", "a", 4)
			},
			`"kind":"B","details":{"a":4,"b":2}`,
		},
		"one group twice": {
			func(l *slog.Logger) {
				l.With(slog.Group("g", "a", 1, "b", 2)).WithGroup("g").Info("m", "b", 3, slog.Group("h"), "c", 4)
			},
			`"details":{"g":{"a":1,"b":3,"c":4}}`,
		},
		"value between groups": {
			func(l *slog.Logger) { l.Info("m", slog.Group("g", "a", 2), "g", 1, slog.Group("g", "b", 3)) },
			`"details":{"g":{"b":3}}`,
		},
		"details of the policy": {
			func(l *slog.Logger) {
				l.Info("m", "before", 1, "details", json.RawMessage(`{"missing": ["team"], "n": 1.10}`), "after", 2)
			},
			`"details":{"after":2,"before":1,"missing":["team"],"n":1.10}`,
		},
		"details that are no object": {
			func(l *slog.Logger) { l.Info("m", "details", []int{1, 2}, "a", 3) },
			`"details":{"a":3,"details":[1,2]}`,
		},
		"no details": {
			func(l *slog.Logger) { l.Info("m", "details", nil) }, ``,
		},
		"given message and time": {
			func(l *slog.Logger) {
				l.Info("m", "message", "other", "timestamp", time.Date(2026, 1, 5, 10, 4, 7, 0, time.UTC))
			},
			`"message":"other","timestamp":"2026-01-05T10:04:07Z"`,
		},
		"key to be escaped": {
			func(l *slog.Logger) { l.Info("m", `a"<`, 1) }, `"details":{"a\"<":1}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			log, got := newLog()
			tt.log(log)
			rec := decision.Record{Message: "m", Decision: decision.Allow}
			if err := json.Unmarshal([]byte("{"+tt.want+"}"), &rec); err != nil {
				t.Fatal(err)
			}
			line, err := rec.AppendLine(nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := got.one(t), strings.TrimSuffix(string(line), "\n"); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

type nilError struct{ text string }

func (e *nilError) Error() string {
	if e == nil {
		panic("no error here")
	}
	return e.text
}
