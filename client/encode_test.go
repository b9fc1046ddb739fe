package client

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/docket-export/docket/decision"
)

// What TryLog was given is the caller's again on return, while the text is made
// elsewhere.
func TestTryLogLeavesTheRecordToItsCaller(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	const records = 2000
	dryRun := false
	r := &decision.Record{
		Details:           []byte(`{"n":0}`),
		RequestUserGroups: []string{"", "all"},
		ResourceLabels:    map[string]string{},
		DryRun:            &dryRun,
	}
	for n := range records {
		r.Sequence = uint64(n + 1)
		r.Details[5] = byte('0' + n%10)
		r.RequestUserGroups[0] = fmt.Sprint("group", n)
		r.ResourceLabels["label"] = fmt.Sprint(n)
		dryRun = n%2 == 1
		if err := c.TryLog(r); err != nil {
			t.Fatal(err)
		}
	}
	r.Details, r.ResourceLabels = nil, nil
	closeClient(t, c)
	lines := e.Lines()
	checkCount(t, lines, records)
	for n, l := range lines {
		want := fmt.Sprintf(`{"details":{"n":%d},"resourceLabels":{"label":"%d"},"requestUserGroups":["group%d","all"],"dryRun":%t,"schemaVersion":1,"sequence":%d}`,
			n%10, n, n, n%2 == 1, n+1)
		if l.Text != want {
			t.Fatalf("line %d: got %s, want %s", n, l.Text, want)
		}
	}
}

