package streamsource

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
)

// farewell is a reason to end a connection that the producer is told.
type farewell string

func (f farewell) Error() string { return string(f) }

const (
	errStopping  farewell = "the exporter is stopping"
	errTakenOver farewell = "another connection of this producer has taken over"
	errNoIntake  farewell = "the exporter takes no lines at the moment"
	errCrowded   farewell = "another user or certificate needs a place, and this connection was idle for longest: connect again"
)

// fault is a farewell that is the producer's own doing. It is told in plain mode
// too, and logged.
type fault string

func (f fault) Error() string { return string(f) }

// errSlowLine says that memory was needed for other lines.
const errSlowLine fault = "a long line took too long, or other connections needed its memory: send the whole line again without a pause"

// handshakeFault is why a TLS handshake has failed. TLS tells the peer; it is
// logged like a fault.
type handshakeFault string

func (f handshakeFault) Error() string { return "tls handshake: " + string(f) }

// reasonFor is what the producer is told about the end of its connection,
// nothing if it was the producer that ended it.
func reasonFor(end error) string {
	if f, ok := errors.AsType[fault](end); ok {
		return string(f)
	}
	f, _ := errors.AsType[farewell](end)
	return string(f)
}

// faultLog logs why connections end. A producer that does not know better comes
// back at once and for ever, so a fault is a warning once an episode: not again
// within a minute, and then with the number of those that were left out.
type faultLog struct {
	log *slog.Logger

	mu   sync.Mutex
	said map[string]*episode // by the text of the fault; guarded by mu
}

type episode struct {
	at      time.Time // of the last warning
	omitted int       // since then
}

// report logs the end of the connection of peer.
func (l *faultLog) report(end error, peer string) {
	attrs := []slog.Attr{slog.Any("reason", end), slog.String("peer", peer)}
	level := slog.LevelDebug
	if isFault(end) {
		if omitted, news := l.news(end.Error()); news {
			level = slog.LevelWarn
			if omitted > 0 {
				attrs = append(attrs, slog.Int("omitted", omitted))
			}
		}
	}
	if !errors.Is(end, io.EOF) {
		l.log.LogAttrs(context.Background(), level, "closed a connection", attrs...)
	}
}

func isFault(end error) bool {
	_, told := errors.AsType[fault](end)
	_, handshake := errors.AsType[handshakeFault](end)
	return told || handshake
}

// news reports whether text has not been logged within the last minute, and how
// often it was left out before that.
func (l *faultLog) news(text string) (omitted int, news bool) {
	const pause, enough = time.Minute, 64
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	e := l.said[text]
	switch {
	case e == nil:
		if len(l.said) >= enough { // texts quote the producer: keep them bounded
			clear(l.said)
		}
		e = new(episode)
		l.said[text] = e
	case now.Sub(e.at) < pause:
		e.omitted++
		return 0, false
	}
	omitted = e.omitted
	*e = episode{at: now}
	return omitted, true
}
