package opa

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// clients ask at the same time, each for one decision after the other.
	clients = 4
	// pace is how long a client waits after an answer. It leaves a small machine to
	// OPA and docket, and OPA with little to send when its uploads take long: what
	// matters is that decisions never pause for long.
	pace = 4 * time.Millisecond
)

// load asks for decisions until it is stopped, however often OPA is gone meanwhile.
type load struct {
	quit    context.CancelFunc
	done    sync.WaitGroup
	padding string

	mu       sync.Mutex
	answered map[string]bool // ids of decisions; guarded by mu
}

// startLoad begins to ask e. Inputs carry so many bytes of padding.
func startLoad(t *testing.T, e *engine, padding int) *load {
	t.Helper()
	ctx, quit := context.WithCancel(t.Context())
	l := &load{quit: quit, padding: strings.Repeat("x", padding), answered: make(map[string]bool)}
	for client := range clients {
		l.done.Go(func() { l.run(ctx, e, client) })
	}
	t.Cleanup(func() { l.stop() })
	return l
}

// input is what is decided about. Its client and number find it again in the log.
type input struct {
	User    string `json:"user"`
	Client  int    `json:"client"`
	Number  int    `json:"number"`
	Note    string `json:"note"`
	Padding string `json:"padding"`
}

func (l *load) run(ctx context.Context, e *engine, client int) {
	// A decision that is not waited for any more could be logged after the end of the load.
	http := &http.Client{Timeout: deliverTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer http.CloseIdleConnections()
	wait := time.NewTicker(pace)
	defer wait.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		in := input{User: "alice", Client: client, Number: n, Note: "1.10 <b>&\u2028ünï\t\"quoted\"", Padding: l.padding}
		if n%3 == 0 {
			in.User = "mallory"
		}
		// Without an answer the decision may have been made or not: its number is used.
		if id, err := e.decide(http, in); err == nil {
			l.mu.Lock()
			l.answered[id] = true
			l.mu.Unlock()
		}
		<-wait.C
	}
}

// stop ends the load and returns the ids of the decisions that were answered.
func (l *load) stop() map[string]bool {
	l.quit()
	l.done.Wait()
	return l.answered
}
