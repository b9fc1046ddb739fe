package memlimit

import (
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"testing"
)

const mebibytes = 1 << 20

// A container that the kernel says nothing of, and one of 64 MiB.
var (
	unknown = func() (int64, error) { return 0, errors.New("no control groups here") }
	small   = func() (int64, error) { return 64 * mebibytes, nil }
)

// TestContainerHere: whatever this machine has, it is read without an error.
func TestContainerHere(t *testing.T) {
	if _, err := ofContainer(); err != nil {
		t.Error(err)
	}
}

func TestChoose(t *testing.T) {
	const all = 64 * mebibytes
	for name, c := range map[string]struct {
		env  map[string]string
		own  int // GCPercent
		want Settings
	}{
		"nothing is said": {want: Settings{gcPercent: gcPercent, limit: all - leastHeadroom, container: all}},
		"its own percent": {own: 60, want: Settings{gcPercent: 60, limit: all - leastHeadroom, container: all}},
		"GOGC":            {own: 60, env: map[string]string{"GOGC": "100"}, want: Settings{limit: all - leastHeadroom, container: all}},
		"GOMEMLIMIT":      {env: map[string]string{"GOMEMLIMIT": "1GiB"}, want: Settings{gcPercent: gcPercent}},
		"both":            {env: map[string]string{"GOGC": "off", "GOMEMLIMIT": "off"}},
	} {
		t.Run(name, func(t *testing.T) {
			getenv := func(key string) string { return c.env[key] }
			got, err := choose(getenv, small, Program{all, c.own})
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestLimitWithin(t *testing.T) {
	for _, c := range []struct{ container, want int64 }{
		{0, 0},
		{16 * mebibytes, 8 * mebibytes},
		{32 * mebibytes, 16 * mebibytes},
		{64 * mebibytes, 48 * mebibytes},
		{1000 * mebibytes, 900 * mebibytes},
	} {
		if got := limitWithin(c.container); got != c.want {
			t.Errorf("got %d within %d, want %d", got, c.container, c.want)
		}
	}
}

// TestFor: what is chosen is what the collector goes by, and stands in the log;
// a kernel that tells nothing is no trouble.
func TestFor(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	none := func(string) string { return "" }
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))

	const ceiling = 66 * mebibytes
	settingsFor(none, unknown, Program{Ceiling: ceiling}, log).Apply()
	if got, want := debug.SetMemoryLimit(-1), int64(66*mebibytes-programPages); got != want {
		t.Errorf("got a limit of %d where the kernel tells nothing, want %d, below the ceiling", got, want)
	}
	settingsFor(none, small, Program{Ceiling: ceiling}, log).Apply()
	if got, want := debug.SetMemoryLimit(-1), int64(48*mebibytes); got != want {
		t.Errorf("got a limit of %d, want %d", got, want)
	}
	if got := debug.SetGCPercent(100); got != gcPercent {
		t.Errorf("got GOGC %d, want %d", got, gcPercent)
	}
	if want := `limit=64Mi ceiling=66Mi`; !strings.Contains(text.String(), want) {
		t.Errorf("got log %q, want a warning with %q", text.String(), want)
	}
	if want := "GOGC=30 GOMEMLIMIT=48Mi container=64Mi\n"; !strings.HasSuffix(text.String(), want) {
		t.Errorf("got log %q, want %q at its end", text.String(), want)
	}
}
