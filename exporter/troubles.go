package exporter

import (
	"fmt"
	"maps"
	"slices"
)

// Unbalanced lists the accounts that do not add up, in words: docket itself has lost
// lines or records.
func (l Ledger) Unbalanced() (accounts []string) {
	decided := l.Stored + l.Duplicate
	for _, n := range l.Refused {
		decided += n
	}
	if l.Received != decided {
		accounts = append(accounts, fmt.Sprintf("%d lines were received, and %d are stored, refused or duplicate", l.Received, decided))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Sinks)) {
		s := l.Sinks[name]
		if sum := s.Delivered + s.Filtered + s.DeadLettered + s.Dropped + s.Corrupt + s.Pending; sum != l.Stored {
			accounts = append(accounts, fmt.Sprintf("sink %s accounts for %d of %d stored records", name, sum, l.Stored))
		}
	}
	return accounts
}

// Troubles lists what an operator must act on, in words: everything in state Error, and
// books that do not balance. It leaves out what recovers by itself.
func (s *Status) Troubles() (list []string) {
	add := func(what string, state State, reason string) {
		if state == Error {
			list = append(list, what+": "+reason)
		}
	}
	add("queue", s.Queue.State, s.Queue.Reason)
	for _, source := range s.Sources {
		add("source "+source.Name, source.State, source.Reason)
	}
	for _, sink := range s.Sinks {
		add("sink "+sink.Name, sink.State, sink.Reason+": "+sink.LastError)
	}
	add("configuration", s.Config.State, s.Config.LastError)
	if s.Metrics != nil {
		add("metrics", s.Metrics.State, s.Metrics.Reason)
	}
	for _, account := range s.Ledger.Unbalanced() {
		list = append(list, "the books do not balance: "+account)
	}
	return list
}
