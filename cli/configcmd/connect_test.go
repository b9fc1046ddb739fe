package configcmd

import (
	"testing"

	"github.com/docket-export/docket/cli/internal/terminal"
)

// What check --connect waits for has names.
func TestWaitingSinks(t *testing.T) {
	w := &waitingSinks{names: map[string]bool{"siem": true, "bus": true, "export": true}}
	w.done("export")
	want := terminal.Work{What: "testing the sinks", Done: 2, Total: 4, Noun: "sink", Note: "waiting for bus, siem"}
	if got := w.work(4); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
