package main

import (
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

const (
	// tapRate is how many reviews a second come at a steady rate.
	tapRate = 500
	// tapTurns is how often the ways to the engine take turns in one measurement.
	tapTurns = 5
	// tapClients ask at a time as fast as they are answered.
	tapClients = 16
	// largeClients ask at a time where the reviews are large.
	largeClients = 64
	// warmReviews are enough for every client to have a connection.
	warmReviews = 20 * tapClients
	// turnShare is how many records stand for one review, which takes longer.
	turnShare = 10
	// deniedOneIn: most of what is asked is allowed, and leaves no record by default.
	deniedOneIn = 10
)

// protocols are those of the API server: HTTP/1.1 to a Service, and HTTP/2 to a webhook on
// its own host. The keys of the values over HTTP/2 end in 2.
var protocols = []struct {
	suffix string
	http2  bool
}{{"", false}, {"2", true}}

// admission is an engine, and a docket for the taps before it.
type admission struct {
	*lab
	certs   string // directory of the certificate that all share
	engine  *webhook
	sidecar *sidecar
	denied  int // reviews that docket has to have a record of
}

func (l *lab) startAdmission() *admission {
	dir := l.scratch()
	address := process.FreeAddress()
	writePair(dir)
	a := &admission{
		lab: l, certs: dir, engine: &webhook{process.Start(l.T, nil, l.Self, engineCommand, address, dir), address, false, dir},
		sidecar: l.start(dir, fileEntry(fileSink, filepath.Join(dir, "export"))),
	}
	newCaller(l.T, dir, address, false).await(l.T) // or a tap would record that it is away
	return a
}

// webhook is what is asked: the engine, or a docket tap before it.
type webhook struct {
	*process.Process
	address string
	logs    bool   // it has the reviews that are denied recorded
	certs   string // directory of its certificate
}

func (a *admission) startTap(logs bool) *webhook {
	docket, address := "", process.FreeAddress()
	if logs {
		docket = "unix://" + a.sidecar.socket
	}
	return &webhook{process.Start(a.T, nil, a.docket, "tap", "--listen", address, "--tls-dir", a.certs, "--upstream", "https://"+a.engine.address,
		"--upstream-ca", filepath.Join(a.certs, "tls.crt"), "--docket", docket), address, logs, a.certs}
}

// way is where reviews go, and which.
type way struct {
	key     string // of what is measured
	to      *webhook
	reviews mix
	loose   bool // as in caller
	caller  *caller
}

// open connects the caller of each way, and has some reviews go it.
func (a *admission) open(ways []*way, http2 bool) {
	for _, w := range ways {
		w.caller = newCaller(a.T, w.to.certs, w.to.address, http2)
		w.caller.loose = w.loose
		w.caller.await(a.T)
		a.turn(w, warmReviews, atOnce(tapClients))
	}
}

// turn has n reviews go the way, and returns what they cost who is asked, and how long each
// took.
func (a *admission) turn(w *way, n int, p pace) (s stint, waits []time.Duration) {
	if w.to.logs {
		a.denied += w.reviews.denials(n)
	}
	began := time.Now()
	s.CPU = w.to.CPUOf(func() {
		waits = trial.Must(p(n, func(i int) error { return w.caller.ask(a.Context(), w.reviews.at(i)) }))
	})
	s.Records, s.Took = n, time.Since(began)
	return s, waits
}

// compare has n reviews go each way in turn, and again, and returns the sums by key.
func (a *admission) compare(ways []*way, n int, p pace) (stints, map[string][]time.Duration) {
	sums, waits := stints{}, map[string][]time.Duration{}
	for range tapTurns {
		for _, w := range ways {
			s, took := a.turn(w, n, p)
			sums.add(w.key, s)
			waits[w.key] = append(waits[w.key], took...)
		}
	}
	return sums, waits
}

// waitRecorded returns when docket has a record of each review that was denied: logging that
// loses some costs less.
func (a *admission) waitRecorded() { a.sidecar.waitStored(a.denied) }

// tapPace measures how long reviews take at a steady rate.
func (l *lab) tapPace() values {
	a, v := l.startAdmission(), values{}
	some := newMix(reviewBytes, deniedOneIn)
	ways := []*way{{key: "direct", to: a.engine, reviews: some}, {key: "plain", to: a.startTap(false), reviews: some}, {key: "logged", to: a.startTap(true), reviews: some}}
	for _, p := range protocols {
		a.open(ways, p.http2)
		sums, waits := a.compare(ways, max(1, l.records/tapRate), steadily(tapRate))
		for _, w := range ways {
			v[w.key+p.suffix], v[w.key+"99"+p.suffix] = quantiles(waits[w.key])
			v[w.key+"CPU"+p.suffix] = sums[w.key].cpuOfMillion()
		}
		for _, which := range []string{"", "99"} {
			v["added"+which+p.suffix] = v["logged"+which+p.suffix] - v["direct"+which+p.suffix]
		}
	}
	a.waitRecorded()
	return v
}

// tapLoad measures reviews as fast as they are answered.
func (l *lab) tapLoad() values {
	a, v := l.startAdmission(), values{}
	some, all := newMix(reviewBytes, deniedOneIn), newMix(reviewBytes, 1)
	plain, logged := a.startTap(false), a.startTap(true)
	ways := []*way{
		{key: "direct", to: a.engine, reviews: some}, {key: "plain", to: plain, reviews: some}, {key: "logged", to: logged, reviews: some},
		{key: "plainAll", to: plain, reviews: all}, {key: "loggedAll", to: logged, reviews: all},
	}
	for _, p := range protocols {
		a.open(ways, p.http2)
		sums, _ := a.compare(ways, l.records/tapTurns/turnShare, atOnce(tapClients))
		for _, w := range ways {
			v[w.key+p.suffix], v[w.key+"CPU"+p.suffix] = sums[w.key].rate(), sums[w.key].cpuOfMillion()
		}
	}
	a.waitRecorded()
	return v
}

// tapMemory measures what large reviews take that are under way at a time.
func (l *lab) tapMemory() values {
	a, v := l.startAdmission(), values{}
	for _, p := range protocols {
		tap := a.startTap(true)
		large := &way{to: tap, reviews: newMix(largeReviewBytes, deniedOneIn)}
		a.open([]*way{large}, p.http2)
		a.Sleep(restWait)
		v["rest"+p.suffix] = tap.Memory("RssAnon")
		a.turn(large, max(largeClients, l.records/tapRate), atOnce(largeClients))
		v["memory"+p.suffix] = tap.Memory("VmHWM") - tap.Memory("RssFile")
		a.waitRecorded() // the last records are with the tap for some milliseconds
		tap.Kill()
	}
	return v
}
