package streamsource

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/docket-export/docket/sources"
)

// handover is a socket that listens already, on its way from the source before.
type handover struct {
	mu sync.Mutex
	ln listener // nil: none; guarded by mu
}

// or returns the socket, once, or else what bind makes.
func (h *handover) or(bind func() (listener, error)) (listener, error) {
	if ln := h.take(); ln != nil {
		return ln, nil
	}
	return bind()
}

func (h *handover) take() listener {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	ln := h.ln
	h.ln = nil
	return ln
}

// drop ends a socket that is of no use: nobody is to wait there.
func (h *handover) drop() {
	if ln := h.take(); ln != nil {
		ln.Retire()
		_ = ln.Close() // nothing was written to it
	}
}

// TakeOver implements sources.Successor.
func (s *source) TakeOver(before sources.Source) {
	b, ok := before.(*source)
	if !ok || s.place == "" || b.place != s.place {
		return
	}
	server := b.server.Load()
	if server == nil {
		return
	}
	ln, err := server.ln.handOver()
	if err != nil {
		s.env.Log.Debug("cannot take over the socket, will open a new one", "error", err)
		return
	}
	s.handover.mu.Lock()
	defer s.handover.mu.Unlock()
	s.handover.ln = ln
}

// handOver returns a listener on the socket of l, and has l leave everybody to that one.
func (l *unixListener) handOver() (listener, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln, err := listenAgain(l.socket.UnixListener)
	if err != nil {
		return nil, err
	}
	s := &unixSocket{ln.(*net.UnixListener), l.socket.file}
	s.SetUnlinkOnClose(false)
	l.left, l.ended = true, true
	return &unixListener{path: l.path, access: l.access, socket: s, from: s}, nil
}

func (l *openListener) handOver() (listener, error) {
	ln, err := listenAgain(l.socketListener)
	if err != nil {
		return nil, err
	}
	l.left.Store(true)
	return &openListener{socketListener: ln.(socketListener)}, nil
}

// listenAgain returns another listener on the socket of ln.
func listenAgain(ln net.Listener) (net.Listener, error) {
	socket, ok := ln.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("a %T cannot be handed over", ln)
	}
	file, err := socket.File()
	if err != nil {
		return nil, err
	}
	defer file.Close() // the listener has a descriptor of its own
	return net.FileListener(file)
}

// leave ends Accept at once.
func leave(l socketListener) {
	// It fails only on a closed listener, and so does Accept.
	_ = l.SetDeadline(time.Unix(1, 0))
}
