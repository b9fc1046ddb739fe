package deadletter

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/disk/crashdisk"
)

// session does things to a Store and knows what it must hold.
type session struct {
	t       *testing.T
	dice    *rand.Rand
	disk    *testDisk
	store   *Store
	letters map[uint64]Letter
	// perhaps is what a crash may leave in place of letters: what the changes that
	// have failed since the last success would have made of them.
	perhaps []map[uint64]Letter
	number  int
}

func newSession(t *testing.T, dice *rand.Rand) *session {
	s := &session{t: t, dice: dice, disk: newTestDisk(dice), letters: map[uint64]Letter{}}
	s.open()
	return s
}

func (s *session) open() {
	s.t.Helper()
	s.disk.restart()
	store, err := open(s.disk.place(), Options{MaxBytes: 1 << 20})
	if err != nil {
		s.t.Fatalf("open: %v", err)
	}
	s.store = store
	s.store.slack = 2000
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

// newLetter makes one whose record looks like a line of a log now and then.
func (s *session) newLetter(seq uint64) Letter {
	s.number++
	at := began.Add(time.Duration(s.number) * time.Second)
	record := ` {"n":` + strconv.Itoa(s.number) + `,"text":"` + strings.Repeat("x", s.dice.IntN(300)) + `"}` + "\t"
	if s.dice.IntN(4) == 0 {
		text, err := (&line{Remove: []uint64{1, 2, 3}}).append(nil)
		if err != nil {
			s.t.Fatal(err)
		}
		record = `{"record":{"` + strings.ReplaceAll(strings.TrimSpace(string(text)), `"`, "'") + `": "\u00e9é"}}`
	}
	return Letter{
		Seq: seq, Source: "webhook", Producer: "p-" + strconv.Itoa(s.dice.IntN(3)), Received: at.Add(-time.Hour),
		Reason: "the server answered 422\nand more <b>", Status: "422", Answer: "no 中", Attempts: 1 + s.dice.IntN(3),
		FirstFailed: at, LastFailed: at.Add(time.Minute), Record: []byte(record),
	}
}

func (s *session) someSeqs() []uint64 {
	if s.dice.IntN(6) == 0 {
		return nil
	}
	seqs := []uint64{}
	for range s.dice.IntN(6) {
		seqs = append(seqs, 1+s.dice.Uint64N(20))
	}
	return seqs
}

func (s *session) add() error {
	after := maps.Clone(s.letters)
	var list []Letter
	for range 1 + s.dice.IntN(4) {
		seq := 1 + s.dice.Uint64N(20)
		if slices.ContainsFunc(list, func(l Letter) bool { return l.Seq == seq }) {
			continue
		}
		l := s.newLetter(seq)
		given := l
		given.Record = bytes.Clone(l.Record)
		list = append(list, given)
		if before, ok := s.letters[seq]; ok {
			l.FirstFailed, l.Attempts = before.FirstFailed, l.Attempts+before.Attempts
		}
		after[seq] = l
	}
	add := s.store.Add
	if s.dice.IntN(4) == 0 { // those that were removed stay so
		add = s.store.Return
		for _, l := range list {
			if _, ok := s.letters[l.Seq]; !ok {
				delete(after, l.Seq)
			}
		}
	}
	err := add(list)
	for _, l := range list { // the bytes are the caller's again
		clear(l.Record)
	}
	return s.settle(err, after)
}

func (s *session) redrive() error {
	seqs, after, want := s.someSeqs(), maps.Clone(s.letters), 0
	for seq, l := range after {
		if (seqs == nil || slices.Contains(seqs, seq)) && !l.Redriving {
			l.Redriving = true
			after[seq] = l
			want++
		}
	}
	n, err := s.store.Redrive(seqs)
	if err == nil && n != want {
		s.t.Errorf("Redrive(%v): got %d, want %d", seqs, n, want)
	}
	return s.settle(err, after)
}

func (s *session) remove() error {
	seqs, after := s.someSeqs(), maps.Clone(s.letters)
	maps.DeleteFunc(after, func(seq uint64, _ Letter) bool { return seqs == nil || slices.Contains(seqs, seq) })
	n, err := s.store.Remove(seqs)
	if want := len(s.letters) - len(after); err == nil && n != want {
		s.t.Errorf("Remove(%v): got %d, want %d", seqs, n, want)
	}
	return s.settle(err, after)
}

// settle notes what a change has left.
func (s *session) settle(err error, after map[uint64]Letter) error {
	if err != nil {
		s.perhaps = append(s.perhaps, after)
		return err
	}
	if !reflect.DeepEqual(after, s.letters) { // to change nothing is no operation
		s.letters, s.perhaps = after, nil
	}
	return nil
}

func (s *session) step() error {
	return []func() error{s.add, s.add, s.redrive, s.remove}[s.dice.IntN(4)]()
}

// check compares everything that the store says with what it must hold. After a
// crash a letter may be as a change that failed would have made it.
func (s *session) check(crashed bool) {
	s.t.Helper()
	found := map[uint64]Letter{}
	list, err := s.store.Page(0, math.MaxInt)
	if err != nil {
		s.t.Fatalf("list: %v", err)
	}
	for _, listed := range list {
		l, ok, err := s.store.Get(listed.Seq)
		if err != nil || !ok {
			s.t.Fatalf("get %d: %v, %v", listed.Seq, ok, err)
		}
		found[l.Seq] = l
		l.Record = nil
		if !reflect.DeepEqual(l, listed) {
			s.t.Fatalf("List and Get differ: got\n%+v, want\n%+v", listed, l)
		}
	}
	if !slices.IsSortedFunc(list, func(a, b Letter) int { return cmp.Compare(a.Seq, b.Seq) }) {
		s.t.Errorf("got letters that are not in the order of seq")
	}
	for seq := uint64(1); seq <= 20; seq++ {
		got, is := found[seq]
		want, must := s.letters[seq]
		if is == must && reflect.DeepEqual(got, want) {
			continue
		}
		if crashed && slices.ContainsFunc(s.perhaps, func(letters map[uint64]Letter) bool {
			other, may := letters[seq]
			return is == may && reflect.DeepEqual(got, other)
		}) {
			continue
		}
		s.t.Fatalf("letter %d: got %v %s\nwant %v %s", seq, is, text(got), must, text(want))
	}
	s.checkNumbers(found)
	if crashed {
		s.letters, s.perhaps = found, nil
	}
}

func text(l Letter) string {
	record := string(l.Record)
	l.Record = nil
	return fmt.Sprintf("%+v %q", l, record)
}

// checkNumbers checks what the store says of its letters without reading them.
func (s *session) checkNumbers(found map[uint64]Letter) {
	s.t.Helper()
	from, to := 1+s.dice.Uint64N(20), 1+s.dice.Uint64N(20)
	var inRange, inAll uint64
	var waiting []Letter
	for seq, l := range found {
		if seq >= from && seq < to {
			inRange++
		}
		if l.Redriving {
			inAll++
			waiting = append(waiting, l)
		}
	}
	if got := s.store.Count(from, to); got != inRange {
		s.t.Errorf("Count(%d, %d): got %d, want %d", from, to, got, inRange)
	}
	stats := s.store.Stats()
	if stats.Letters != len(found) || stats.Redriving != int(inAll) || (stats.Bytes == 0) != (len(found) == 0) {
		s.t.Errorf("Stats: got %+v, want %d letters, %d redriving", stats, len(found), inAll)
	}
	slices.SortFunc(waiting, func(a, b Letter) int { return cmp.Compare(a.Seq, b.Seq) })
	if got, err := s.store.NextRedriving(math.MaxUint64, math.MaxInt, math.MaxInt); err != nil || !slices.EqualFunc(got, waiting, func(a, b Letter) bool { return reflect.DeepEqual(a, b) }) {
		s.t.Errorf("NextRedriving: got %v, %v, want %v", got, err, waiting)
	}
}

// seedOf is that of a random test: DEADLETTER_SEED, or a new one.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if testing.Short() {
		seed = 1 // the gate decides nothing by chance
	}
	if text := os.Getenv("DEADLETTER_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("DEADLETTER_SEED=%d", seed)
	return seed
}

