package delta

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// model is what a tracker should be, without files, keys and passes over them.
type model struct {
	standing []stands // in the order of the last run
	runs     []string
	snapshot string
	begun    string
	interval time.Duration
}

type stands struct {
	number int
	opened string
}

func (m model) clone() model {
	m.standing, m.runs = slices.Clone(m.standing), slices.Clone(m.runs)
	return m
}

func minutesBetween(a, b string) float64 {
	x, _ := time.Parse(time.RFC3339, a)
	y, _ := time.Parse(time.RFC3339, b)
	return y.Sub(x).Minutes()
}

// read returns what a run gives, as texts, and the model after it.
func (m model) read(run string, numbers []int, complete bool, interval time.Duration) (want []string, next model, c Changes) {
	if slices.Contains(m.runs, run) {
		return nil, m, Changes{Standing: uint64(len(m.standing))}
	}
	late := len(m.runs) > 0 && minutesBetween(m.runs[len(m.runs)-1], run) < 0
	due := func(before string, minutes float64) bool {
		d := minutesBetween(before, run)
		return before == "" || d < 0 || d >= minutes
	}
	repeat := !late && m.interval > 0 && due(m.snapshot, m.interval.Minutes()) && due(m.begun, m.interval.Minutes()/retries)

	next = m.clone()
	next.standing = nil // those that are seen, in the order of the run, before the others
	next.interval = interval
	next.runs = append(next.runs, run)
	seen := make(map[int]bool)
	repeated := false
	for _, n := range numbers {
		i := slices.IndexFunc(m.standing, func(s stands) bool { return s.number == n })
		switch {
		case seen[n]:
		case i < 0:
			want = append(want, text("opened", run, n, "", string(line(run, n))))
			next.standing = append(next.standing, stands{n, run})
			c.Opened++
		default:
			next.standing = append(next.standing, m.standing[i])
			if repeat {
				want = append(want, text("snapshot", run, n, m.standing[i].opened, string(line(run, n))))
				repeated = true
			}
		}
		seen[n] = true
	}
	for _, s := range m.standing {
		switch {
		case seen[s.number]:
		case complete && !late:
			want = append(want, text("resolved", run, s.number, s.opened, ""))
			c.Resolved++
		default:
			next.standing = append(next.standing, s)
		}
	}
	if repeated {
		next.begun = run
	}
	if repeat && complete {
		next.snapshot = run
		c.Snapshot = true
	}
	c.Standing = uint64(len(next.standing))
	return want, next, c
}

func text(kind, run string, number int, opened, violation string) string {
	return fmt.Sprintf("%s run=%s violation=%d opened=%s %s", kind, run, number, opened, violation)
}

// texts turns records into what the model says of them. It checks that a key stands for
// one violation, and that the other way round holds, too.
func (h *history) texts(records []record) []string {
	var all []string
	for _, r := range records {
		var v struct {
			Name    string `json:"resourceName"`
			Message string `json:"message"`
			Labels  any    `json:"resourceLabels"`
		}
		if err := json.Unmarshal(r.Violation, &v); err != nil {
			h.t.Fatal(err)
		}
		number := -1
		if _, err := fmt.Sscanf(v.Name, "cart-%d", &number); err != nil {
			h.t.Fatalf("seed %d: violation %s: %v", h.seed, r.Violation, err)
		}
		if key, ok := h.keys[number]; ok && key != r.Key || !ok && slices.Contains(slices.Collect(maps.Values(h.keys)), r.Key) {
			h.t.Fatalf("seed %d: violation %d has key %s, keys so far are %v", h.seed, number, r.Key, h.keys)
		}
		h.keys[number] = r.Key
		kind := strings.TrimPrefix(r.EventType, "docket.audit.")
		violation := string(r.Violation)
		if kind == "resolved" {
			if v.Labels != nil || v.Message != fmt.Sprintf("provide <label %d>", number) {
				h.t.Fatalf("seed %d: got %s in a resolved record, want the identifying members", h.seed, violation)
			}
			violation = ""
		}
		all = append(all, text(kind, r.ID, number, r.Opened, violation))
	}
	return all
}

// history is the life of one tracker.
type history struct {
	t        *testing.T
	seed     uint64
	rand     *rand.Rand
	path     string
	interval time.Duration // that the tracker was opened with
	tracker  *Tracker
	model    model
	keys     map[int]string
	minutes  int
}

var errCrash = errors.New("crash")

// few is by how much fewer of something a short test has.
func few(n int) int {
	if testing.Short() {
		return n
	}
	return 1
}

