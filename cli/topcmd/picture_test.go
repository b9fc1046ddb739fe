package topcmd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sources"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) *time.Time {
	at := start.Add(-d)
	return &at
}

// inTrouble is a docket of which nearly everything needs somebody.
func inTrouble() exporter.Status {
	full := 3.0*3600 + 240
	return exporter.Status{
		Time:  start,
		Queue: exporter.QueueStatus{FirstSeq: 11, LastSeq: 1000, Bytes: 1850 << 20, MaxBytes: 2 << 30, State: exporter.Active, RecordsPerSecond: 1242.4, FullInSeconds: &full},
		Ledger: exporter.Ledger{
			Received: 1004, Stored: 1000, Duplicate: 1, Refused: map[string]uint64{"TooLarge": 1, "InvalidJSON": 2}, Lost: map[string]uint64{"deny": 3},
			Sinks: map[string]exporter.SinkLedger{"bus": {Delivered: 880, DeadLettered: 1, Dropped: 20, Pending: 99}, "copy": {Delivered: 1000}},
		},
		Sources: []exporter.SourceStatus{
			{Name: "webhook", State: exporter.Active, Connections: 2, Records: 8_399_007, RecordsPerSecond: 1242.4, LastRecord: ago(300 * time.Millisecond)},
			{Name: "gatekeeper", State: exporter.Degraded, Reason: "/tmp/違反/topics: permission denied\x1b[2J", Records: 12_366, RecordsPerSecond: 0.04, LastRecord: ago(260 * time.Second)},
			{Name: "opa", State: exporter.Active, LastRun: &sources.AuditRun{Reason: "NoRecords"}},
		},
		Sinks: []exporter.SinkStatus{
			{Name: "bus", State: exporter.Error, Reason: "Misconfigured", LastError: "post https://siem.example.com/ingest: 401 Unauthorized: the token of bearerTokenFile is not taken", Since: ago(1610 * time.Second),
				LagSeconds: 1612, Attempts: 41, NextAttempt: ago(-38 * time.Second), Pending: 1_184_000, DeadLetters: 3},
			{Name: "old", State: exporter.Degraded, Reason: "Retired"},
			{Name: "copy", State: exporter.Active, RecordsPerSecond: 9.96, LagSeconds: 0.21, Pending: 12, LastError: "of yesterday"},
		},
		Config: exporter.ConfigStatus{State: exporter.Error, File: "/etc/docket/docket.yaml", LastError: "docket.yaml:14: sinks[1].http.url: must be absolute"},
	}
}

func pictureOf(s exporter.Status) *picture {
	p := &picture{where: "127.0.0.1:9464", live: true}
	p.take(answer{status: s}, start)
	return p
}

