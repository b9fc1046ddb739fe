package conformance_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/client/clienttest/conformance"
	"github.com/docket-export/docket/client/internal/testleak"
)

func TestMain(m *testing.M) { testleak.Main(m) }

// A producer passes a scenario, and another fails it. Every habit meets every scenario in
// the soak tests.
func TestVerdicts(t *testing.T) {
	for _, s := range conformance.Scenarios() {
		if s.Name != "refused" {
			continue
		}
		for name, tt := range map[string]struct {
			habits habits
			says   string // the fault; none if empty
		}{
			"passes":        {habits{}, ""},
			"refused again": {habits{resendRefused: true}, "came again under another number"},
		} {
			t.Run(name, func(t *testing.T) {
				tt.habits.erred = new(atomic.Bool)
				r, err := conformance.Suite{Records: 20, Timeout: await.Left(t)}.Try(t.Context(), s, tt.habits.produce)
				if err != nil {
					t.Fatal(err)
				}
				said := slices.ContainsFunc(r.Faults, func(f conformance.Fault) bool { return strings.Contains(f.String(), tt.says) })
				if r.Passed() != (tt.says == "") || !r.Passed() && !said {
					t.Errorf("got passed %t, faults %v, want one with %q in it", r.Passed(), r.Faults, tt.says)
				}
			})
		}
		return
	}
	t.Fatal("there is no scenario refused")
}

// Without a producer the suite waits for somebody, for as long as it takes.
func TestByHand(t *testing.T) {
	s := conformance.Scenarios()[0]
	var told string
	var connecting sync.WaitGroup
	suite := conformance.Suite{Timeout: await.Left(t), Waiting: func(_ conformance.Scenario, address string, records int) {
		told = address
		connecting.Go(func() {
			if err := (habits{}).produce(t.Context(), address, records); err != nil {
				t.Error(err)
			}
		})
	}}
	r, err := suite.Try(t.Context(), s, nil)
	connecting.Wait()
	if err != nil || !r.Passed() {
		t.Errorf("got %+v, %v, want it passed", r, err)
	}
	if !strings.HasPrefix(told, "unix:///") {
		t.Errorf("told the address %q, want a Unix socket", told)
	}
}

func TestByHandEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	suite := conformance.Suite{Waiting: func(conformance.Scenario, string, int) { cancel(enough) }}
	if _, err := suite.Try(ctx, conformance.Scenarios()[0], nil); !errors.Is(err, enough) {
		t.Errorf("got %v, want %v", err, enough)
	}
}

func TestSuiteRefuses(t *testing.T) {
	dir := t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	tests := map[string]struct {
		suite conformance.Suite
		want  string
	}{
		"too few records":   {conformance.Suite{Records: 9}, "at least 10 records"},
		"negative timeout":  {conformance.Suite{Timeout: -1}, "must not be negative"},
		"relative path":     {conformance.Suite{Address: "unix://s"}, "absolute path"},
		"other scheme":      {conformance.Suite{Address: "http://127.0.0.1"}, "must be unix://"},
		"no port":           {conformance.Suite{Address: "tcp://127.0.0.1"}, "missing port"},
		"another machine":   {conformance.Suite{Address: "tcp://192.0.2.1:1"}, "on this machine"},
		"every interface":   {conformance.Suite{Address: "tcp://:1"}, "on this machine"},
		"address in use":    {conformance.Suite{Address: "unix://" + filepath.Join(dir, "s")}, "choose another address"},
		"missing directory": {conformance.Suite{Address: "unix://" + filepath.Join(dir, "no", "s")}, "no such file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := tt.suite.Try(t.Context(), conformance.Scenarios()[0], habits{}.produce)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q in it", err, tt.want)
			}
		})
	}
}