// TestModel leads trackers through random runs: complete or not, read late, read twice,
// with violations that stand twice, and ended by a crash or given up at any step, also
// within Commit. What a run gives is what the model says, each time it is read.
func TestModel(t *testing.T) {
	for seed := range uint64(10 / few(5)) {
		h := &history{
			t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), keys: make(map[int]string),
			path: filepath.Join(t.TempDir(), "state", "audit"),
		}
		h.reopen()
		for range 40 {
			h.run()
		}
	}
}

func (h *history) reopen() {
	h.interval = []time.Duration{0, 30 * time.Minute, time.Hour}[h.rand.IntN(3)]
	h.tracker = open(h.t, h.path, h.interval)
	if len(h.model.runs) == 0 {
		h.model.interval = h.interval
	}
}

// run reads one run until it is committed.
func (h *history) run() {
	h.minutes += h.rand.IntN(30) - 3
	id := runID(h.minutes)
	if n := len(h.model.runs); n > 0 && h.rand.IntN(10) == 0 {
		id = h.model.runs[h.rand.IntN(n)]
	}
	var numbers []int
	for n := range 12 {
		for range []int{0, 1, 1, 1, 2}[h.rand.IntN(5)] {
			numbers = append(numbers, n)
		}
	}
	h.rand.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	complete := h.rand.IntN(3) > 0

	want, next, changes := h.model.read(id, numbers, complete, h.interval)
	for {
		steps := 2*len(numbers) + 4 // beyond the last one there is no crash
		got, c, committed := h.attempt(id, numbers, complete, h.rand.IntN(steps))
		if !slices.Equal(got, want[:min(len(got), len(want))]) || committed && len(got) != len(want) {
			h.t.Fatalf("seed %d: run %s, complete %t, gave\n%s\nwant\n%s", h.seed, id, complete, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if committed && c != changes {
			h.t.Fatalf("seed %d: run %s: got %+v, want %+v", h.seed, id, c, changes)
		}
		if slices.Contains(h.tracker.state.Runs, id) { // a crash may have come after the state was saved
			h.model = next
			break
		}
		// The interval of a tracker that is opened again is that after the next commit.
		want, next, changes = h.model.read(id, numbers, complete, h.interval)
	}
	if n := len(h.tracker.standing); n != len(h.model.standing) {
		h.t.Fatalf("seed %d: after run %s %d violations stand, want %d", h.seed, id, n, len(h.model.standing))
	}
}

// attempt reads a run up to a crash at the given step, if there are so many.
func (h *history) attempt(id string, numbers []int, complete bool, crash int) (got []string, c Changes, committed bool) {
	step := func() bool { crash--; return crash < 0 }
	over := func() ([]string, Changes, bool) {
		if h.rand.IntN(2) == 0 {
			h.reopen()
		}
		return got, c, false
	}
	r := h.tracker.Begin(id)
	for _, n := range numbers {
		if step() {
			return over()
		}
		out, n, err := r.Observe([]byte("before"), line(id, n))
		if err != nil || string(out[:6]) != "before" {
			h.t.Fatalf("seed %d: Observe: %q, %v", h.seed, out, err)
		}
		got = append(got, h.texts(split(h.t, out[6:], n))...)
	}
	c, err := r.End(complete, func(out []byte, n int) error {
		if step() {
			return errCrash
		}
		got = append(got, h.texts(split(h.t, out, n))...)
		return nil
	})
	if errors.Is(err, errCrash) || err == nil && step() {
		return over()
	}
	if err != nil {
		h.t.Fatalf("seed %d: End: %v", h.seed, err)
	}
	before := files(h.t, filepath.Dir(h.path))
	if err := r.Commit(); err != nil {
		h.t.Fatalf("seed %d: Commit: %v", h.seed, err)
	}
	if step() {
		h.crashInCommit(before)
		return got, c, false
	}
	return got, c, true
}

// crashInCommit puts the files into one of the states that they have on the way from
// before to now.
func (h *history) crashInCommit(before map[string]string) {
	dir := filepath.Dir(h.path)
	after := files(h.t, dir)
	document := filepath.Base(h.path)
	state := maps.Clone(before)
	for name, data := range after { // a file of entries, in part or whole
		if name != document {
			state[name] = data[:h.rand.IntN(len(data)+1)]
			if h.rand.IntN(2) == 0 {
				state[name] = data
			}
		}
		if before[name] == data { // which stood before
			state[name] = data
		}
	}
	switch h.rand.IntN(3) {
	case 0: // before the document
	case 1: // while it is written
		state[document+".new"] = after[document][:h.rand.IntN(len(after[document]))]
	case 2: // it is there, and nothing is tidied up
		state = maps.Clone(before)
		maps.Copy(state, after)
	}
	if err := os.RemoveAll(dir); err != nil {
		h.t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	for name, data := range state {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	h.reopen()
}
