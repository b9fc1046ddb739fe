package policy

import (
	"log/slog"
	"strings"
	"testing"
)

// logged calls itself with each line.
type logged func(line string)

func (f logged) Write(line []byte) (int, error) {
	f(string(line))
	return len(line), nil
}

// What is said to be enforced is enforced: the log and the state say so only when reviews have it.
func TestStateFollowsReviews(t *testing.T) {
	var s *Set
	said := 0
	s = newSet(t, Options{Log: slog.New(slog.NewTextHandler(logged(func(line string) {
		if s == nil || !strings.Contains(line, "generation=3") {
			return
		}
		said++
		if v := s.Review(t.Context(), create(pod)); len(v.Violations) != 1 || v.Violations[0].Message != "label team is asked for" {
			t.Errorf("%sgot the verdict %+v, want that of generation 3", line, v)
		}
	}), nil))}, object(t, regoTemplate), object(t, regoConstraint))
	s.Put(t.Context(), object(t, regoTemplate, "generation: 1", "generation: 2", "sprintf", "sprint")) // which is logged as not enforced
	s.Put(t.Context(), object(t, regoTemplate, "generation: 1", "generation: 3", "is needed", "is asked for"))
	if said != 1 {
		t.Errorf("generation 3 was said to be enforced %d times, want once", said)
	}
}
