package gatekeepersource

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources/sourcetest"
)

// TestRandom plays Gatekeeper and docket at random: audits that end, are abandoned or
// overlap with what docket does, a retention that looks at nothing, a queue that stands
// still, stops and crashes. Whatever happens, no line is stored twice, what is called
// complete is whole, and a run that docket has seen is stored or reported as vanished.
func TestRandom(t *testing.T) {
	t.Parallel()
	for n := range 25 / few(5) {
		seed := rand.Uint64()
		if testing.Short() {
			seed = uint64(n) // the gate decides nothing by chance
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			g := &game{t: t, w: newWorld(t), rand: rand.New(rand.NewPCG(seed, 0)), files: map[string][]string{}, whole: map[string]bool{}, seen: map[string]bool{}}
			g.w.stopWait = await.Left(t) // what is seen at the end is read at the end
			g.driver = &driver{t: t, dir: filepath.Join(g.w.path, "audit-channel"), maxResults: 1 + g.rand.IntN(4)}
			g.w.config.DeleteAfterRead = g.rand.IntN(3) == 0
			if g.rand.IntN(3) == 0 { // files are held open
				g.w.redaction = &sourcetest.Censor{Text: "nothing"}
			}
			g.play()
		})
	}
}

type game struct {
	t      *testing.T
	w      *world
	rand   *rand.Rand
	driver *driver
	runs   int
	files  map[string][]string // lines that were written, by run
	whole  map[string]bool     // runs that were ended
	seen   map[string]bool     // runs that docket has noted or claimed
}

func (g *game) play() {
	w := g.w
	w.start()
	for range 40 {
		switch g.rand.IntN(8) {
		case 0:
			w.intake.Hold()
		case 1:
			w.intake.Release()
		case 2:
			g.look()
			w.crash()
			w.start()
		case 3:
			g.look()
			w.intake.Release() // or the stop would wait
			w.stop()
			w.newIntake()
			if g.rand.IntN(2) == 0 {
				g.audit()
			}
			w.start()
		default:
			g.audit()
		}
	}
	w.intake.Release()
	last := runAt(g.runs)
	g.audit()
	w.eventually("last run", func() bool {
		runs := runsOf(g.t, w.texts())
		for _, r := range runs {
			if r.ID == last {
				return true
			}
		}
		return !g.whole[last]
	})
	for range 2 { // what was seen and gone just before the end is told by the next process
		w.eventually("end", func() bool {
			v, err := os.ReadFile(w.statePath())
			live := 1 // the last run, if it was not ended
			if g.whole[last] {
				live = 0
			}
			return err == nil && !strings.Contains(string(v), `.log"`) && strings.Count(string(v), `.txt"`) <= live
		})
		w.stop()
		w.newIntake()
		w.start()
	}
	w.stop()
	g.look()
	g.check()
}

// audit is one run of Gatekeeper.
func (g *game) audit() {
	id := runAt(g.runs)
	g.runs++
	g.files[id] = auditLines(id, 1+g.rand.IntN(4))
	write, end := g.driver.begin(id)
	for _, line := range g.files[id][1 : len(g.files[id])-1] {
		write(line)
	}
	if g.rand.IntN(5) == 0 { // Gatekeeper is killed: its lock goes with it
		g.files[id] = g.files[id][:len(g.files[id])-1]
		g.driver.abandon()
		return
	}
	end()
	g.whole[id] = true
}

// look notes which runs docket knows of.
func (g *game) look() {
	data, _ := os.ReadFile(g.w.statePath())
	claims, _ := os.ReadDir(filepath.Join(g.w.state, "claims"))
	for id := range g.files {
		stem := strings.ReplaceAll(id, ":", "_")
		known := strings.Contains(string(data), stem)
		for _, c := range claims {
			known = known || strings.Contains(c.Name(), stem)
		}
		if known {
			g.seen[id] = true
		}
	}
}

func (g *game) check() {
	got := map[string][]string{}
	for _, l := range g.w.intake.Lines() {
		got[l.Producer] = append(got[l.Producer], l.Text)
	}
	reported := map[string]decision.RunReason{}
	for producer, texts := range got {
		runs := runsOf(g.t, texts)
		if len(runs) != 1 || len(runsOf(g.t, texts[len(texts)-1:])) != 1 {
			g.t.Errorf("%s: got %d run records, want one at the end", producer, len(runs))
			continue
		}
		r := runs[0]
		before, twice := reported[r.ID]
		// A crash between the last receipt and the state makes a file that was held open,
		// and is gone, look as if it had not been read.
		falseAlarm := before == decision.Vanished || r.Reason == decision.Vanished
		if twice && !falseAlarm {
			g.t.Errorf("got run %s as %s and as %s", r.ID, before, r.Reason)
		}
		reported[r.ID] = r.Reason
		if r.Reason == decision.Vanished {
			continue
		}
		wantTexts(g.t, texts[:len(texts)-1], g.files[r.ID])
		if r.Complete != g.whole[r.ID] {
			g.t.Errorf("got %+v of a run that was ended: %v", r, g.whole[r.ID])
		}
	}
	for id := range g.seen {
		if _, ok := reported[id]; !ok && g.whole[id] {
			g.t.Errorf("got no word of run %s, which was seen", id)
		}
	}
	if g.t.Failed() {
		g.t.Logf("reported %v\nlog %s", reported, g.w.log.String())
	}
}
