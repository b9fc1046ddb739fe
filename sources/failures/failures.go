// Package failures holds the problems of a running source, for its status and its log.
package failures

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

// List holds the present failures, each with its subject. Each failure is logged when
// it begins or changes, and when it has ended. Safe for concurrent use.
type List struct {
	log    *slog.Logger
	prefix string // of what is logged

	mu    sync.Mutex
	texts map[string]string // guarded by mu
}

// New returns an empty List. It logs each failure that begins with the prefix before
// it.
func New(log *slog.Logger, prefix string) *List {
	return &List{log: log, prefix: prefix, texts: make(map[string]string)}
}

// Set says what is wrong with the subject about. An empty text ends the failure.
func (s *List) Set(about, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.texts[about]
	switch text {
	case before:
	case "":
		delete(s.texts, about)
		s.log.Info("the problem has ended", "was", before)
	default:
		s.texts[about] = text
		s.log.Warn(s.prefix + text)
	}
}

// SetAll is Set for all subjects whose names begin with prefix. texts has the failures
// by the rest of the name. The failure of a subject that is not in texts ends.
func (s *List) SetAll(prefix string, texts map[string]string) {
	s.mu.Lock()
	old := slices.Collect(maps.Keys(s.texts))
	s.mu.Unlock()
	for _, about := range old {
		if name, ok := strings.CutPrefix(about, prefix); ok {
			s.Set(about, texts[name])
		}
	}
	for about, text := range texts {
		s.Set(prefix+about, text)
	}
}

// All returns every failure, in the order of the subjects.
func (s *List) All() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, about := range slices.Sorted(maps.Keys(s.texts)) {
		all = append(all, s.texts[about])
	}
	return all
}

// Text sums up the failures in one line of a status.
func (s *List) Text() string {
	all := s.All()
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0]
	}
	return fmt.Sprintf("%s (and %d more, see the log)", all[0], len(all)-1)
}
