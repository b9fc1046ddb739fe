//go:build soak

package conformance_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/client/clienttest/conformance"
)

// Producers that go about it in different ways, all of them right.
func TestGoodProducers(t *testing.T) {
	tests := map[string]struct {
		habits  habits
		address string
	}{
		"many in flight": {habits{}, ""},
		"one in flight":  {habits{oneInFlight: true}, ""},
		"half close":     {habits{halfClose: true}, ""},
		"better next":    {habits{betterNext: true}, ""},
		"over TCP":       {habits{}, "tcp://127.0.0.1:0"},
	}
	var all trials
	for name, tt := range tests {
		suite := conformance.Suite{Address: tt.address, Timeout: await.Left(t)}
		all.add(name, func(string) conformance.Suite { return suite }, tt.habits)
	}
	results := all.run(t)
	for name := range tests {
		t.Run(name, func(t *testing.T) {
			for _, r := range results[name] {
				for _, f := range r.Faults {
					t.Errorf("%s: %s", r.Scenario, f)
				}
			}
		})
	}
}

// Each defect is found in the scenarios that are there for it, and in no other:
// either lists those in which it depends on timing.
func TestDefects(t *testing.T) {
	tests := map[string]struct {
		habits        habits
		fails, either string
		says          string // one of the faults
	}{
		"plain mode":           {habits{plainMode: true}, every, "", "plain mode"},
		"does not wait":        {habits{noWait: true}, "acks-late last-ack acks-lost forgotten queue-full", every, "to end only when all is acknowledged"},
		"does not reconnect":   {habits{noReconnect: true}, "break-before-ack break-half-acked break-in-line acks-lost closing-line away restart forgotten refusal-lost queue-full", "", `it ended with "EOF"`},
		"does not dial again":  {habits{noRedial: true}, "away", "restart forgotten", "connect: no such file or directory"},
		"another name":         {habits{newName: true}, "acks-lost refusal-lost queue-full", "away restart", "was stored twice"},
		"other numbers":        {habits{newNumbers: true}, "break-half-acked break-in-line closing-line queue-full", "away restart refusal-lost", "always mean the same bytes"},
		"skips what it sent":   {habits{skipUnacked: true}, "break-before-ack break-half-acked break-in-line closing-line away restart forgotten queue-full", "acks-lost refusal-lost", "different records"},
		"counts acks":          {habits{countAcks: true}, "acks-late", every, "it was still at work"},
		"impatient":            {habits{impatient: true}, "acks-late last-ack", every, "was stored twice"},
		"the same hello":       {habits{sameHello: true}, "acks-lost refusal-lost", "away restart", "again and again"},
		"refused again":        {habits{resendRefused: true}, "refused", "", "came again under another number"},
		"QueueFull is final":   {habits{skipQueueFull: true}, "queue-full", "", "did not come again"},
		"QueueFull renumbers":  {habits{renumberQueueFull: true}, "queue-full", "", "was stored twice"},
		"QueueFull renames":    {habits{renameQueueFull: true}, "queue-full", "", "under the same name and number"},
		"stored is sent again": {habits{resendForgotten: true}, "forgotten", "", "was stored twice"},
		"cuts lines short":     {habits{shortWrites: true}, "slow-reader", "acks-lost queue-full", "of 2000 records had arrived"},
		"ends when told to":    {habits{endsOnClosing: true}, "closing-line queue-full", "", "gave up: the exporter is stopping"},
		"goes on when told to": {habits{goesOnAfterClosing: true}, "closing-line queue-full", "", "still sends lines 2s after the closing line"},
	}
	const tooLong = 20 * time.Second
	var all trials
	for name, tt := range tests {
		all.add(name, func(scenario string) conformance.Suite {
			if listed(tt.fails, scenario) || listed(tt.either, scenario) { // perhaps by being at work for ever
				return conformance.Suite{Records: 20, Timeout: tooLong}
			}
			return conformance.Suite{Records: 20, Timeout: await.Left(t)}
		}, tt.habits)
	}
	results := all.run(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var said []string
			for _, r := range results[name] {
				fails, either := listed(tt.fails, r.Scenario), listed(tt.either, r.Scenario)
				// Who was held up until there was no occasion for a mistake has made none.
				fails = fails && (r.erred || !tt.habits.needsOccasion())
				if fails == r.Passed() && (fails || !either) {
					t.Errorf("%s: got passed %t, want %t; faults %v", r.Scenario, r.Passed(), !fails, r.Faults)
				}
				for _, f := range r.Faults {
					said = append(said, f.String())
				}
			}
			if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, tt.says) }) {
				t.Errorf("got faults %q, want one with %q in it", said, tt.says)
			}
		})
	}
}

// An answer overtakes the lines that it covers: who leaves them out has others lost. It is
// tried alone, because nothing is overtaken on a machine that is held up.
func TestLinesLeftOut(t *testing.T) {
	for _, s := range conformance.Scenarios() {
		if s.Name != "acks-lost" {
			continue
		}
		r, err := conformance.Suite{Timeout: await.Left(t)}.Try(t.Context(), s, habits{leavesOut: true}.produce)
		if err != nil || !slices.ContainsFunc(r.Faults, func(f conformance.Fault) bool { return strings.Contains(f.Got, "always mean the same bytes") }) {
			t.Errorf("got %v, faults %v, want one about numbers", err, r.Faults)
		}
	}
}

// every lists all scenarios.
const every = "*"

func listed(list, name string) bool {
	return list == every || slices.Contains(strings.Fields(list), name)
}

// trials are run side by side: they spend their time waiting.
type trials struct {
	wg      sync.WaitGroup
	waiting []func(*testing.T)

	mu      sync.Mutex
	results map[string][]result
}

// result says of a producer what was found, and whether there was something to be found.
type result struct {
	conformance.Result
	erred bool
}

// add has producers with habits tried in every scenario, with the suite for that.
func (all *trials) add(name string, suite func(scenario string) conformance.Suite, h habits) {
	for _, s := range conformance.Scenarios() {
		h := h
		h.erred = new(atomic.Bool)
		all.waiting = append(all.waiting, func(t *testing.T) {
			r, err := suite(s.Name).Try(t.Context(), s, h.produce)
			if err != nil {
				t.Errorf("%s: %s: %v", name, s.Name, err)
			}
			all.mu.Lock()
			defer all.mu.Unlock()
			all.results[name] = append(all.results[name], result{r, h.erred.Load()})
		})
	}
}

func (all *trials) run(t *testing.T) map[string][]result {
	const atOnce = 32 // or they hold each other up for longer than the scenarios allow for
	all.results = make(map[string][]result)
	slots := make(chan struct{}, atOnce)
	for _, try := range all.waiting {
		slots <- struct{}{}
		all.wg.Go(func() {
			defer func() { <-slots }()
			try(t)
		})
	}
	all.wg.Wait()
	return all.results
}

// The timeout of a scenario counts from the first record, not from when the suite began to wait.
func TestByHandInTime(t *testing.T) {
	s := conformance.Scenarios()[0]
	var told string
	var connecting sync.WaitGroup
	suite := conformance.Suite{Timeout: 3 * time.Second, Waiting: func(_ conformance.Scenario, address string, records int) {
		told = address
		connecting.Go(func() {
			time.Sleep(3500 * time.Millisecond) // longer than the timeout: it counts from the first record
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

// needsOccasion says whether a producer that the machine holds up for long enough makes
// no mistake.
func (h habits) needsOccasion() bool { return h.noWait || h.noRedial || h.impatient }