// Records go out in the order in which they were logged, in whatever way.
func TestWaysToLogKeepTheOrder(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	const records = 6000
	for n := 1; n <= records; n++ {
		var err error
		switch {
		case n%1000 == 0:
			err = c.Log(within(t), &decision.Record{Decision: decision.Deny, Sequence: uint64(n)})
		case n%7 == 0:
			err = c.TryLogLine(fmt.Appendf(nil, `{"decision":"deny","sequence":%d}`, n), decision.Allow)
		default:
			err = c.TryLog(&decision.Record{Decision: decision.Deny, Sequence: uint64(n)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	closeClient(t, c)
	got, _ := sequences(t, e.Lines())
	if len(got[decision.Deny]) != records {
		t.Fatalf("got %d records, want %d", len(got[decision.Deny]), records)
	}
	for i, n := range got[decision.Deny] {
		if n != i+1 {
			t.Fatalf("record %d of the stream: got %d", i+1, n)
		}
	}
}

// A record that has no room does not keep those before it from being sent.
func TestLogWaitsForRoomBehindRawLines(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{MaxBufferedBytes: MinBufferedBytes})
	r := &decision.Record{Decision: decision.Deny, Details: []byte(`"` + strings.Repeat("d", 40<<10) + `"`)}
	const rounds = 200
	for n := range rounds {
		if err := c.TryLog(r); err != nil {
			t.Fatalf("round %d: TryLog: %v", n, err)
		}
		if err := c.Log(within(t), r); err != nil {
			t.Fatalf("round %d: Log: %v", n, err)
		}
	}
	closeClient(t, c)
	checkCount(t, e.Lines(), 2*rounds)
}

// While the encoder works and room is short, each record arrives once and in its
// order, or is counted as lost.
func TestTryLogWithoutRoom(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{MaxBufferedBytes: MinBufferedBytes})
	const records, logEach = 3000, 30
	text := strings.Repeat("m", 8<<10)
	var logging sync.WaitGroup
	for _, d := range defaultKeep {
		logging.Go(func() {
			for n := 1; n <= records; n++ {
				r := &decision.Record{Decision: d, Sequence: uint64(n), Message: text[:rand.IntN(1<<rand.IntN(13))]}
				if n%logEach == 0 {
					if err := c.Log(within(t), r); err != nil {
						t.Errorf("%s %d: Log: %v", d, n, err)
					}
				} else if err := c.TryLog(r); err != nil && !errors.Is(err, ErrFull) {
					t.Errorf("%s %d: TryLog: %v", d, n, err)
				}
			}
		})
	}
	logging.Wait()
	closeClient(t, c)
	got, told := sequences(t, e.Lines())
	lost := c.Stats().Lost
	for _, d := range defaultKeep {
		last, logged := 0, 0
		for _, n := range got[d] {
			if n <= last {
				t.Fatalf("%s: got record %d behind %d", d, n, last)
			}
			if last = n; n%logEach == 0 {
				logged++
			}
		}
		if len(got[d])+int(lost[d]) != records || logged != records/logEach || told[d] != int(lost[d]) {
			t.Errorf("%s: got %d records, %d of them by Log, %d lost and %d of those told, want %d in all, %d by Log, and all told",
				d, len(got[d]), logged, lost[d], told[d], records, records/logEach)
		}
	}
}

// The encoder ends with an empty intake, and what was taken last comes last: a word
// about losses.
func TestEncoderEndsWithAnEmptyIntake(t *testing.T) {
	const records = 3 * encodeLines
	for range 20 {
		config := (&Config{}).withDefaults()
		k := newLink(linkConfig{producer: "ends"}, newOutbox(8<<20, 0, len(config.Keep)))
		c := &Client{config: config, link: k}
		for n := range records {
			if err := c.TryLog(&decision.Record{Sequence: uint64(n + 1)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.TryLog(&decision.Record{Process: "none"}); err == nil {
			t.Fatal("TryLog of a record that is not valid: got no error")
		}
		k.stop()
		k.startEncoder()() // told to begin and to end at once
		k.box.numberAll()
		if got := k.box.flight.len(); got != records+1 {
			t.Fatalf("got %d lines, want %d", got, records+1)
		}
		for n := range records {
			if got, want := string(k.box.flight.at(n).text), fmt.Sprintf(`{"schemaVersion":1,"sequence":%d}`+"\n", n+1); got != want {
				t.Fatalf("line %d: got %q, want %q", n+1, got, want)
			}
		}
		if last := k.box.flight.at(records); last.report == nil {
			t.Fatalf("got %s at the end, want what was lost", last.text)
		}
	}
}

// Whatever is raw and whenever texts are made, no line is lost that would have its
// place if all had their texts, memory is counted right and kept below the limit,
// lines keep their order, and nobody waits who has something to do.
func TestIntakeModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	config := (&Config{}).withDefaults()
	for _, limit := range []int{30_000, 60_000, 1 << 20} {
		c := &Client{config: config, ranks: ranksOf(config.Keep)}
		k := newLink(linkConfig{producer: "model"}, newOutbox(limit, 0, len(kinds)))
		c.link = k
		var e encoder
		lost, mostRaw, behind := uint64(0), 0, 0
		for step := range 5000 {
			switch roll := dice.IntN(100); {
			case roll < 55:
				n := dice.IntN(200)
				r := &decision.Record{
					ID: fmt.Sprint(step), Decision: kinds[dice.IntN(len(kinds)-1)], Message: strings.Repeat("\x00", n/20) + strings.Repeat("m", 10*n),
				}
				if err := c.TryLog(r); err != nil && !errors.Is(err, ErrFull) {
					t.Fatalf("step %d: TryLog: %v", step, err)
				}
			case roll < 65 && len(e.jobs) == 0:
				k.nextRaws(&e)
				select {
				case <-k.rawTaken: // as the encoder that waited would
				default:
				}
			case roll < 70:
				e.encode()
				k.encoded(&e)
			case roll < 78:
				l := newTextLine(fmt.Appendf(nil, `{"id":"%d","message":"%0*d"}`, step, dice.IntN(10_000), 0))
				l.keep, l.rank = true, dice.IntN(4)
				if !k.takeLocked(l) { // the one who logs would wait
					l.recycle()
				}
			case roll < 90:
				select {
				case <-k.wake: // as the writer that waited would
				default:
				}
				for range 1 + dice.IntN(20) {
					l := k.box.number()
					if k.idle = l == nil; k.idle {
						break
					}
					if !bytes.HasSuffix(l.text, []byte("\n")) {
						t.Fatalf("step %d: numbered a line with the text %q", step, l.text)
					}
				}
			default:
				for range min(dice.IntN(30), k.box.flight.len()) {
					k.finish(k.box.release(), nil)
				}
			}
			raws, lines := inIntake(k)
			now := k.lostRecords()
			if now > lost && raws > 0 {
				t.Fatalf("step %d: lost a record while %d lines were raw", step, raws)
			}
			lost, mostRaw, behind = now, max(mostRaw, raws), max(behind, lines)
			checkMemory(t, step, k)
			if k.encoderIdle && raws+lines > 0 {
				t.Fatalf("step %d: the encoder waits, and %d lines are in the intake", step, raws+lines)
			}
			if k.idle && k.box.number() != nil {
				t.Fatalf("step %d: the writer waits, and there is a line to write", step)
			}
		}
		if mostRaw < 3 || behind == 0 || lost == 0 && limit < 1<<20 {
			t.Errorf("limit %d: got at most %d raws and %d lines behind them, %d lost: the test tests nothing", limit, mostRaw, behind, lost)
		}
		k.encodeFor(&line{text: make([]byte, limit)}) // all: it has no room
		k.box.numberAll()
		last := -1
		for i := range k.box.flight.len() {
			var id int
			if _, err := fmt.Sscanf(string(k.box.flight.at(i).text), `{"id":"%d"`, &id); err != nil || id <= last {
				t.Fatalf("limit %d: got line %s after that of step %d, %v", limit, k.box.flight.at(i).text, last, err)
			}
			last = id
		}
	}
}

// inIntake counts the raws in the intake, and the lines that wait behind them.
func inIntake(k *link) (raws, lines int) {
	for i := range k.intake.len() {
		if k.intake.at(i).raw != nil {
			raws++
		} else {
			lines++
		}
	}
	return raws, lines
}

// checkMemory compares what the outbox counts with what it has, and what is in the
// intake.
func checkMemory(t *testing.T, step int, k *link) {
	t.Helper()
	o := &k.box
	used, count := 0, k.intake.len()+o.flight.len()
	for i := range k.intake.len() {
		in := k.intake.at(i)
		if in.raw == nil {
			used += in.line.size()
			continue
		}
		used += in.raw.size()
		l := in.raw.encode()
		if l.size() > in.raw.size() {
			t.Fatalf("step %d: a line of %d bytes, more than the %d that were held for it", step, l.size(), in.raw.size())
		}
		l.recycle()
	}
	for r := range o.lanes {
		bytes := 0
		for i := range o.lanes[r].len() {
			bytes += o.lanes[r].at(i).size()
		}
		if o.lanes[r].bytes != bytes {
			t.Fatalf("step %d: lane %d: got %d bytes counted, want %d", step, r, o.lanes[r].bytes, bytes)
		}
		used += bytes
		count += o.lanes[r].len()
	}
	for i := range o.flight.len() {
		used += o.flight.at(i).size()
	}
	if o.used != used || used > o.limit || o.count != count {
		t.Fatalf("step %d: got %d bytes in %d lines counted, want %d in %d, and at most %d", step, o.used, o.count, used, count, o.limit)
	}
}
