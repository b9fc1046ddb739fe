package proc

import "testing"

func TestLogSeen(t *testing.T) {
	tests := map[string]struct {
		before, after []string // writes before and after the call of Seen
		want          bool
	}{
		"before":            {before: []string{"server ready\n"}, want: true},
		"after":             {after: []string{"server ", "ready\n"}, want: true},
		"across two writes": {before: []string{"server re"}, after: []string{"ady\n"}, want: true},
		"byte by byte":      {after: []string{"r", "e", "a", "d", "y"}, want: true},
		"never":             {before: []string{"read"}, after: []string{"server re", "a dy\n"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLog()
			write(l, tt.before)
			seen := l.Seen("ready")
			write(l, tt.after)
			got := false
			select {
			case <-seen:
				got = true
			default:
			}
			if got != tt.want {
				t.Errorf("got seen %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLogTail(t *testing.T) {
	l := newLog()
	write(l, []string{"one\ntwo\n", "three\n"})
	for n, want := range map[int]string{1: "three", 2: "two\nthree", 9: "one\ntwo\nthree"} {
		if got := l.Tail(n); got != want {
			t.Errorf("the last %d lines: got %q, want %q", n, got, want)
		}
	}
}

func write(l *Log, parts []string) {
	for _, part := range parts {
		_, _ = l.Write([]byte(part))
	}
}
