package main

import (
	"fmt"
	"slices"

	"github.com/docket-export/docket/bench/report"
)

// claim is what docket has to reach beside the others: a quotient, taken within each
// round, or a number.
type claim struct {
	what   string
	values []float64
	target report.Target
}

// The contenders that claims are about.
const (
	own         = "docket/default"
	unsynced    = "syslog-ng/reliable"
	syncsEach   = "rsyslog/strict"
	fastestSafe = "the fastest of them that loses nothing"
)

// claims are those for which everything was measured.
func (r *outcome) claims() []claim {
	var all []claim
	add := func(what string, values []float64, target report.Target) {
		if len(values) > 0 {
			all = append(all, claim{what, values, target})
		}
	}
	intake := r.values("intake", own, "rate")
	add("intake: docket / "+unsynced, quotients(intake, r.values("intake", unsynced, "rate")), report.Target{AtLeast: 3})
	add("intake: docket / "+syncsEach, quotients(intake, r.values("intake", syncsEach, "rate")), report.Target{AtLeast: 100})
	for _, m := range []string{"http", "file"} {
		add(fmt.Sprintf("to %s: docket / %s", m, fastestSafe), quotients(r.values(m, own, "rate"), r.fastestSafe(m)), report.Target{AtLeast: 1})
	}
	for _, m := range []string{"intake", "http", "file"} {
		add(fmt.Sprintf("processor time, %s: docket / %s", m, unsynced),
			quotients(r.values(m, own, "cpu"), r.values(m, unsynced, "cpu")), report.Target{AtMost: 1})
	}
	add("lost by SIGKILL: docket", r.values("kill", own, "lost"), report.Target{Zero: true})
	return all
}

// fastestSafe returns the greatest rate of each round among the others that lose
// nothing: in no round, neither on the way of this measure nor by SIGKILL.
func (r *outcome) fastestSafe(measureName string) []float64 {
	var fastest []float64
	for _, e := range r.Contenders {
		rates := r.values(measureName, e.Key, "rate")
		if e.Peer == docket.name || rates == nil || !r.safe(measureName, e.Key) {
			continue
		}
		if fastest == nil {
			fastest = slices.Clone(rates)
		}
		for round, rate := range rates {
			fastest[round] = max(fastest[round], rate)
		}
	}
	return fastest
}

// safe says whether a contender has lost nothing.
func (r *outcome) safe(measureName, key string) bool {
	lost := slices.Concat(r.values(measureName, key, "lost"), r.values("kill", key, "lost"))
	return !slices.ContainsFunc(lost, func(v float64) bool { return v != 0 })
}

// quotients are those of a and b round by round; nil where one was not measured.
func quotients(a, b []float64) []float64 {
	if len(a) != len(b) {
		return nil
	}
	var q []float64
	for i := range a {
		q = append(q, a[i]/b[i])
	}
	return q
}
