package serving

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Told to stop, a server is not ready at once, serves on, asks clients to leave, finishes
// what is in flight, and then drains.
func TestStop(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			began, release := make(chan struct{}), make(chan struct{})
			var drained, finished bool
			mux := http.NewServeMux()
			mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
			mux.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) {
				close(began)
				<-release
				if r.Context().Err() != nil {
					t.Error("the context of a request in flight ended")
				}
				finished = true
				io.WriteString(w, "done")
			})
			r := start(t, Config{Handler: mux, Drain: func(ctx context.Context) error {
				drained = true
				if !finished {
					t.Error("drained before what is in flight was finished")
				}
				return ctx.Err()
			}})
			client := r.pair.client(t, http2)
			if err := probe(t, r.Ready); err != nil {
				t.Fatalf("ready: %v", err)
			}
			answer := make(chan string, 1)
			go func() { answer <- get(client, r.url()+"long") }()
			<-began
			r.cancel()
			r.logs.wait(t, "stopping", 1)
			if err := probe(t, r.Ready); err == nil || !strings.Contains(err.Error(), "stopping") {
				t.Errorf("ready once it was told to stop: got %v, want that it is stopping", err)
			}
			if err := probe(t, r.Live); err != nil {
				t.Errorf("live while it stops: %v", err)
			}
			if got := get(r.pair.client(t, http2), r.url()); got != "" {
				t.Errorf("a new client within ShutdownDelay: got %q", got)
			}
			r.clock <- time.Now()
			r.clock <- time.Now()
			close(release)
			if got := <-answer; got != "done" {
				t.Errorf("request in flight: got %q", got)
			}
			if err := <-r.result; err != nil {
				t.Errorf("Run: %v", err)
			}
			if !drained {
				t.Error("Drain was not called")
			}
			if err := probe(t, r.Live); err == nil {
				t.Error("live after the end")
			}
		})
	}
}

// get returns the body of the answer, or the error.
func get(client *http.Client, url string) string {
	response, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}
