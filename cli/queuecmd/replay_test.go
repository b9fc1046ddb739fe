package queuecmd

import (
	"math"
	"testing"
	"time"
)

func TestParseReplayFrom(t *testing.T) {
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]replayFrom{
		"1":                         {seq: 1},
		"18446744073709551615":      {seq: math.MaxUint64},
		"2h":                        {at: now.Add(-2 * time.Hour)},
		"1h30m":                     {at: now.Add(-90 * time.Minute)},
		"2026-01-05T10:00:00Z":      {at: time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)},
		"2026-01-05T10:00:00+02:00": {at: time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)},
	} {
		got, err := parseReplayFrom(text, now)
		if err != nil || got.seq != want.seq || !got.at.Equal(want.at) {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "-2h", "0h", "2x", "18446744073709551616", "2026-01-05", "now"} {
		if got, err := parseReplayFrom(text, now); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}
