//go:build soak

package decision_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
)

// What waits to be used again holds neither strings nor the memory of a large record.
func TestCopyForgets(t *testing.T) {
	var large decision.Record
	large.Details = json.RawMessage(`"` + strings.Repeat("d", 100<<10) + `"`)
	large.RequestUserGroups = make([]string, 5000)
	large.ResourceLabels = map[string]string{}
	for i := range 5000 {
		large.ResourceLabels[fmt.Sprint(i)] = ""
	}
	usual := denied()
	var before, after runtime.MemStats
	copies := make([]decision.Copy, 100)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range copies {
		for _, r := range []*decision.Record{&large, &usual} {
			if err := copies[i].Set(r); err != nil {
				t.Fatal(err)
			}
		}
		copies[i].Forget()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc-before.HeapAlloc) / int64(len(copies)); kept > 8<<10 {
		t.Errorf("got %d bytes kept by a copy that has forgotten a large record, want those of a usual one", kept)
	}
	runtime.KeepAlive(copies)
	runtime.KeepAlive(large)
}
