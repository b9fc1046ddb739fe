package human

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                   "0s",
		12400 * time.Millisecond:       "12s",
		90 * time.Second:               "1m30s",
		2*time.Hour + 5*time.Minute:    "2h5m",
		76*time.Hour + 59*time.Minute:  "3d4h",
		24 * time.Hour:                 "1d0h",
		time.Hour + 59*time.Second:     "1h0m",
		59*time.Minute + 5*time.Second: "59m5s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestLag(t *testing.T) {
	for seconds, want := range map[float64]string{0: "-", 0.04: "0s", 12.54: "12.5s", 59.9: "59.9s", 60: "1m0s", 3725.9: "1h2m"} {
		if got := Lag(seconds); got != want {
			t.Errorf("%v: got %q, want %q", seconds, got, want)
		}
	}
}