func TestPicture(t *testing.T) {
	clock := start.Local().Format(time.TimeOnly)
	quiet := exporter.Status{Time: start, Queue: exporter.QueueStatus{State: exporter.Active, MaxBytes: 1 << 30}, Config: exporter.ConfigStatus{State: exporter.Active},
		Sources: []exporter.SourceStatus{{Name: "webhook", State: exporter.Active}}, Sinks: []exporter.SinkStatus{{Name: "copy", State: exporter.Active}}}
	for name, test := range map[string]struct {
		picture       *picture
		width, height int
		want          string
	}{
		"in trouble": {pictureOf(inTrouble()), 80, 30, `
docket  127.0.0.1:9464  ` + clock + `
Needs an operator: sink bus, configuration  Look at: queue, source gatekeeper, …

SOURCE        STATE     RECORDS/S  RECEIVED   LAST  CONN
webhook       Active         1242      8.4M     0s     2
gatekeeper    Degraded        0.1     12366  4m20s     0
  /tmp/違反/topics: permission denied\u001b[2J
opa           Active            0         0      -     0
  the last audit run is not complete: NoRecords

QUEUE  Active  90%, full in 3h4m at this rate, 1.8 GiB of 2 GiB, 1242/s

SINK        STATE     RECORDS/S  WAITING     LAG  DEAD  NEXT TRY
bus         Error             0     1.2M  26m52s     3       38s
  Misconfigured for 26m50s, 41 attempts: post https://siem.example.com/ingest:
  401 Unauthorized: the token of bearerTokenFile is not taken
old         Degraded          0        0       -     0         -
  Retired
copy        Active         10.0       12   200ms     0         -

LEDGER received 1004 = stored 1000 + refused 3 + duplicate 1
       refused: InvalidJSON 2, TooLarge 1; lost by producers: deny 3; bus dead-…
CONFIG Error  /etc/docket/docket.yaml
  docket.yaml:14: sinks[1].http.url: must be absolute
q quits
`},
		"wide": {pictureOf(inTrouble()), 100, 12, `
docket  127.0.0.1:9464  ` + clock + `
Needs an operator: sink bus, configuration  Look at: queue, source gatekeeper, audit of opa, sink o…
SOURCE 1/3    STATE     RECORDS/S  RECEIVED   LAST  CONN
gatekeeper    Degraded        0.1     12366  4m20s     0
  /tmp/違反/topics: permission denied\u001b[2J
QUEUE  Active  [==================  ] 90%, full in 3h4m at this rate, 1.8 GiB of 2 GiB, 1242/s
SINK 2/3    STATE     RECORDS/S  WAITING     LAG  DEAD  NEXT TRY
bus         Error             0     1.2M  26m52s     3       38s
  Misconfigured for 26m50s, 41 attempts: post https://siem.example.com/ingest: 401 Unauthorized:
old         Degraded          0        0       -     0         -
CONFIG Error  /etc/docket/docket.yaml
  docket.yaml:14: sinks[1].http.url: must be absolute
`},
		"small": {pictureOf(inTrouble()), 34, 8, `
docket  127.0.0.1:9464  ` + clock + `
Needs an operator: sink bus, conf…
SOURCE 1/3    STATE     RECORDS/S
gatekeeper    Degraded        0.1
QUEUE  Active  90%, full in 3h4m …
SINK 1/3    STATE     RECORDS/S
bus         Error             0
CONFIG Error  /etc/docket/docket.…
`},
		"smaller": {pictureOf(inTrouble()), 34, 7, `
docket  127.0.0.1:9464  ` + clock + `
Needs an operator: sink bus, conf…
SOURCE 0/3    STATE     RECORDS/S
QUEUE  Active  90%, full in 3h4m …
SINK 1/3    STATE     RECORDS/S
bus         Error             0
CONFIG Error  /etc/docket/docket.…
`},
		"all well": {pictureOf(quiet), 80, 24, `
docket  127.0.0.1:9464  ` + clock + `
All well

SOURCE        STATE   RECORDS/S  RECEIVED  LAST  CONN
webhook       Active          0         0     -     0

QUEUE  Active  [                    ] 0%, 0 B of 1 GiB, 0/s

SINK        STATE   RECORDS/S  WAITING  LAG  DEAD  NEXT TRY
copy        Active          0        0    -     0         -

LEDGER received 0 = stored 0 + refused 0 + duplicate 0
q quits
`},
		"nothing yet": {&picture{where: "127.0.0.1:9464"}, 80, 24, "\ndocket  127.0.0.1:9464\nasking\n"},
		"nobody":      {&picture{where: "127.0.0.1:9464", lost: errors.New("nothing listens"), now: start}, 80, 24, "\ndocket  127.0.0.1:9464\nnothing listens\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := "\n" + strings.Join(test.picture.paint(test.width, test.height, false), "\n") + "\n"; got != test.want {
				t.Errorf("got%s\nwant%s", got, test.want)
			}
		})
	}
}

// What is known stays when docket is gone, under the reason and the time.
func TestLostConnection(t *testing.T) {
	p := pictureOf(inTrouble())
	p.take(answer{err: errors.New("nothing listens\x1b[2J")}, start.Add(12*time.Second))
	got := p.paint(80, 30, false)
	if want := `Connection lost 12s ago: nothing listens\u001b[2J`; got[1] != want {
		t.Errorf("got %q, want %q", got[1], want)
	}
	if !strings.Contains(strings.Join(got, "\n"), "gatekeeper") {
		t.Errorf("got %q, want what was known", got)
	}
	p.take(answer{status: inTrouble()}, start.Add(13*time.Second))
	if got := p.paint(80, 30, false)[1]; !strings.HasPrefix(got, "Needs an operator") {
		t.Errorf("got %q, want the state again", got)
	}
}

