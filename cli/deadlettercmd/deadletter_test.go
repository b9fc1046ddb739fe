package deadlettercmd

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/deadletter"
)

func TestConfirmPurge(t *testing.T) {
	for name, test := range map[string]struct {
		kept    int
		answer  string
		wantErr string
	}{
		"yes":          {3, "yes\n", ""},
		"y":            {3, " Y\n", ""},
		"no":           {3, "n\n", "nothing was changed"},
		"enter":        {3, "\n", "nothing was changed"},
		"end of input": {3, "", "nothing was changed"},
		"nothing":      {0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			count := func(context.Context) ([]deadletter.Count, error) {
				return []deadletter.Count{{Sink: "bus", Kept: 9}, {Sink: "siem", Kept: max(test.kept-1, 0), Redriving: min(test.kept, 1)}}, nil
			}
			var asked strings.Builder
			err := confirmPurge(t.Context(), count, "siem", strings.NewReader(test.answer), &asked)
			if (err == nil) != (test.wantErr == "") || err != nil && err.Error() != test.wantErr {
				t.Errorf("got error %v, want %q", err, test.wantErr)
			}
			if want := test.kept > 0; strings.Contains(asked.String(), "Delete 3 records of sink siem for good?") != want {
				t.Errorf("got question %q, want one: %v", asked.String(), want)
			}
		})
	}
}

// A table on a terminal keeps to its width, and no text steers it.
func TestLetterListOnATerminal(t *testing.T) {
	var b strings.Builder
	l := newLetterList(&b, "siem", false)
	l.width = 80
	for seq, reason := range []string{"short", strings.Repeat("long ", 20), "\x1b[31mred\nline"} {
		s := deadletter.Letter{Seq: uint64(seq) + 1, Incarnation: "0f6c-q", Reason: reason, Attempts: 12, LastFailed: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Status: "MESSAGE_TOO"}.Summary("siem")
		if err := l.add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.end(); err != nil {
		t.Fatal(err)
	}
	const want = `SEQ  STATE  ATTEMPTS  LAST FAILED           STATUS       REASON
1    Kept   12        2026-01-02T03:04:05Z  MESSAGE_TOO  short
2    Kept   12        2026-01-02T03:04:05Z  MESSAGE_TOO  long long long ...
3    Kept   12        2026-01-02T03:04:05Z  MESSAGE_TOO   [31mred line
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
