package main

import (
	"slices"
	"time"
)

// stint is what a program has come to, in one lap or in several.
type stint struct {
	Records int
	Parts   float64 // commits or requests that the records came in
	Took    time.Duration
	CPU     time.Duration // processor time of the program
}

func (s *stint) add(lap stint) {
	s.Records += lap.Records
	s.Parts += lap.Parts
	s.Took += lap.Took
	s.CPU += lap.CPU
}

func (s stint) rate() float64         { return float64(s.Records) / s.Took.Seconds() }
func (s stint) perPart() float64      { return float64(s.Records) / s.Parts }
func (s stint) cpuOfMillion() float64 { return s.CPU.Seconds() / float64(s.Records) * 1e6 }

// stints are sums by key.
type stints map[string]stint

func (all stints) add(key string, lap stint) {
	sum := all[key]
	sum.add(lap)
	all[key] = sum
}

// quantiles returns the median and the 99th percentile in microseconds.
func quantiles(waits []time.Duration) (p50, p99 float64) {
	slices.Sort(waits)
	at := func(q float64) float64 {
		return float64(waits[int(q*float64(len(waits)-1))].Nanoseconds()) / 1000
	}
	return at(0.50), at(0.99)
}

// medians are those of each key, in milliseconds.
func medians(took map[string][]time.Duration) values {
	v := values{}
	for key, all := range took {
		p50, _ := quantiles(all)
		v[key] = p50 / 1000
	}
	return v
}
