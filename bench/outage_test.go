package main

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/record"
)

// bodyOf is a request with the records that have these numbers.
func bodyOf(numbers ...int) []byte {
	b := record.NewBlock(0)
	var body []byte
	for _, n := range numbers {
		body = append(body, b.Next(n, 1)...)
	}
	return body
}

func TestRecordNumbers(t *testing.T) {
	if got, err := recordNumbers(bodyOf(0, 7, 123456, 1024)); err != nil || !slices.Equal(got, []int{0, 7, 123456, 1024}) {
		t.Errorf("got %v and error %v, want 0, 7, 123456 and 1024", got, err)
	}
	for _, body := range []string{"{}\n", "\n", `{"id":"7f3c1d9a-0b42-4c55-9e1b-00000000001`, `{"id":"7f3c1d9a-0b42-4c55-9e1b-00000000000x"}`} {
		if got, err := recordNumbers([]byte(body)); err == nil {
			t.Errorf("%q: got %v and no error", body, got)
		}
	}
}

// What the books say of 10 records after all that a receiver has met with.
func TestBooks(t *testing.T) {
	type request struct {
		numbers []int
		failing bool
		want    int
	}
	const ok, fault, bad = http.StatusOK, http.StatusInternalServerError, http.StatusBadRequest
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	tests := map[string]struct {
		poison   int
		requests []request
		letters  []int
		has      int // records without a gap
		want     map[string]float64
	}{
		"all at once": {-1, []request{{all, false, ok}}, nil, 10,
			map[string]float64{"logged": 10, "received": 10, "twice": 0, "lost": 0, "letters": 0, "kept": 0, "innocent": 0}},
		"what fails is not received": {-1, []request{{all, true, fault}}, nil, 0,
			map[string]float64{"logged": 10, "received": 0, "twice": 0, "lost": 10, "letters": 0, "kept": 0, "innocent": 0}},
		"again after a failure is not twice": {-1, []request{{all, true, fault}, {all, false, ok}}, nil, 10,
			map[string]float64{"logged": 10, "received": 10, "twice": 0, "lost": 0, "letters": 0, "kept": 0, "innocent": 0}},
		"redelivered": {-1, []request{{all[:6], false, ok}, {all[4:], false, ok}}, nil, 10,
			map[string]float64{"logged": 10, "received": 10, "twice": 2, "lost": 0, "letters": 0, "kept": 0, "innocent": 0}},
		"twice in one request": {-1, []request{{append([]int{3}, all...), false, ok}}, nil, 10,
			map[string]float64{"logged": 10, "received": 10, "twice": 1, "lost": 0, "letters": 0, "kept": 0, "innocent": 0}},
		"a gap": {-1, []request{{all[:3], false, ok}, {all[5:], false, ok}}, nil, 3,
			map[string]float64{"logged": 10, "received": 8, "twice": 0, "lost": 2, "letters": 0, "kept": 0, "innocent": 0}},
		"the end is missing": {-1, []request{{all[:3], false, ok}}, nil, 3,
			map[string]float64{"logged": 10, "received": 3, "twice": 0, "lost": 7, "letters": 0, "kept": 0, "innocent": 0}},
		"poison is refused with all of its request": {4, []request{{all, false, bad}, {all[:4], false, ok}, {all[4:5], false, bad}, {all[5:], false, ok}}, []int{4}, 4,
			map[string]float64{"logged": 10, "received": 9, "twice": 0, "lost": 0, "letters": 1, "kept": 1, "innocent": 0}},
		"poison that nobody has kept": {4, []request{{all[:4], false, ok}, {all[5:], false, ok}}, nil, 4,
			map[string]float64{"logged": 10, "received": 9, "twice": 0, "lost": 1, "letters": 0, "kept": 0, "innocent": 0}},
		"innocent ones set aside": {4, []request{{all[:4], false, ok}, {all[7:], false, ok}}, []int{4, 5, 6}, 4,
			map[string]float64{"logged": 10, "received": 7, "twice": 0, "lost": 0, "letters": 3, "kept": 1, "innocent": 2}},
		"more than was acknowledged": {-1, []request{{append([]int{10, 11}, all...), false, ok}}, nil, 12,
			map[string]float64{"logged": 10, "received": 10, "twice": 0, "lost": 0, "letters": 0, "kept": 0, "innocent": 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := &ailing{refuses: tt.poison}
			for _, r := range tt.requests {
				d.fail(r.failing)
				if got := d.take(bodyOf(r.numbers...)); got != r.want {
					t.Errorf("%v: got %d, want %d", r.numbers, got, r.want)
				}
			}
			if !d.has(tt.has) || d.has(tt.has+1) {
				t.Errorf("got the first %d without a gap, want %d", d.through, tt.has)
			}
			got := d.books(10, tt.letters)
			for key, want := range tt.want {
				if got[key] != want {
					t.Errorf("%s: got %v, want %v", key, got[key], want)
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// The receiver answers over HTTP what take decides.
func TestAilingAnswers(t *testing.T) {
	d, err := newAiling()
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	steps := []struct {
		name string
		do   func()
		body []byte
		want int
	}{
		{"well", func() {}, bodyOf(0, 1), http.StatusOK},
		{"failing", func() { d.fail(true) }, bodyOf(2), http.StatusInternalServerError},
		{"poison", func() { d.fail(false); d.poison(2) }, bodyOf(2), http.StatusBadRequest},
		{"beside it", func() {}, bodyOf(3), http.StatusOK},
		{"no records", func() {}, []byte("x\n"), http.StatusBadRequest},
	}
	for _, step := range steps {
		step.do()
		res, err := http.Post("http://"+d.address+"/", "", bytes.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != step.want {
			t.Errorf("%s: got %s, want %d", step.name, res.Status, step.want)
		}
	}
}

// A steady hand has logged what was acknowledged, and nothing else.
func TestSteadyHand(t *testing.T) {
	e, socket := serve(t)
	p, err := connect(socket, 0, record.NewBlock(0))
	if err != nil {
		t.Fatal(err)
	}
	defer p.nc.Close()
	hand := &steadyHand{producer: p}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- hand.log(ctx) }()
	if err := host.Poll(t.Context(), time.Millisecond, func() (bool, error) { return hand.logged.Load() >= 3*40, nil }); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got, want := len(e.Lines()), int(hand.logged.Load()); got != want {
		t.Errorf("the exporter has %d records and %d were logged", got, want)
	}
}

// A short bad hour with docket itself: every row has its value, and no record is lost.
func TestOutage(t *testing.T) {
	values, err := docketLab(t).outage(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(values)), valueKeys(t, "outage"); !slices.Equal(got, want) {
		t.Errorf("got values for %v, want %v", got, want)
	}
	if values["lost"] != 0 || values["kept"] != 1 || values["innocent"] != 0 || values["received"] != values["logged"]-1 {
		t.Errorf("got %v, want all received but the one that is kept", values)
	}
}

// The doorstep says when the first request has come, and answers none.
func TestDoorstep(t *testing.T) {
	d, err := newDoorstep()
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			res, err := http.Post("http://"+d.address+"/", "", bytes.NewReader(bodyOf(0)))
			if err == nil {
				res.Body.Close()
			}
			ended <- err
		}()
	}
	if at := <-d.came; at.Before(before) {
		t.Errorf("came at %v, before it was sent at %v", at, before)
	}
	select {
	case err := <-ended:
		t.Errorf("got an answer, error %v, want none", err)
	default:
	}
	d.close()
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("got an answer, want a broken connection")
		}
	}
}
