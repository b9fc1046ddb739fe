package decision_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/docket-export/docket/decision"
)

// checkCopy compares the line of a copy of r with the line of r, and both errors.
// c may be the copy of another record before.
func checkCopy(t *testing.T, c *decision.Copy, r *decision.Record) {
	t.Helper()
	want, wantErr := r.AppendLine([]byte("before\n"))
	err := c.Set(r)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Errorf("Set: got error %v, want %v", err, wantErr)
	}
	if err != nil || wantErr != nil {
		return
	}
	got := c.AppendLine([]byte("before\n"))
	if !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if line := len(got) - len("before\n"); line > c.MaxLine() {
		t.Errorf("%q: got %d bytes, more than MaxLine, %d", got, line, c.MaxLine())
	}
	if memory := memoryOf(r); memory > c.MaxLine() {
		t.Errorf("got %d bytes of memory, more than MaxLine, %d", memory, c.MaxLine())
	}
}

// memoryOf is what a copy of r needs, but for its short strings.
func memoryOf(r *decision.Record) int {
	const text = int(unsafe.Sizeof(""))
	return int(unsafe.Sizeof(decision.Copy{})) + len(r.Message) + len(r.Details) + len(r.Object) + len(r.OldObject) + len(r.Patch) +
		text*(len(r.EnforcementActions)+len(r.RequestUserGroups)+len(r.Warnings)+len(r.Omitted)) +
		2*text*(len(r.ConstraintAnnotations)+len(r.ResourceLabels)+len(r.AuditAnnotations))
}

func TestCopy(t *testing.T) {
	everything := full()
	everything.ConstraintAnnotations = map[string]string{"z": "1", "a": "2", "m\n": "\xff"}
	odd := decision.Record{
		Message:           strings.Repeat("\x00", 1000),
		RequestUserGroups: []string{"\x01", "", "\x02"},
		ResourceLabels:    map[string]string{"\x01": "\x02", "": "", "\x03": ""},
	}
	many := decision.Record{ResourceLabels: map[string]string{}, RequestUserGroups: make([]string, 5000)}
	for i := range 100 {
		many.ResourceLabels[fmt.Sprint(i*7919%100)] = ""
	}
	var used decision.Copy
	for name, r := range map[string]decision.Record{
		"nothing":    {},
		"usual":      denied(),
		"everything": everything,
		"odd":        odd,
		"many":       many,
		"details":    {Details: json.RawMessage(` { "a" : [ ] } `)},
		"bad":        {Decision: "x", Process: "y", Details: json.RawMessage("z")},
		"bad time":   {Timestamp: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) {
			checkCopy(t, new(decision.Copy), &r)
			checkCopy(t, &used, &r)
			used.Forget()
			checkCopy(t, &used, &decision.Record{})
			checkCopy(t, &used, &r)
		})
	}
}

// A text that MaxLine forgets must not go unnoticed.
func TestCopyMaxLineKnowsEveryText(t *testing.T) {
	long := strings.Repeat("\x00", 2000)
	for f := range reflect.TypeFor[decision.Record]().Fields() {
		var r decision.Record
		switch v := reflect.ValueOf(&r).Elem().FieldByIndex(f.Index).Addr().Interface().(type) {
		case *string:
			*v = long
		case *[]string:
			*v = []string{long}
		case *map[string]string:
			*v = map[string]string{long: "", "": long}
		case *json.RawMessage:
			*v = json.RawMessage(`"` + strings.Repeat("x", 9000) + `"`)
		}
		t.Run(f.Name, func(t *testing.T) { checkCopy(t, new(decision.Copy), &r) })
	}
}

// Whatever the owner of a record does with it after Set, the copy stays.
func TestCopySharesNothingThatChanges(t *testing.T) {
	r := full()
	r.ConstraintAnnotations = map[string]string{"a": "1"}
	r.EnforcementActions = []string{"deny", "warn"}
	want, err := r.AppendLine(nil)
	if err != nil {
		t.Fatal(err)
	}
	var c decision.Copy
	if err := c.Set(&r); err != nil {
		t.Fatal(err)
	}
	for _, raw := range []json.RawMessage{r.Details, r.Object, r.OldObject, r.Patch} {
		if len(raw) == 0 {
			t.Fatal("the record has not everything: the test tests nothing")
		}
		for i := range raw {
			raw[i] = 'x'
		}
	}
	*r.DryRun = !*r.DryRun
	for _, list := range [][]string{r.EnforcementActions, r.RequestUserGroups, r.Warnings, r.Omitted} {
		if len(list) == 0 {
			t.Fatal("the record has not everything: the test tests nothing")
		}
		for i := range list {
			list[i] = "changed"
		}
	}
	for _, m := range []map[string]string{r.ConstraintAnnotations, r.ResourceLabels, r.AuditAnnotations} {
		if len(m) == 0 {
			t.Fatal("the record has not everything: the test tests nothing")
		}
		for _, k := range slices.Collect(maps.Keys(m)) {
			m[k] = "changed"
		}
		m["new"] = ""
	}
	r = decision.Record{}
	if got := c.AppendLine(nil); !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestCopyForgetsStrings(t *testing.T) {
	var c decision.Copy
	var gone atomic.Int32
	for _, groups := range []int{3, 1} { // the second leaves room unused
		r := denied()
		r.RequestUserGroups = make([]string, groups)
		for i := range groups {
			text := new([16]byte)
			runtime.AddCleanup(text, func(int) { gone.Add(1) }, 0)
			r.RequestUserGroups[i] = unsafe.String(&text[0], len(text))
		}
		if err := c.Set(&r); err != nil {
			t.Fatal(err)
		}
	}
	c.Forget()
	for deadline := time.Now().Add(time.Minute); gone.Load() < 4; {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatalf("got %d of 4 strings let go of", gone.Load())
		}
	}
	runtime.KeepAlive(&c)
}

// Memory that was used before is used again.
func TestCopyAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 4<<10)
	r := denied()
	var c decision.Copy
	perCopy := testing.AllocsPerRun(100, func() {
		onStack := r // counted, should Set let its record escape
		if err := c.Set(&onStack); err != nil {
			t.Fatal(err)
		}
		c.AppendLine(dst)
		c.Forget()
	})
	if perCopy != 0 {
		t.Errorf("got %v allocations for a copy, want 0", perCopy)
	}
}

func BenchmarkCopy(b *testing.B) {
	r := denied()
	dst := make([]byte, 0, 4<<10)
	var c decision.Copy
	b.Run("set", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := c.Set(&r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("line", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.AppendLine(dst)
		}
	})
}
