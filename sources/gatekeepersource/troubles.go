package gatekeepersource

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
)

// troubles are what is wrong at present, by what it is about. Each is logged when it
// begins or changes, and when it has ended.
type troubles struct {
	log *slog.Logger

	mu    sync.Mutex
	texts map[string]string // guarded by mu
}

func newTroubles(log *slog.Logger) *troubles {
	return &troubles{log: log, texts: make(map[string]string)}
}

// set says what is wrong with about; "": nothing is any more.
func (t *troubles) set(about, text string) {
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

// setAll is set for everything that is about one of a kind of things, known by the
// beginning of their names: what texts does not have is over.
func (t *troubles) setAll(prefix string, texts map[string]string) {
	t.mu.Lock()
	old := slices.Collect(maps.Keys(t.texts))
	t.mu.Unlock()
	for _, about := range old {
		if len(about) >= len(prefix) && about[:len(prefix)] == prefix {
			t.set(about, texts[about[len(prefix):]])
		}
	}
	for about, text := range texts {
		t.set(prefix+about, text)
	}
}

// text is all that is wrong, for one line of a status.
func (t *troubles) text() string {
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
