package main

import (
	"flag"
	"fmt"
	"regexp"
	"time"
)

// selection says which mutants of a table are tried.
type selection struct {
	pattern string
	shard   string // "2/5": the second fifth; empty is all
	rotate  int    // so many, others every day; 0 is all
	date    string // the day of the rotation
}

func (s *selection) flags(f *flag.FlagSet) {
	f.StringVar(&s.pattern, "run", "", "only the defects whose description matches this regular expression")
	f.StringVar(&s.shard, "shard", "", "only one part of several, such as 2/5")
	f.IntVar(&s.rotate, "rotate", 0, "only so many defects, the next ones every day; 0 is all")
	f.StringVar(&s.date, "date", time.Now().UTC().Format(time.DateOnly), "the day for -rotate")
}

// of returns the mutants of all that are selected, at least one.
func (s selection) of(all []mutant) (chosen []mutant, err error) {
	wanted, err := regexp.Compile(s.pattern)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if wanted.MatchString(m.defect) {
			chosen = append(chosen, m)
		}
	}
	if chosen, err = s.inShard(chosen); err != nil {
		return nil, err
	}
	if chosen, err = s.ofTheDay(chosen); err != nil {
		return nil, err
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no defect matches -run %q -shard %q", s.pattern, s.shard)
	}
	return chosen, nil
}

func (s selection) inShard(all []mutant) (part []mutant, err error) {
	if s.shard == "" {
		return all, nil
	}
	var n, of int
	if _, err := fmt.Sscanf(s.shard, "%d/%d", &n, &of); err != nil || n < 1 || n > of {
		return nil, fmt.Errorf("-shard %s: want one part of several, such as 2/5", s.shard)
	}
	for i, m := range all {
		if i%of == n-1 {
			part = append(part, m)
		}
	}
	return part, nil
}

// ofTheDay goes around the table: every mutant has its turn before the first has another.
func (s selection) ofTheDay(all []mutant) (part []mutant, err error) {
	if s.rotate <= 0 || s.rotate >= len(all) {
		return all, nil
	}
	day, err := time.Parse(time.DateOnly, s.date)
	if err != nil {
		return nil, fmt.Errorf("-date: %w", err)
	}
	first := int(day.Unix()/(24*60*60)) * s.rotate
	for i := range s.rotate {
		part = append(part, all[(first+i)%len(all)])
	}
	return part, nil
}