// rounds are those of the tests that go through every operation.
func rounds() []uint64 {
	if testing.Short() {
		return []uint64{0, 3, 6}
	}
	return []uint64{0, 1, 2, 3, 4, 5, 6, 7}
}

// diceOf are those of one round. Generators of neighbouring seeds begin alike.
func diceOf(seed, round uint64) *rand.Rand {
	seeds := rand.New(rand.NewPCG(seed, 0))
	for range round {
		seeds.Uint64()
	}
	return rand.New(rand.NewPCG(seeds.Uint64(), seeds.Uint64()))
}

// TestModel does random things to a store, opens it again now and then, and
// compares it with a map.
func TestModel(t *testing.T) {
	s := newSession(t, diceOf(seedOf(t), 0))
	for range 1000 {
		if s.dice.IntN(20) == 0 {
			if err := s.store.Close(); err != nil {
				t.Fatal(err)
			}
			s.open()
		} else if err := s.step(); err != nil {
			t.Fatalf("a step on a sound disk: %v", err)
		}
		s.check(false)
	}
	if got := s.disk.files(damagedPrefix); len(got) > 0 {
		t.Errorf("got %v set aside without any damage", got)
	}
}

// TestCrashAtEveryOperation kills the process at each of its operations, in as many rounds
// as it takes to meet every kind of them.
func TestCrashAtEveryOperation(t *testing.T) {
	seed := seedOf(t)
	seen := map[string]int{}
	kinds := []string{"create", "write", "sync", "rename", "syncdir", "remove", "mkdir"}
	unseen := func(kind string) bool { return seen[kind] == 0 }
	for round := range uint64(50) {
		if int(round) >= len(rounds()) && !slices.ContainsFunc(kinds, unseen) {
			break
		}
		for killAt := 1; ; killAt++ {
			s := newSession(t, diceOf(seed, round))
			s.disk.killAt = killAt
			if s.until(crashdisk.ErrKilled, 25) {
				maps.Copy(seen, s.disk.seen)
				break
			}
			s.crash()
			s.recover(fmt.Sprintf("round %d, killed at operation %d", round, killAt))
		}
	}
	mustHaveSeen(t, seen, kinds...)
}

