package streamsource

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/docket-export/docket/internal/outage"
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

// faultLog logs why connections end. A producer that does not know better comes back at once and
// for ever, so a fault is a warning once, until a connection ends well.
type faultLog struct {
	log    *slog.Logger
	faults outage.Log
}

// report logs the end of the connection of peer.
func (l *faultLog) report(end error, peer string) {
	level := slog.LevelDebug
	switch {
	case errors.Is(end, io.EOF):
		l.faults.Works()
		return
	case isFault(end) && l.faults.Fails(end.Error()):
		level = slog.LevelWarn
	}
	l.log.LogAttrs(context.Background(), level, "closed a connection", slog.Any("reason", end), slog.String("peer", peer))
}

func isFault(end error) bool {
	_, told := errors.AsType[fault](end)
	_, handshake := errors.AsType[handshakeFault](end)
	return told || handshake
}
