package httpsource

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// failureLasts is how long the last refusal of a client counts as a failure, unless
	// something of the same client is accepted before. OPA waits up to 10 minutes
	// until it sends a body again.
	failureLasts = 15 * time.Minute
	// logPause is how long the same refusal is not logged again, and otherPause another.
	logPause   = time.Minute
	otherPause = time.Second
	// maxPath is how much of a path is shown.
	maxPath = 128
)

// failures is what is wrong with a source that runs, for /status and the log. Safe for
// concurrent use.
type failures struct {
	log *slog.Logger

	mu       sync.Mutex
	tokenErr string    // the token cannot be read; guarded by mu
	last     incident  // guarded by mu
	logged   incident  // the last that was logged; guarded by mu
	omitted  int       // refusals since then; guarded by mu
	webAt    time.Time // when Write has logged last; guarded by mu
	webLeft  int       // what it left out since then; guarded by mu
}

// incident is a client that was refused. The zero value is none.
type incident struct {
	peer string // without its port, which is another for each connection
	text string
	at   time.Time
}

// token notes whether the token can be read.
func (t *failures) token(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.tokenErr
	switch {
	case err == nil && was != "":
		t.tokenErr = ""
		t.log.Info("the token can be read again")
	case err != nil && was != err.Error():
		t.tokenErr = err.Error()
		t.log.Error("events are refused; their clients keep them", "error", err)
	}
}

// refused notes what a client was told.
func (t *failures) refused(peer, path string, r refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	path = path[:min(len(path), maxPath)]
	t.last = incident{peer, fmt.Sprintf("POST %q of %s was answered %d: %s", path, peer, r.status, r.text), time.Now()}
	pause := otherPause
	if t.logged.text == t.last.text {
		pause = logPause
	}
	if t.last.at.Sub(t.logged.at) < pause {
		t.omitted++
		return
	}
	t.log.Warn("a client was refused", "peer", peer, "path", path, "status", r.status, "reason", r.text, "omitted", t.omitted)
	t.logged, t.omitted = t.last, 0
}

// accepted notes that a client was answered well.
func (t *failures) accepted(peer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.peer == peer {
		t.last = incident{}
	}
}

// Write logs what the HTTP server has to say: handshakes that failed, above all. Of that
// a line a minute is enough.
func (t *failures) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.webAt) < logPause {
		t.webLeft++
		return len(line), nil
	}
	t.log.Warn("a connection failed", "reason", strings.TrimSpace(string(line)), "omitted", t.webLeft)
	t.webAt, t.webLeft = time.Now(), 0
	return len(line), nil
}

// text is what is wrong now, empty when nothing is.
func (t *failures) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.tokenErr != "":
		return t.tokenErr + ": docket answers 503 until it can read the token"
	case time.Since(t.last.at) < failureLasts:
		return t.last.text
	}
	return ""
}