// Without a terminal nothing is cut, and nothing coloured.
func TestPlainText(t *testing.T) {
	got := strings.Join(pictureOf(inTrouble()).paint(0, 0, false), "\n")
	for _, want := range []string{"401 Unauthorized: the token of bearerTokenFile is not taken", "Look at: queue, source gatekeeper, audit of opa, sink old\n", "bus dead-lettered 1, bus dropped 20"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
	if strings.ContainsRune(got, '\x1b') {
		t.Errorf("got a control character in %q", got)
	}
}

func TestBooksThatDoNotBalance(t *testing.T) {
	for name, spoil := range map[string]func(*exporter.Ledger){
		"lines":   func(l *exporter.Ledger) { l.Received++ },
		"records": func(l *exporter.Ledger) { l.Sinks["copy"] = exporter.SinkLedger{Delivered: 999} },
	} {
		s := inTrouble()
		spoil(&s.Ledger)
		got := strings.Join(pictureOf(s).paint(200, 50, false), "\n")
		if !strings.Contains(got, "Needs an operator: ledger") || !strings.Contains(got, "the books do not balance") {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Whatever a status says, the picture fits the screen, and has no control characters but
// its colours.
func TestPictureFits(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	texts := []string{"", "a", "webhook", "決定決定決定", "e\u0301\u0301e", "👍👩‍👩‍👧", "\x1b[31m\u202e\u200b", "two words", strings.Repeat("long", 40), "a \n\n b\t" + strings.Repeat("字", 90), "\xff\xfe"}
	text := func() string { return texts[random.IntN(len(texts))] }
	states := []exporter.State{exporter.Active, exporter.Degraded, exporter.Error, "Other"}
	state := func() exporter.State { return states[random.IntN(len(states))] }
	number := func() uint64 { return random.Uint64() >> random.IntN(64) }
	for round := range 1000 {
		full := random.Float64() * 1e12
		s := exporter.Status{
			Time:   start,
			Queue:  exporter.QueueStatus{State: state(), Reason: text(), Bytes: int64(number() >> 1), MaxBytes: int64(number() >> 1), RecordsPerSecond: random.Float64() * 1e7, FullInSeconds: &full},
			Ledger: exporter.Ledger{Received: number(), Refused: map[string]uint64{terminal.Visible(text()): number()}, Lost: map[string]uint64{"deny": number()}},
			Config: exporter.ConfigStatus{State: state(), LastError: text(), File: text()},
		}
		for i := range random.IntN(12) {
			s.Sources = append(s.Sources, exporter.SourceStatus{Name: fmt.Sprint("s", i, strings.Repeat("x", random.IntN(60))), State: state(), Reason: text(), Records: number(), RecordsPerSecond: random.Float64() * 100, LastRecord: &start})
			s.Sinks = append(s.Sinks, exporter.SinkStatus{Name: fmt.Sprint("s", i), State: state(), Reason: text(), LastError: text(), Pending: number(), LagSeconds: random.Float64() * 1e6, Attempts: i, NextAttempt: &start})
		}
		width, height := 1+random.IntN(140), 1+random.IntN(50)
		p := pictureOf(s)
		if random.IntN(4) == 0 {
			p.take(answer{err: errors.New(text())}, start)
		}
		lines := p.paint(width, height, true)
		if len(lines) > height {
			t.Fatalf("seed %d, round %d: got %d lines, want at most %d", seed, round, len(lines), height)
		}
		for _, l := range lines {
			shown := colours.ReplaceAllString(l, "")
			if got := terminal.Cells(shown); got > width {
				t.Fatalf("seed %d, round %d: got %d columns of %d: %q", seed, round, got, width, shown)
			}
			if shown != terminal.Visible(shown) && strings.TrimLeft(shown, " ") != terminal.Visible(shown) && strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' }) {
				t.Fatalf("seed %d, round %d: got %q, want every control escaped", seed, round, shown)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 99999: "99999", 100000: "100k", 1_234_567: "1.2M", 123_456_789: "123M", 1 << 63: "9.2E"} {
		if got := short(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 0.01: "0.1", 0.44: "0.4", 9.96: "10.0", 12.4: "12", 1242.6: "1243"} {
		if got := rate(n); got != want {
			t.Errorf("%v: got %s, want %s", n, got, want)
		}
	}
}
