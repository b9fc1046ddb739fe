// Package failures holds what is wrong with a source that goes on, for its status and its log.
package failures

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
)

// Set is what is wrong at present, by what it is about. Each failure is logged when it
// begins or changes, and when it has ended. Safe for concurrent use.
type Set struct {
	log *slog.Logger

	mu    sync.Mutex
	texts map[string]string // guarded by mu
}

// New returns an empty Set that logs.
func New(log *slog.Logger) *Set {
	return &Set{log: log, texts: make(map[string]string)}
}

// Set says what is wrong with about; "": nothing is any more.
func (t *Set) Set(about, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.texts[about]
	switch text {
	case before:
	case "":
		delete(t.texts, about)
		t.log.Info("trouble is over", "was", before)
	default:
		t.texts[about] = text
		t.log.Warn(text)
	}
}

// SetAll is Set for everything that is about one of a kind of things, known by the
// beginning of their names: what texts does not have is over.
func (t *Set) SetAll(prefix string, texts map[string]string) {
	t.mu.Lock()
	old := slices.Collect(maps.Keys(t.texts))
	t.mu.Unlock()
	for _, about := range old {
		if len(about) >= len(prefix) && about[:len(prefix)] == prefix {
			t.Set(about, texts[about[len(prefix):]])
		}
	}
	for about, text := range texts {
		t.Set(prefix+about, text)
	}
}

// Text is all that is wrong, for one line of a status.
func (t *Set) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.texts) == 0 {
		return ""
	}
	first := t.texts[slices.Min(slices.Collect(maps.Keys(t.texts)))]
	if n := len(t.texts) - 1; n > 0 {
		return fmt.Sprintf("%s (and %d more, see the log)", first, n)
	}
	return first
}