// until takes steps until one fails, with an error that is want. It is false when
// one has.
func (s *session) until(want error, steps int) (done bool) {
	s.t.Helper()
	for range steps {
		if err := s.step(); err != nil {
			if !errors.Is(err, want) {
				s.t.Fatalf("got error %v, want %v", err, want)
			}
			return false
		}
	}
	return true
}

// crash ends the process, and half of the time cuts the power.
func (s *session) crash() {
	s.disk.restart()
	if s.dice.IntN(2) == 0 {
		s.disk.PowerCut()
	}
}

// recover opens the store after a crash and goes on with it. What it has shown must
// survive another crash, and what it has done.
func (s *session) recover(when string) {
	s.t.Helper()
	s.open()
	s.check(true)
	s.crash()
	s.open()
	s.check(false)
	for range 3 {
		if err := s.step(); err != nil {
			s.t.Fatalf("%s: a step on a sound disk: %v", when, err)
		}
	}
	s.crash()
	s.open()
	s.check(false)
	if s.t.Failed() {
		s.t.Fatal(when)
	}
}

func mustHaveSeen(t *testing.T, seen map[string]int, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		if seen[kind] == 0 {
			t.Errorf("got no operation %q, want one: nothing was shown about it", kind)
		}
	}
}

// TestFailureAtEveryOperation lets each operation fail in turn, alone and for a
// while. Nothing may change then; afterwards the store works, after a crash as well.
func TestFailureAtEveryOperation(t *testing.T) {
	seed := seedOf(t)
	for _, round := range rounds() {
		fault := faults[round%2]
		for failAt := 1; ; failAt++ {
			s := newSession(t, diceOf(seed, round))
			lasts := 1 + int(round/2)%4
			s.disk.fails = func(op int, _ string) error {
				if op >= failAt && op < failAt+lasts {
					return fault
				}
				return nil
			}
			for range 25 {
				if err := s.step(); err != nil && !errors.Is(err, fault) {
					t.Fatalf("got error %v, want %v", err, fault)
				}
				if s.disk.operations >= failAt { // what is before is the same with each
					s.check(false)
				}
			}
			if len(s.disk.Breaches()) > 0 {
				t.Fatalf("round %d, failing operation %d: got another sync of %v, whose sync had failed", round, failAt, s.disk.Breaches())
			}
			if s.disk.operations < failAt {
				break
			}
			s.crash()
			s.recover(fmt.Sprintf("round %d, failing operation %d with %v", round, failAt, fault))
		}
	}
}
