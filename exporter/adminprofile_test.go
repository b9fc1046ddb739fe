package exporter

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/fairconn"
)

// profileExporter is one that answers profiles.
func profileExporter(t *testing.T) *Exporter {
	t.Helper()
	e := letterExporter(t)
	e.config().Admin.Pprof = true
	return e
}

// get asks h for path, at a loopback address.
func get(t *testing.T, h http.Handler, path string) (status int, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Host = "127.0.0.1:9464"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestProfilesOnlyWhenEnabled(t *testing.T) {
	for name, tt := range map[string]struct {
		exporter *Exporter
		want     int
	}{
		"by default": {letterExporter(t), http.StatusNotFound},
		"enabled":    {profileExporter(t), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			h := ownHost(tt.exporter.adminHandler(true))
			for _, path := range []string{"", "heap", "goroutine", "goroutine?debug=2", "allocs", "threadcreate", "trace?seconds=0.01", "profile?seconds=1"} {
				if got, body := get(t, h, profilePath+path); got != tt.want {
					t.Errorf("%s: got status %d %q, want %d", path, got, body, tt.want)
				}
			}
		})
	}
}

// The command line is nobody's business, and symbols are in the profiles.
func TestProfilesLeaveOutTheCommandLine(t *testing.T) {
	h := ownHost(profileExporter(t).adminHandler(true))
	for _, path := range []string{"cmdline", "symbol"} {
		if got, body := get(t, h, profilePath+path); got != http.StatusNotFound {
			t.Errorf("%s: got status %d %q, want 404", path, got, body)
		}
	}
}

func TestProfilesAnswerToTheirAddressOnly(t *testing.T) {
	h := ownHost(profileExporter(t).adminHandler(true))
	r := httptest.NewRequest(http.MethodGet, profilePath+"heap", http.NoBody)
	r.Host = "evil.example"
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusMisdirectedRequest {
		t.Errorf("got status %d, want 421", w.Code)
	}
}

func TestProfileOfUnboundedLengthIsRefused(t *testing.T) {
	h := ownHost(profileExporter(t).adminHandler(true))
	gone, cancel := context.WithCancel(t.Context())
	cancel() // so that one that is begun after all ends at once
	for _, seconds := range []string{"301", "1e9", "Inf", "NaN", "-1", "0", "soon"} {
		for _, kind := range []string{"profile", "trace", "heap"} {
			r := httptest.NewRequestWithContext(gone, http.MethodGet, profilePath+kind+"?seconds="+seconds, http.NoBody)
			r.Host = "127.0.0.1:9464"
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "at most 300") {
				t.Errorf("%s of %s seconds: got status %d %q, want 400 that names the bound", kind, seconds, w.Code, w.Body)
			}
		}
	}
}

// deadlineWriter keeps the deadline that a handler sets.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (w *deadlineWriter) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

// A profile takes longer than an answer may. The client goes at once here, so that
// nobody waits for it.
func TestProfileLongerThanAnAnswer(t *testing.T) {
	e := profileExporter(t)
	for _, kind := range []string{"profile", "trace", "heap"} {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), http.ServerContextKey, fairconn.NewEndpoint(nil)))
		cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, profilePath+kind+"?seconds=300", http.NoBody)
		w := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
		least := time.Now().Add(300*time.Second + fairconn.WriteTimeout)
		if e.adminHandler(true).ServeHTTP(w, r); w.deadline.Before(least) {
			t.Errorf("%s of 300 seconds: got the deadline %v, want at least %v", kind, w.deadline, least)
		}
	}
}

// A profile under way must not hold up the end: nobody waits for it.
func TestStopEndsAProfile(t *testing.T) {
	t.Parallel()
	e := profileExporter(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := e.adminHandler(true)
	began, ended := make(chan struct{}), make(chan struct{})
	stop := e.serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		defer close(ended)
		h.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+profilePath+"profile?seconds=300", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if resp, err := (&http.Transport{}).RoundTrip(req); err == nil {
			_ = resp.Body.Close() // how it ends is the server's to say
		}
	}()
	<-began
	stop()
	select {
	case <-ended:
	case <-ctx.Done():
		t.Error("the profile goes on after a minute, want it ended with the endpoint")
	}
}
