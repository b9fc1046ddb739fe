package decisionlog_test

import (
	"encoding/json"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

// Every field of a record can be set by an attribute of its JSON name, and by no
// other value than one of its type.
func TestFields(t *testing.T) {
	special := map[string]struct {
		good slog.Value
		want any
		bad  []slog.Value
	}{
		"decision":              {slog.AnyValue(decision.DryRun), decision.DryRun, []slog.Value{slog.StringValue("maybe"), slog.IntValue(1)}},
		"process":               {slog.StringValue("audit"), decision.Audit, []slog.Value{slog.StringValue("webhook"), slog.BoolValue(true)}},
		"enforcementActions":    {slog.AnyValue([]string{"warn"}), []string{"warn"}, []slog.Value{slog.StringValue("warn")}},
		"requestUserGroups":     {slog.AnyValue([]string{"dev"}), []string{"dev"}, []slog.Value{slog.AnyValue([]int{1})}},
		"constraintAnnotations": {slog.AnyValue(map[string]string{"a": "b"}), map[string]string{"a": "b"}, []slog.Value{slog.StringValue("a")}},
		"resourceLabels":        {slog.AnyValue(map[string]string{"a": "b"}), map[string]string{"a": "b"}, []slog.Value{slog.AnyValue(map[string]int{"a": 1})}},
		"timestamp":             {slog.TimeValue(time.Unix(1, 0)), time.Unix(1, 0), []slog.Value{slog.StringValue("now"), slog.TimeValue(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))}},
		"dryRun":                {slog.BoolValue(false), new(bool), []slog.Value{slog.StringValue("false")}},
		"sequence":              {slog.Uint64Value(math.MaxUint64), uint64(math.MaxUint64), []slog.Value{slog.IntValue(-1), slog.Float64Value(1.5)}},
		"schemaVersion":         {slog.IntValue(1), 1, []slog.Value{slog.IntValue(2), slog.StringValue("1")}},
		"code":                  {slog.IntValue(403), 403, []slog.Value{slog.StringValue("403"), slog.Float64Value(403.5)}},
		"warnings":              {slog.AnyValue([]string{"a"}), []string{"a"}, []slog.Value{slog.StringValue("a")}},
		"auditAnnotations":      {slog.AnyValue(map[string]string{"a": "b"}), map[string]string{"a": "b"}, []slog.Value{slog.StringValue("a")}},
		"patchBytes":            {slog.IntValue(7), 7, []slog.Value{slog.StringValue("7")}},
		"durationSeconds":       {slog.Float64Value(1.5), 1.5, []slog.Value{slog.StringValue("1.5")}},
		"object":                {slog.AnyValue(json.RawMessage(`{}`)), json.RawMessage(`{}`), []slog.Value{slog.StringValue("shop/cart")}},
		"oldObject":             {slog.AnyValue(json.RawMessage(`{}`)), json.RawMessage(`{}`), []slog.Value{slog.StringValue("{}")}},
		"patch":                 {slog.AnyValue(json.RawMessage(`[]`)), json.RawMessage(`[]`), []slog.Value{slog.StringValue("[]")}},
		"omitted":               {slog.AnyValue([]string{"object"}), []string{"object"}, []slog.Value{slog.StringValue("object")}},
		"details":               {slog.AnyValue(json.RawMessage(`{"n":1.10}`)), json.RawMessage(`{"n":1.10}`), nil},
	}
	for f := range reflect.TypeFor[decision.Record]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		tt, ok := special[name]
		if !ok {
			type operation string
			tt.good, tt.want, tt.bad = slog.AnyValue(operation("text")), "text", []slog.Value{slog.IntValue(1), slog.AnyValue(nil)}
		}
		t.Run(name, func(t *testing.T) {
			log, got := newLog()
			log.Info("m", name, tt.good)
			rec := got.record(t)
			if got := reflect.ValueOf(rec).FieldByIndex(f.Index).Interface(); !same(got, tt.want) {
				t.Errorf("%s=%v: got %v, want %v", name, tt.good, got, tt.want)
			}
			if name != "details" && rec.Details != nil {
				t.Errorf("%s=%v: got details %s as well", name, tt.good, rec.Details)
			}
			for _, bad := range tt.bad {
				log, got := newLog()
				log.Info("m", name, bad)
				if got := got.one(t); !strings.Contains(got, `"details":{"`+name+`":`) {
					t.Errorf("%s=%v: got %s, want it in details", name, bad, got)
				}
			}
		})
	}
}

// A value that no line could hold must not cost the whole record.
func TestFieldsThatCannotBeWritten(t *testing.T) {
	for name, v := range map[string]slog.Value{
		"object":          slog.AnyValue(json.RawMessage(`{`)),
		"durationSeconds": slog.Float64Value(math.NaN()),
	} {
		log, got := newLog()
		log.Info("m", name, v, "code", 1)
		if rec := got.record(t); rec.Code != 1 || rec.Object != nil || rec.DurationSeconds != 0 || rec.Details == nil {
			t.Errorf("%s=%v: got %+v, want the others, and it in details", name, v, rec)
		}
	}
	log, got := newLog()
	log.Info("m", "durationSeconds", 1500*time.Millisecond)
	if rec := got.record(t); rec.DurationSeconds != 1.5 {
		t.Errorf("got %v s of a duration, want 1.5", rec.DurationSeconds)
	}
}

func same(a, b any) bool {
	if at, ok := a.(time.Time); ok {
		return at.Equal(b.(time.Time))
	}
	return reflect.DeepEqual(a, b)
}
