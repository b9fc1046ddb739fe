package main

import (
	"fmt"
	"slices"
)

// claim is what docket has to reach beside the others: a quotient, taken within each
// round, or a number.
type claim struct {
	what   string
	values []float64
	least  float64 // the median must not be less; 0: there is no such bound
	most   float64 // without least, the median must not be more
}

func (c claim) target() string {
	switch {
	case c.least > 0:
		return ">= " + number(c.least)
	case c.most == 0:
		return "0"
	}
	return "<= " + number(c.most)
}

func (c claim) met() bool {
	median := summarize(c.values).median
	if c.least > 0 {
		return median >= c.least
	}
	return median <= c.most
}

func (c claim) verdict() string {
	if c.met() {
		return "met"
	}
	return "NOT met"
}

// The contenders that claims are about.
const (
	own         = "docket/default"
	unsynced    = "syslog-ng/reliable"
	syncsEach   = "rsyslog/strict"
	fastestSafe = "the fastest of them that loses nothing"
)

// claims are those for which everything was measured.
func (r *report) claims() []claim {
	var all []claim
	add := func(what string, values []float64, least, most float64) {
		if len(values) > 0 {
			all = append(all, claim{what, values, least, most})
		}
	}
	intake := r.values("intake", own, "rate")
	add("intake: docket / "+unsynced, quotients(intake, r.values("intake", unsynced, "rate")), 3, 0)
	add("intake: docket / "+syncsEach, quotients(intake, r.values("intake", syncsEach, "rate")), 100, 0)
	for _, m := range []string{"http", "file"} {
		add(fmt.Sprintf("to %s: docket / %s", m, fastestSafe), quotients(r.values(m, own, "rate"), r.fastestSafe(m)), 1, 0)
	}
	for _, m := range []string{"intake", "http", "file"} {
		add(fmt.Sprintf("processor time, %s: docket / %s", m, unsynced),
			quotients(r.values(m, own, "cpu"), r.values(m, unsynced, "cpu")), 0, 1)
	}
	add("lost by SIGKILL: docket", r.values("kill", own, "lost"), 0, 0)
	return all
}

// fastestSafe returns the greatest rate of each round among the others that lose
// nothing: in no round, neither on the way of this measure nor by SIGKILL.
func (r *report) fastestSafe(measureName string) []float64 {
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
func (r *report) safe(measureName, key string) bool {
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
