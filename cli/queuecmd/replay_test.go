package queuecmd

import (
	"math"
	"testing"
	"time"

	"github.com/docket-export/docket/exporter/queue/inspect"
)

func TestParseReplayFrom(t *testing.T) {
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]inspect.ReplayFrom{
		"1":                         {Seq: 1},
		"18446744073709551615":      {Seq: math.MaxUint64},
		"2h":                        {Time: now.Add(-2 * time.Hour)},
		"1h30m":                     {Time: now.Add(-90 * time.Minute)},
		"2026-01-05T10:00:00Z":      {Time: time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)},
		"2026-01-05T10:00:00+02:00": {Time: time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)},
	} {
		got, err := parseReplayFrom(text, now)
		if err != nil || got.Seq != want.Seq || !got.Time.Equal(want.Time) {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "-2h", "0h", "2x", "18446744073709551616", "2026-01-05", "now"} {
		if got, err := parseReplayFrom(text, now); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}
